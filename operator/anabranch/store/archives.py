"""Uploaded archives: kept whole or not at all, in pieces of at most 1 MiB.

The row in ``archives`` comes with the last piece, in one transaction, after the digest of what came was found right:
who sees the row sees a whole archive. Uploading the same again changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.model.canonical import hash_text
from anabranch.model.errors import DigestMismatchError, TooLargeError
from anabranch.model.limits import ARCHIVE_BYTES
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator
    from datetime import datetime

    from anabranch.store.database import Connection, Database

_sql: Final = queries.load("archives")

CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRow:
    """An uploaded archive.

    Attributes:
        line: The line that it was uploaded for.
        digest: SHA-256 of its bytes.
        size: How many bytes.
        uploaded_by: Username of the identity that did it.
        created_at: When.
    """

    line: str
    digest: bytes
    size: int
    uploaded_by: str
    created_at: datetime


async def find(conn: Connection, *, line: str, digest: bytes) -> ArchiveRow | None:
    """A whole archive, or None."""
    row = await _sql.find(conn, line=line, digest=digest)
    return None if row is None else ArchiveRow(**row)


async def save(db: Database, *, line: str, digest: bytes, uploaded_by: str, chunks: AsyncIterable[bytes]) -> ArchiveRow:
    """Keep an archive.

    Args:
        db: The database.
        line: For which line.
        digest: SHA-256 that the bytes must have.
        uploaded_by: Username of the identity that uploads.
        chunks: The bytes in pieces of any size. They are to be at hand (a spooled file): the transaction is open while
            they come.

    Raises:
        DigestMismatchError: If the bytes have another digest; nothing is kept.
        TooLargeError: If there are too many; nothing is kept.
    """
    async with db.connection() as conn:
        if (known := await find(conn, line=line, digest=digest)) is not None:
            return known
    try:
        async with db.transaction() as conn:
            return await _save(conn, line=line, digest=digest, uploaded_by=uploaded_by, chunks=chunks)
    except asyncpg.UniqueViolationError:
        # Somebody else has uploaded the same meanwhile.
        async with db.connection() as conn:
            if (known := await find(conn, line=line, digest=digest)) is None:
                raise
            return known


async def read(conn: Connection, *, line: str, digest: bytes) -> AsyncIterator[bytes]:
    """The bytes of an archive, in order, in pieces of at most 1 MiB; none if there is no such archive."""
    ordinal = 0
    while (body := await _sql.chunk(conn, line=line, digest=digest, ordinal=ordinal)) is not None:
        yield body
        ordinal += 1


async def _save(
    conn: Connection, *, line: str, digest: bytes, uploaded_by: str, chunks: AsyncIterable[bytes]
) -> ArchiveRow:
    hashed = hashlib.sha256()
    size = ordinal = 0
    async for piece in _pieces(chunks):
        hashed.update(piece)
        size += len(piece)
        if size > ARCHIVE_BYTES:
            raise TooLargeError(f"The archive is larger than {ARCHIVE_BYTES:,} bytes.", hint="Split it.")
        await _sql.add_chunk(conn, line=line, digest=digest, ordinal=ordinal, body=piece)
        ordinal += 1
    if hashed.digest() != digest:
        raise DigestMismatchError(
            f"The archive is {hash_text(hashed.digest())}, not {hash_text(digest)}.", hint="Upload it again, whole."
        )
    return ArchiveRow(**await _sql.add(conn, line=line, digest=digest, size=size, uploaded_by=uploaded_by))


async def _pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of `CHUNK_BYTES`, the last one shorter."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer[:CHUNK_BYTES])
            del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)
