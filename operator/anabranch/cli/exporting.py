"""``anabranch baseline export`` and ``check-archive``: a generation as a file, and whether a file is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.archive import ArchiveReader
from anabranch.archive.verifying import VerifiedArchive, verify
from anabranch.cli.calls import call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.cli.progress import progress

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.option("-f", "--file", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--generation", metavar="G", default="current", show_default=True, help="Generation.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Only records of this one; repeatable.")
@output_option
@connection_options
def export(
    *, name: str, target: Path, generation: str, scopes: tuple[str, ...], output: str, connection: Connection
) -> None:
    """Write a generation to a file: every record that you may export, and the hashes of the others.

    FILE appears when it is whole, and its records lead to the root that the manifest names; until then there is
    FILE.part. Interrupted, the same command goes on where it stopped.
    """
    with progress("exporting", total=None) as done:

        async def ask(client: AnabranchClient, namespace: str) -> VerifiedArchive:
            return await client.export(
                namespace, name, target, ref=generation, scopes=list(scopes) or None, progress=done
            )

        verified = call(connection, ask)
    show({"file": str(target), **_told(verified)}, output)


@click.command("check-archive")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--root", metavar="HASH", help="The manifest hash that you trust, sha256:…")
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM of the installation's key: it must have signed the manifest.",
)
@output_option
def check_archive(file: Path, root: str | None, public_key: Path | None, output: str) -> None:
    """Check an archive, without any network: that it is whole, and that its records lead to the root that it names.

    With --root: that this is the root of the generation with this hash. With --public-key: that this key has signed the
    manifest. Without either only that the file agrees with itself, which a forger could arrange too. Exit code 1 where
    it fails.
    """
    with progress("reading", total=None) as done, file.open("rb") as opened:
        verified = verify(
            ArchiveReader(opened),
            root=root,
            public_key=public_key.read_bytes() if public_key else None,
            progress=done,
        )
    show({**_told(verified), "trusted": bool(root or public_key)}, output)


def _told(verified: VerifiedArchive) -> dict[str, Any]:
    manifest, header, trailer = verified.header.manifest, verified.header, verified.trailer
    told: dict[str, Any] = {"kind": header.kind, "records": trailer.records, "scopes": list(verified.scopes)}
    if manifest is not None:
        told |= {
            "baselineId": manifest.baseline_id,
            "generation": manifest.generation,
            "manifestHash": manifest.manifest_hash,
        }
    if header.partial:
        told |= {"partial": True, "withheld": trailer.withheld, "withheldScopes": list(header.withheld_scopes)}
    return told
