"""``anabranch baseline prove`` and ``check-proof``: one record for somebody who trusts nothing but a manifest hash.

Whoever holds the hash, from a signed release, a ticket or their own notes, can check the file years later, with the
service gone: no network, no account.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click
from pydantic import ValidationError

from anabranch.cli.calls import call
from anabranch.cli.completion import names
from anabranch.cli.connection import Connection, connection_options
from anabranch.cli.output import output_option, show
from anabranch.domain.proven import ProvenRecord
from anabranch.model.canonical import hash_bytes
from anabranch.model.errors import DigestMismatchError, InvalidInputError
from anabranch.model.misfits import misfits, told

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient


@click.command()
@click.argument("name", shell_complete=names("baselines"))
@click.argument("key")
@click.option("--generation", metavar="G", default="current", show_default=True, help="Generation.")
@click.option(
    "-o", "--output", "target", type=click.File("w", lazy=True), default="-", metavar="FILE",
    help="Where to write it.  [default: standard output]",
)  # fmt: skip
@connection_options
def prove(*, name: str, key: str, generation: str, target: IO[str], connection: Connection) -> None:
    """Write down a record with the proof that a generation has exactly this one.

    The proof names no other record. Check it by `baseline check-proof FILE --root HASH`, with the hash that
    `baseline history` shows.
    """

    async def ask(client: AnabranchClient, namespace: str) -> ProvenRecord:
        return await client.record(namespace, name, key, ref=generation, proof=True)

    proven = call(connection, ask)
    proven.check(proven.manifest.manifest_hash)
    target.write(proven.model_dump_json(indent=2) + "\n")
    click.echo(f"Generation {proven.manifest.generation} of {name}, root {proven.manifest.manifest_hash}.", err=True)


@click.command("check-proof")
@click.argument("file", type=click.File("rb"))
@click.option("--root", metavar="HASH", help="The manifest hash that you trust, sha256:…")
@output_option
def check_proof(file: IO[bytes], root: str | None, output: str) -> None:
    """Check a proof that `baseline prove` wrote, without any network. FILE may be `-`.

    With --root: that the generation with this hash has exactly this record, content and sources included. Without it
    only that the file agrees with itself, which a forger could arrange too. Exit code 1 where it fails.
    """
    proven = parse(file.read(), name=file.name)
    claimed = proven.manifest.manifest_hash
    if root is not None and hash_bytes(root) != hash_bytes(claimed):
        raise DigestMismatchError(
            f"The proof is for the root {claimed}, not for {root}.",
            hint="Ask for one of the generation that you trust: baseline prove --generation.",
        )
    proven.check(claimed)
    record = proven.record
    found = {
        "key": record.key,
        "revision": record.revision,
        "scope": record.scope,
        "content": record.content,
        "sources": list(record.source_locators),
        "root": claimed,
        "trusted": root is not None,
    }
    if root is None:
        found["note"] = (
            "The file agrees with itself. Whether it is genuine shows only against a root that you trust: --root."
        )
    show(found, output)


def parse(text: bytes, *, name: str) -> ProvenRecord:
    """The proof that a file holds.

    Raises:
        InvalidInputError: If it holds none.
    """
    try:
        return ProvenRecord.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInputError(
            f"{name} is no proof: {told(misfits(error.errors()))}", hint="Pass what `baseline prove` wrote, unchanged."
        ) from None
