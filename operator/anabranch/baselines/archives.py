"""The upload of an archive: from the network to a temporary file, and from there into Postgres in one transaction.

The network may take as long as it likes; no transaction waits for it, and nothing is kept in memory but a piece. A
digest that is wrong costs Postgres nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, cast

from anabranch.model.answers import ArchiveState
from anabranch.model.canonical import hash_text
from anabranch.model.errors import DigestMismatchError, NotFoundError
from anabranch.store import archives, lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from anabranch.store.archives import ArchiveRow
    from anabranch.store.database import Database


async def upload(
    db: Database, *, line: str, digest: bytes, uploaded_by: str, chunks: AsyncIterable[bytes]
) -> tuple[ArchiveState, bool]:
    """Keep an archive, and have its Baseline looked at again.

    Args:
        db: The store.
        line: The Baseline's.
        digest: SHA-256 that the bytes must have, 32 bytes.
        uploaded_by: Username of the caller.
        chunks: The bytes in pieces of any size, as they arrive; bounded by the caller.

    Returns:
        What is kept, and whether it is new.

    Raises:
        DigestMismatchError: If the bytes have another digest.
    """
    async with db.connection() as conn:
        known = await archives.find(conn, line=line, digest=digest)
    with tempfile.TemporaryFile(prefix="anabranch-archive-") as spool:
        await _spool(cast("BinaryIO", spool), chunks, digest)
        row = known or await archives.save(
            db, line=line, digest=digest, uploaded_by=uploaded_by, chunks=_pieces(cast("BinaryIO", spool))
        )
    # Also for one that is known: whoever uploaded it may have died before this.
    async with db.connection() as conn:
        await lines.set_due(conn, line=line, delay=timedelta())
    db.notify("work")
    return _state(row), known is None


async def find(db: Database, *, line: str, digest: bytes) -> ArchiveState:
    """An archive that was uploaded for a Baseline.

    Raises:
        NotFoundError: If there is none with this digest.
    """
    async with db.connection() as conn:
        row = await archives.find(conn, line=line, digest=digest)
    if row is None:
        raise NotFoundError(f"There is no archive {hash_text(digest)}.", hint="Upload it.")
    return _state(row)


async def _spool(spool: BinaryIO, chunks: AsyncIterable[bytes], digest: bytes) -> None:
    hashed = hashlib.sha256()
    async for chunk in chunks:
        hashed.update(chunk)
        await asyncio.to_thread(spool.write, chunk)
    if hashed.digest() != digest:
        raise DigestMismatchError(
            f"The bytes that arrived are {hash_text(hashed.digest())}, not {hash_text(digest)}.",
            hint="Upload it again, whole; if it stays, check that the path names the file's digest.",
        )
    await asyncio.to_thread(spool.seek, 0)


async def _pieces(spool: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(spool.read, archives.CHUNK_BYTES):
        yield piece


def _state(row: ArchiveRow) -> ArchiveState:
    return ArchiveState(digest=hash_text(row.digest), size=row.size, created_at=row.created_at)
