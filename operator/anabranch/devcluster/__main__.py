"""The local cluster by hand: ``python -m anabranch.devcluster build | up | load-image | down | status``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from anabranch.devcluster import binaries, controlplane, folders, image, node
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import images, namespaces

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
@click.option("--node", "with_node", is_flag=True, help="Those of a node, and Helm, too.")
def build(*, with_node: bool) -> None:
    """Build the programs that the cache lacks, and print their folders."""
    names = binaries.PROGRAMS if with_node else binaries.CONTROL_PLANE
    binaries.ensure(names, say=say)
    for folder in dict.fromkeys(binaries.path(name).parent for name in names):
        print(folder)


@cli.command()
@folder_option
@click.option("--audit", is_flag=True, help="Log each request in DIR/log/audit.log.")
@click.option("--node", "with_node", is_flag=True, help="With a node, on which pods run: as root, one on a machine.")
def up(folder: Path, *, audit: bool, with_node: bool) -> None:
    """Start a cluster, and print what a shell must evaluate to use it."""
    if with_node:
        cluster = node.up(folder, durable=True, audit=audit, say=say)
        binaries.ensure(binaries.HELM, say=say)
    elif node.exists(folder):
        raise DevclusterError(f"The cluster in {folder} has a node.", hint="Start it with --node, or take it down.")
    else:
        cluster = controlplane.up(folder, durable=True, audit=audit, say=say)
    names = binaries.CONTROL_PLANE | (binaries.HELM if with_node else {})
    path = ":".join(dict.fromkeys(str(binaries.path(name).parent) for name in names))
    print(f"export KUBECONFIG={cluster.kubeconfig}\nexport PATH={path}:$PATH")


@cli.command("load-image")
@folder_option
@click.argument("archives", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def load_image(folder: Path, archives: tuple[Path, ...]) -> None:
    """Make the images of docker or OCI archives known to the node."""
    for archive in archives:
        print(images.load(namespaces.processes(folder), archive))


@cli.command("image")
@click.option(
    "--output",
    "archive",
    type=click.Path(path_type=Path, dir_okay=False),
    default=image.REPOSITORY / "artifacts/anabranch-image.tar",
    help="Where to save it: a docker archive.  [default: artifacts/anabranch-image.tar]",
)
def build_image(archive: Path) -> None:
    """Build the container image of this checkout, and save it."""
    built = image.build(archive, say=say)
    print(f"name    {built.name}\nimage   {built.digest}")
    for layer in built.layers:
        print(f"layer   {layer}")
    print(f"size    {built.size / 1e6:.1f} MB\nsaved   {built.archive}")


@cli.command()
@folder_option
@click.option("--keep-data", is_flag=True, help="Only stop it: `up` goes on from there.")
def down(folder: Path, *, keep_data: bool) -> None:
    """Stop a cluster, and delete its folder."""
    (node if node.exists(folder) else controlplane).down(folder, keep_data=keep_data)


@cli.command()
@folder_option
def status(folder: Path) -> None:
    """Show what runs; exit 1 unless everything does."""
    components = (node if node.exists(folder) else controlplane).status(folder)
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
