"""``anabranch manifests``: what an installation applies, for ``kubectl apply -f -``."""

from __future__ import annotations

import click

from anabranch import manifests


@click.command()
@click.option("--namespace", default=manifests.DEFAULT_NAMESPACE, show_default=True, help="The system namespace.")
@click.option("--audience", help="Of tokens for the API.  [default: anabranch.<namespace>]")
@click.option("--crds/--no-crds", default=True, show_default=True, help="Whether the definitions are printed too.")
def command(namespace: str, audience: str | None, *, crds: bool) -> None:
    """Print the resources that an installation needs: CRDs, accounts, roles, admission policies."""
    objects = manifests.crds() if crds else []
    click.echo(manifests.dump([*objects, *manifests.install(namespace=namespace, audience=audience)]), nl=False)
