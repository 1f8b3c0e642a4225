"""``anabranch manifests``: what an installation applies, for ``kubectl apply --server-side -f -``."""

from __future__ import annotations

import re
from typing import Final

import click

from anabranch import manifests

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no name of a namespace: lower-case letters, digits and hyphens.")
    return value


@click.command()
@click.option(
    "--namespace",
    metavar="NAME",
    default=manifests.DEFAULT_NAMESPACE,
    show_default=True,
    callback=_namespace,
    help="The system namespace.",
)
@click.option("--audience", metavar="NAME", help="Of tokens for the API.  [default: anabranch.<namespace>]")
@click.option("--crds/--no-crds", default=True, show_default=True, help="Whether the definitions are printed too.")
def command(namespace: str, audience: str | None, *, crds: bool) -> None:
    """Print what an installation needs: definitions, accounts, roles, admission policies.

    Apply it by `anabranch manifests | kubectl apply --server-side -f -`.
    """
    objects = manifests.crds() if crds else []
    click.echo(manifests.dump([*objects, *manifests.install(namespace=namespace, audience=audience)]), nl=False)
