"""The records of a manifest as readers get them: one, a page, with proof, and what differs between two manifests.

Whoever asks names the scopes that the reader may see; they are part of each query, so a hidden record looks like an
absent one. A proof is given only for a record that may be read: a proof of absence would tell whether there is a
hidden one.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Final, Protocol

from anabranch.domain.facts import Fact
from anabranch.domain.proven import ProvenRecord
from anabranch.model.answers import DiffEntry
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.limits import PAGE_BYTES
from anabranch.model.objects import PublishedFact, RecordDescriptor
from anabranch.store import diffs, records, standbys, trie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.objects import ManifestRef
    from anabranch.store.database import Database
    from anabranch.store.reader import Reader
    from anabranch.store.records import RecordRow


_NO_ORIGIN: Final = Fact().canonical()


class Version(Protocol):
    """A version of a record with its bodies."""

    @property
    def revision(self) -> int:
        """The line's revision that wrote it."""

    @property
    def scope(self) -> str:
        """Where it is visible."""

    @property
    def content_hash(self) -> bytes:
        """32 bytes."""

    @property
    def fact_hash(self) -> bytes:
        """32 bytes."""

    @property
    def tombstone(self) -> bool:
        """Whether it deletes the key."""

    @property
    def body(self) -> bytes | None:
        """Canonical JSON; None for a tombstone."""

    @property
    def fact_body(self) -> bytes | None:
        """Canonical JSON of its provenance."""


async def one(reader: Reader, *, line: str, generation: int | None, key: str, scopes: Sequence[str]) -> RecordRow:
    """One record of a manifest (None: the current one), deleted keys included.

    Raises:
        NotFoundError: If the manifest has none, or none in these scopes; or if the Baseline was deleted.
        GoneError: If the manifest was pruned.
    """
    found, row = await reader.read(line=line, generation=generation, key=key, scopes=scopes)
    if row is None:
        raise NotFoundError(
            f"Generation {found} has no record {key!r} that you may read.",
            hint="Check the key, or ask for `read` on its scope.",
        )
    return row


async def proven(reader: Reader, *, line: str, manifest: ManifestRef, key: str, scopes: Sequence[str]) -> ProvenRecord:
    """One record of a manifest with its proof.

    Raises:
        NotFoundError: If the manifest has none, or none in these scopes; or if the Baseline was deleted.
        GoneError: If the manifest was pruned.
    """
    row = await one(reader, line=line, generation=manifest.generation, key=key, scopes=scopes)
    proof = await standbys.read(
        reader.db,
        line=line,
        baseline_ids=[manifest.baseline_id],
        work=lambda conn: trie.prove(conn, line=line, generation=manifest.generation, key=key),
    )
    return ProvenRecord(manifest=manifest, record=fact(key, row), proof=proof)


async def page(  # noqa: PLR0913  (a page has that many bounds)
    db: Database,
    *,
    line: str,
    manifest: ManifestRef,
    scopes: Sequence[str],
    after_key: str,
    limit: int,
    prefix: str,
    tombstones: bool,
) -> tuple[Sequence[RecordRow], bool]:
    """Records of a manifest by key, up to a number, and up to a size that a process can well hold.

    Args:
        db: The store.
        line: The line.
        manifest: Which.
        scopes: Those to be seen.
        after_key: The last key of the page before.
        limit: How many at most.
        prefix: Only keys that begin so.
        tombstones: Whether deleted keys are listed too.

    Returns:
        The records, and whether there may be more.

    Raises:
        GoneError: If the manifest was pruned.
    """
    found = await standbys.read(
        db,
        line=line,
        baseline_ids=[manifest.baseline_id],
        work=lambda conn: records.page(
            conn,
            line=line,
            generation=manifest.generation,
            after_key=after_key,
            limit=limit,
            scopes=scopes,
            prefix=prefix,
            tombstones=tombstones,
            size=PAGE_BYTES,
        ),
    )
    return found.records, found.more


async def diff(  # noqa: PLR0913  (a page has that many bounds)
    db: Database,
    *,
    line: str,
    before: ManifestRef,
    after: ManifestRef,
    scopes: Sequence[str],
    after_key: str,
    limit: int,
) -> list[DiffEntry]:
    """What differs between two manifests, by key; see `anabranch.store.diffs`."""
    found = await standbys.read(
        db,
        line=line,
        baseline_ids={before.baseline_id, after.baseline_id},
        work=lambda conn: diffs.page(
            conn,
            line=line,
            from_generation=before.generation,
            to_generation=after.generation,
            after_key=after_key,
            limit=limit,
            scopes=scopes,
        ),
    )
    return [DiffEntry(key=row.key, before=_descriptor(row.before), after=_descriptor(row.after)) for row in found]


def fact(key: str, row: Version) -> PublishedFact:
    """A stored version as it travels.

    It was checked when it came in. It is not checked again, since a rule that has become stricter must not make what is
    published unreadable.
    """
    origin = Fact() if row.fact_body is None else Fact.parse(row.fact_body)
    return PublishedFact.model_construct(
        key=key,
        revision=str(row.revision),
        scope=row.scope,
        content=None if row.body is None else json.loads(row.body),
        content_hash=hash_text(row.content_hash),
        fact_hash=hash_text(row.fact_hash),
        source_locators=origin.source_locators,
        origin_runs=origin.origin_runs,
        validated_at=origin.validated_at,
        supersedes=tuple(map(str, origin.supersedes)),
        tombstone=row.tombstone,
        state=origin.state,
        retracted_sources=origin.retracted_sources,
    )


def fact_json(row: RecordRow) -> bytes:
    """A stored version as it travels, in JSON: what `fact` gives, without taking apart what is stored in JSON."""
    origin = row.fact_body or _NO_ORIGIN
    # No text in JSON holds an unescaped quote, so these bytes are the member's name.
    state = '"sourceRetracted"' if b'"retracted_sources":' in origin else '"reviewed","retracted_sources":[]'
    head = (
        f'{{"key":{_quoted(row.key)},"revision":"{row.revision}","scope":"{row.scope}","content_hash":'
        f'"{hash_text(row.content_hash)}","fact_hash":"{hash_text(row.fact_hash)}","tombstone":'
        f'{"true" if row.tombstone else "false"},"state":{state},"content":'
    )
    return b"".join((head.encode(), row.body or b"null", b",", origin[1:]))


def _descriptor(row: RecordRow | None) -> RecordDescriptor | None:
    if row is None:
        return None
    return RecordDescriptor.model_construct(
        key=row.key,
        revision=str(row.revision),
        scope=row.scope,
        content_hash=hash_text(row.content_hash),
        fact_hash=hash_text(row.fact_hash),
        tombstone=row.tombstone,
    )
