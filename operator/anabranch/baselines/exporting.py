"""A manifest as an archive: a stream that is the same, byte for byte, whenever and by whichever process it is made.

Records come in the order of their keys, a few megabytes at a time. Those that the caller may not take away stand as
bare hashes behind them, so that what arrives still leads to the manifest's root. They are put in order before the first
byte goes out, into a temporary file: no transaction is held open for as long as somebody's network takes.

Since a manifest never changes, a transfer that broke off is made again from its beginning and sent from where it broke
off. Nothing is kept for it on this side.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import io
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import zstandard

from anabranch import __version__
from anabranch.archive import ArchiveHeader, ArchiveManifest, ArchiveRecord, ArchiveWriter, WithheldRecord
from anabranch.archive.lines import Envelope
from anabranch.domain.facts import Fact, utc
from anabranch.domain.signing import Signed
from anabranch.model.canonical import canonical_bytes, hash_text
from anabranch.model.errors import ForbiddenError
from anabranch.store import lines, manifests, records, standbys, trie

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence

    from anabranch.archive import ArchiveLimits
    from anabranch.domain.signing import Signer
    from anabranch.store.database import Database
    from anabranch.store.manifests import ManifestRow
    from anabranch.store.records import RecordRow

_SLICE_BYTES: Final = 2 << 20
"""Content that is held at once; one record of a megabyte may come on top."""

_FIRST_SLICE: Final = 16
_MOST_RECORDS: Final = 2_000
_PAIR_BYTES: Final = 64
_PAIRS: Final = 2_048
_CHECK_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What an archive is to hold.

    Attributes:
        manifest: Of which manifest.
        scopes: Whose records it carries, sorted.
        withheld_scopes: Those of the others that the caller may know of, sorted.
        complete: Whether there are no others.
        signer: Signs the manifest; None: nobody does.
        limits: Of the archive; None: those of any.
    """

    manifest: ManifestRow
    scopes: tuple[str, ...]
    withheld_scopes: tuple[str, ...]
    complete: bool
    signer: Signer | None = None
    limits: ArchiveLimits | None = None

    @property
    def tag(self) -> str:
        """Names the archive's bytes: the same tag, the same bytes."""
        made_of = [
            self.manifest.baseline_id,
            hash_text(self.manifest.manifest_hash),
            list(self.scopes),
            list(self.withheld_scopes),
            self.complete,
            self.signer.key_id if self.signer else None,
            _created_by(),
            ".".join(map(str, zstandard.ZSTD_VERSION)),
        ]
        return hashlib.sha256(canonical_bytes(made_of)).hexdigest()[:32]


async def prepare(  # noqa: PLR0913  (an archive has that many bounds)
    db: Database,
    *,
    line: str,
    ref: str,
    allowed: Collection[str],
    readable: Collection[str],
    wanted: Sequence[str] | None,
    signer: Signer | None = None,
) -> Export:
    """Decide what an archive of a manifest is to hold.

    Args:
        db: The store.
        line: The line.
        ref: The manifest: a generation, a baseline id, ``current`` or ``head``.
        allowed: Scopes whose records the caller may take away.
        readable: Scopes that the caller may know of, at least those.
        wanted: Scopes that are asked for; None for all that there are.
        signer: Signs it; None: nobody does.

    Raises:
        ForbiddenError: If a scope that is asked for may not be exported; naming it. Or if none may.
        GoneError: If the manifest was pruned.
        NotFoundError: If there never was such a manifest.
    """
    carried = set(allowed if wanted is None else wanted)
    check_scopes(carried, allowed)
    async with db.connection() as conn:
        manifest = await manifests.resolve(conn, line=line, ref=ref)
        known = set(await lines.scopes(conn, line))
    if known and not carried:
        raise ForbiddenError(
            "There is no scope of this baseline that you may export.",
            hint="Ask for the verbs `read` and `export` on `scopes`.",
            grant="scopes:export",
        )
    withheld = known - carried
    return Export(
        manifest=manifest,
        scopes=tuple(sorted(carried)),
        withheld_scopes=tuple(sorted(withheld & set(readable))),
        complete=not withheld,
        signer=signer,
    )


def check_scopes(carried: Collection[str], allowed: Collection[str]) -> None:
    """Check that an archive may carry the records of some scopes.

    Raises:
        ForbiddenError: Naming one whose records may not be taken away.
    """
    if refused := sorted(set(carried) - set(allowed)):
        raise ForbiddenError(
            f"Records of the scope {refused[0]!r} may not be exported by you.",
            hint="Ask for the verbs `read` and `export` on that scope, or leave it out.",
            grant=f"scopes/{refused[0]}:export",
        )


async def stream(
    db: Database, export: Export, *, offset: int, check: Callable[[], Awaitable[None]], among: asyncio.Semaphore
) -> AsyncGenerator[bytes, None]:
    """The archive's bytes, in pieces of any size.

    Args:
        db: The store.
        export: What `prepare` gave.
        offset: Bytes of it that are left out: those that have arrived already.
        check: Called every few seconds; raises when the caller may not have it any more.
        among: Bounds how many are made at the same time.

    Raises:
        GoneError: If the manifest is pruned meanwhile; what was sent has no trailer, and is no archive.
    """
    left_out = offset
    clock = asyncio.get_running_loop().time
    checked = clock()
    async with among, contextlib.aclosing(_made(db, export)) as pieces:
        async for piece in pieces:
            if clock() - checked > _CHECK_SECONDS:
                await check()
                checked = clock()
            if left_out >= len(piece):
                left_out -= len(piece)
            else:
                yield piece[left_out:]
                left_out = 0


async def _made(db: Database, export: Export) -> AsyncGenerator[bytes, None]:
    with tempfile.TemporaryFile(prefix="anabranch-withheld-") as file:
        spool = cast("BinaryIO", file)
        withheld = 0 if export.complete else await _spool(db, export, spool)
        async with contextlib.aclosing(_written(db, export, spool, partial=bool(withheld))) as pieces:
            async for piece in pieces:
                yield piece


async def _written(db: Database, export: Export, spool: BinaryIO, *, partial: bool) -> AsyncGenerator[bytes, None]:
    manifest = export.manifest
    header = ArchiveHeader(
        kind="export",
        created_by=_created_by(),
        manifest=ArchiveManifest(
            line=manifest.line,
            baseline_id=manifest.baseline_id,
            generation=manifest.generation,
            manifest_hash=hash_text(manifest.manifest_hash),
        ),
        partial=partial,
        withheld_scopes=export.withheld_scopes if partial else (),
        signature=Envelope.model_validate(export.signer.sign(signed(manifest))) if export.signer else None,
    )
    output = io.BytesIO()
    # Left by an exception, the archive stays without its trailer.
    with ArchiveWriter(output, header, limits=export.limits) as writer:
        async for rows in _slices(db, export):
            await asyncio.to_thread(_write, writer, rows)
            if piece := _taken(output):
                yield piece
        while pairs := await asyncio.to_thread(spool.read, _PAIRS * _PAIR_BYTES):
            await asyncio.to_thread(_withhold, writer, pairs)
            if piece := _taken(output):
                yield piece
    yield _taken(output)


async def _slices(db: Database, export: Export) -> AsyncGenerator[list[RecordRow], None]:
    """The records, as many at a time as can well be held."""
    after, wanted, more = "", _FIRST_SLICE, True
    while more:
        page = await standbys.read(
            db,
            line=export.manifest.line,
            baseline_ids=[export.manifest.baseline_id],
            work=functools.partial(
                records.page,
                line=export.manifest.line,
                generation=export.manifest.generation,
                after_key=after,
                limit=wanted,
                scopes=export.scopes,
                tombstones=True,
                size=_SLICE_BYTES,
            ),
        )
        if rows := list(page.records):
            yield rows
            after, wanted = rows[-1].key, min(_MOST_RECORDS, 2 * len(rows))
        more = page.more


async def _spool(db: Database, export: Export, spool: BinaryIO) -> int:
    """Put the hashes of what is withheld in order; how many records that is."""
    count = 0
    async with db.transaction() as conn:
        found = trie.pairs_outside(
            conn, line=export.manifest.line, generation=export.manifest.generation, scopes=export.scopes
        )
        async with contextlib.aclosing(found):
            async for pairs in found:
                await asyncio.to_thread(spool.write, b"".join(key + descriptor for key, descriptor in pairs))
                count += len(pairs)
    await asyncio.to_thread(spool.seek, 0)
    return count


def signed(manifest: ManifestRow) -> Signed:
    """What a signature of a manifest binds."""
    return Signed(
        line=manifest.line,
        generation=manifest.generation,
        baseline_id=manifest.baseline_id,
        manifest_hash=hash_text(manifest.manifest_hash),
        feed_watermark=manifest.feed_watermark,
    )


def _write(writer: ArchiveWriter, rows: Sequence[RecordRow]) -> None:
    for row in rows:
        writer.write(_record(row))


def _withhold(writer: ArchiveWriter, pairs: bytes) -> None:
    for start in range(0, len(pairs), _PAIR_BYTES):
        key, descriptor = pairs[start : start + 32], pairs[start + 32 : start + _PAIR_BYTES]
        writer.withhold(WithheldRecord(key_hash=hash_text(key), descriptor_hash=hash_text(descriptor)))


def _record(row: RecordRow) -> ArchiveRecord:
    fact = Fact() if row.fact_body is None else Fact.parse(row.fact_body)
    return ArchiveRecord(
        key=row.key,
        scope=row.scope,
        body=b"null" if row.body is None else row.body,
        content_hash=hash_text(row.content_hash),
        source_locators=fact.source_locators,
        origin_runs=fact.origin_runs,
        revision=row.revision,
        supersedes=fact.supersedes,
        retracted_sources=fact.retracted_sources,
        validated_at=None if fact.validated_at is None else utc(fact.validated_at),
        fact_hash=hash_text(row.fact_hash),
        tombstone=row.tombstone,
    )


def _taken(output: io.BytesIO) -> bytes:
    """What was written since the last call."""
    piece = output.getvalue()
    output.seek(0)
    output.truncate()
    return piece


def _created_by() -> str:
    return f"anabranch {__version__}"
