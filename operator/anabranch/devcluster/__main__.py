"""The local control plane by hand: ``python -m anabranch.devcluster build | up | down | status``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from anabranch.devcluster import binaries, controlplane, folders
from anabranch.devcluster.errors import DevclusterError

say = partial(print, file=sys.stderr, flush=True)  # apart from what a shell evaluates

folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: folders.state() / "default",
    show_default="a folder that stays",
    help="The cluster's folder: each is a cluster of its own.",
)


@click.group(help=__doc__)
def cli() -> None:
    """Groups the commands."""


@cli.command()
def build() -> None:
    """Build the programs that the cache lacks, and print their folder."""
    print(binaries.ensure(say=say))


@cli.command()
@folder_option
@click.option("--audit", is_flag=True, help="Log each request in DIR/log/audit.log.")
def up(folder: Path, *, audit: bool) -> None:
    """Start a control plane, and print what a shell must evaluate to use it."""
    cluster = controlplane.up(folder, durable=True, audit=audit, say=say)
    print(f"export KUBECONFIG={cluster.kubeconfig}\nexport PATH={cluster.kubectl_path.parent}:$PATH")


@cli.command()
@folder_option
@click.option("--keep-data", is_flag=True, help="Only stop it: `up` goes on from there.")
def down(folder: Path, *, keep_data: bool) -> None:
    """Stop a control plane, and delete its folder."""
    controlplane.down(folder, keep_data=keep_data)


@cli.command()
@folder_option
def status(folder: Path) -> None:
    """Show what runs; exit 1 unless everything does."""
    components = controlplane.status(folder)
    for component in components:
        state = f"pid {component.pid:<8} {component.memory >> 20:5} MiB" if component.pid else "not running"
        print(f"{component.name:24} {state}")
    if not all(component.pid for component in components):
        sys.exit(1)


if __name__ == "__main__":
    try:
        cli(prog_name="python -m anabranch.devcluster")
    except DevclusterError as failure:
        sys.exit(f"devcluster: {failure}")
