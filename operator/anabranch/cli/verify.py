"""``anabranch baseline verify``: the root computed on this side of the API, so that nobody takes its word for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.calls import call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.cli.progress import progress
from anabranch.domain import signing
from anabranch.domain.proven import check_digests, descriptor_of
from anabranch.domain.trie import root_of
from anabranch.model.canonical import hash_text
from anabranch.model.errors import DigestMismatchError

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient
    from anabranch.model.objects import BaselineManifest, PublishedFact


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.option("--generation", type=click.IntRange(min=1), help="[default: the current one]")
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="PEM of the installation's key: it must have signed the manifest.",
)
@output_option
@connection_options
def verify(*, name: str, generation: int | None, public_key: Path | None, output: str, connection: Connection) -> None:
    """Recompute a generation's root from its records, as read through the API.

    Checks that every content and its provenance are what their hashes say, and that the hashes lead to the root that
    the manifest names. Exit code 1 where they do not. Records in scopes that you may not read are missing from the
    computation; then nothing can be said, and the command says so.
    """
    key = public_key.read_bytes() if public_key else None

    async def ask(client: AnabranchClient, namespace: str) -> dict[str, Any]:
        manifest = await client.manifest(namespace, name, generation or "current")
        if key is not None:
            signed = signing.check(await client.signature(namespace, name, manifest.generation), public_key=key)
            signing.check_same(
                signed,
                baseline_id=manifest.baseline_id,
                generation=manifest.generation,
                manifest_hash=manifest.manifest_hash,
                feed_watermark=manifest.feed_watermark,
            )
        computation = Computation()
        with progress("verifying", total=manifest.records) as done:
            async for fact in client.records(namespace, name, manifest.generation, tombstones=True):
                computation.add(fact)
                done(computation.live)
        told = {"baseline": f"{namespace}/{name}", **computation.compare(manifest)}
        return told if key is None else {**told, "signed": True}

    result = call(connection, ask)
    show(result, output)
    if not result["verified"]:
        raise click.exceptions.Exit(1)


class Computation:
    """Takes a manifest's records and compares what they amount to with what the manifest says."""

    def __init__(self) -> None:
        self.live = 0
        """Records that are not deleted, so far."""
        self._altered: list[str] = []
        self._pairs: list[tuple[bytes, bytes]] = []

    def add(self, fact: PublishedFact) -> None:
        """Take a record, deleted ones too."""
        try:
            check_digests(fact)
        except DigestMismatchError:
            self._altered.append(fact.key)
        self._pairs.append(descriptor_of(fact).pair)
        self.live += not fact.tombstone

    def compare(self, manifest: BaselineManifest) -> dict[str, Any]:
        """What was found: ``verified`` only where every record was read and is what it says, and the roots agree."""
        root = hash_text(root_of(sorted(self._pairs)))
        same = root == manifest.manifest_hash
        result: dict[str, Any] = {
            "generation": manifest.generation,
            "manifestHash": manifest.manifest_hash,
            "computed": root,
            "records": self.live,
            "verified": same and not self._altered,
        }
        if self._altered:
            result["altered"] = self._altered
        if self.live < manifest.records:
            result["note"] = (
                f"{manifest.records - self.live} of {manifest.records} records are in scopes that this token may not "
                "read: the root cannot be computed without them."
            )
        elif not same and not self._altered:
            result["note"] = (
                "Every record was read, and they are not what the manifest's hash stands for. Only deleted keys in "
                "scopes that this token may not read would explain it: try with one that may read all scopes."
            )
        return result
