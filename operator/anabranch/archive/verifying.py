"""Whether an export is what its manifest says: every record's digests, and the root that all of them lead to.

Records come in the order of their keys, the trie is built in the order of their hashes. So the hashes are sorted once,
in a private SQLite file: memory is bounded, whatever the archive's size.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from anabranch.archive.errors import ArchiveDigestError
from anabranch.archive.record import ArchiveRecord
from anabranch.domain import signing
from anabranch.domain.facts import Fact
from anabranch.domain.trie import Descriptor, root_of
from anabranch.model.canonical import hash_bytes, hash_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from anabranch.archive.lines import ArchiveHeader, ArchiveTrailer
    from anabranch.archive.reader import ArchiveReader
    from anabranch.archive.record import WithheldRecord
    from anabranch.domain.trie import Pair

_TOLD_EVERY: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedArchive:
    """An archive that is whole, and that agrees with itself.

    Attributes:
        header: Its first line.
        trailer: Its last line.
        scopes: Those that its records are in, sorted.
    """

    header: ArchiveHeader
    trailer: ArchiveTrailer
    scopes: tuple[str, ...]


def verify(
    reader: ArchiveReader,
    *,
    root: str | None = None,
    public_key: bytes | None = None,
    progress: Callable[[int], None] | None = None,
) -> VerifiedArchive:
    """Read an archive to its end, and check everything that it says of itself.

    Args:
        reader: That has not been read from.
        root: A manifest hash that is trusted, ``sha256:…``: the archive must be an export of that manifest.
        public_key: PEM of a key that is trusted: it must have signed the archive's manifest.
        progress: Takes the number of records read so far.

    Raises:
        ArchiveDigestError: If a record is not what its hashes say, or all of them do not lead to the manifest's root,
            or that is not the trusted one.
        ArchiveFormatError: If it is ill-formed.
        ArchiveTornError: If it is not whole.
        ArchiveTooLargeError: If it is over a limit.
        SignatureError: If the trusted key has not signed its manifest.
    """
    claimed = reader.header.manifest
    if root is not None and (claimed is None or hash_bytes(claimed.manifest_hash) != hash_bytes(root)):
        found = "has no manifest" if claimed is None else f"is of the manifest {claimed.manifest_hash}"
        raise ArchiveDigestError(f"The archive {found}, not {root}.", hint="Export the generation that you trust.")
    if public_key is not None:
        _check_signature(reader.header, public_key)
    scopes: set[str] = set()
    # An empty name: a temporary file of SQLite's own, gone when it is closed.
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
            "CREATE TABLE pairs (key BLOB PRIMARY KEY, descriptor BLOB) WITHOUT ROWID; BEGIN"
        )
        pairs = _pairs(_told(reader, progress), scopes, of_export=claimed is not None)
        try:
            database.executemany("INSERT INTO pairs VALUES (?, ?)", pairs)
        except sqlite3.IntegrityError:
            raise ArchiveDigestError(
                "A record is carried and withheld at once.", hint="The archive was altered; export it again."
            ) from None
        if claimed is not None:
            computed = hash_text(root_of(database.execute("SELECT key, descriptor FROM pairs ORDER BY key")))
            if computed != claimed.manifest_hash:
                raise ArchiveDigestError(
                    f"The records lead to the root {computed}, and the archive says {claimed.manifest_hash}.",
                    hint="The archive was altered; export it again.",
                )
    return VerifiedArchive(header=reader.header, trailer=reader.trailer, scopes=tuple(sorted(scopes)))


def _check_signature(header: ArchiveHeader, public_key: bytes) -> None:
    if header.manifest is None or header.signature is None:
        raise signing.SignatureError("The archive is not signed.", hint="Export it where manifests are signed.")
    found = signing.check(header.signature.model_dump(mode="json"), public_key=public_key)
    manifest = header.manifest
    signing.check_same(
        found,
        baseline_id=manifest.baseline_id,
        generation=manifest.generation,
        manifest_hash=manifest.manifest_hash,
        **({} if manifest.line is None else {"line": manifest.line}),
    )


def _told(
    entries: Iterable[ArchiveRecord | WithheldRecord], progress: Callable[[int], None] | None
) -> Iterator[ArchiveRecord | WithheldRecord]:
    for count, entry in enumerate(entries, start=1):
        yield entry
        if progress is not None and count % _TOLD_EVERY == 0:
            progress(count)


def _pairs(entries: Iterable[ArchiveRecord | WithheldRecord], scopes: set[str], *, of_export: bool) -> Iterator[Pair]:
    for entry in entries:
        if not isinstance(entry, ArchiveRecord):
            yield hash_bytes(entry.key_hash), hash_bytes(entry.descriptor_hash)
            continue
        scopes.add(entry.scope)
        if of_export:
            yield _pair(entry)


def _pair(record: ArchiveRecord) -> Pair:
    moment = None if record.validated_at is None else datetime.fromisoformat(record.validated_at)
    fact = Fact(
        source_locators=record.source_locators,
        origin_runs=record.origin_runs,
        validated_at=moment,
        supersedes=record.supersedes,
        retracted_sources=record.retracted_sources,
    )
    if fact.hash != hash_bytes(record.fact_hash or ""):  # an export's records have one
        raise ArchiveDigestError(
            f"The sources of {record.key!r} are not what its fact_hash says.",
            hint="The archive was altered; export it again.",
        )
    return Descriptor(
        key=record.key,
        revision=record.revision or 0,
        scope=record.scope,
        content_hash=hash_bytes(record.content_hash),
        fact_hash=fact.hash,
        tombstone=record.tombstone,
    ).pair
