"""Contents: canonical bytes by their hash, stored once for a line, whichever versions and candidates have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence

    from anabranch.store.database import Connection

_sql = queries.load("contents")

PIECE_BYTES: Final = 8 << 20
"""Of contents, that are in memory at once where many are looked at: a job may have hundreds of a megabyte each."""

PIECE: Final = 500
"""Contents, likewise."""


class Having(Protocol):
    """Something that has a content."""

    @property
    def content_hash(self) -> bytes:
        """Of its content, 32 bytes."""


H = TypeVar("H", bound=Having)


async def put_many(conn: Connection, *, line: str, bodies: Mapping[bytes, bytes]) -> None:
    """Store canonical JSON by its SHA-256 (32 bytes), which the caller has computed.

    What refers to it is to be written in the same transaction: until that ends nobody removes the content as unused.
    """
    if bodies:
        await _sql.put_many(conn, line=line, hashes=list(bodies), bodies=list(bodies.values()))


async def get(conn: Connection, *, line: str, content_hash: bytes) -> bytes | None:
    """The canonical JSON of a hash."""
    return (await get_many(conn, line=line, hashes=[content_hash])).get(content_hash)


async def get_many(conn: Connection, *, line: str, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
    """The canonical JSON of those of these hashes that are stored."""
    found = _sql.get_many(conn, line=line, hashes=list(hashes))
    return dict(await queries.rows(found, lambda row: (row["content_hash"], row["body"])))


async def sizes(conn: Connection, *, line: str, hashes: Collection[bytes]) -> dict[bytes, int]:
    """Bytes of those of these contents that are stored, by hash."""
    found = _sql.sizes(conn, line=line, hashes=list(hashes))
    return dict(await queries.rows(found, lambda row: (row["content_hash"], row["size"])))


async def in_pieces(
    conn: Connection, *, line: str, having: Sequence[H]
) -> AsyncIterator[tuple[Sequence[H], dict[bytes, bytes]]]:
    """Things in their order with their contents, as many at a time as may be in memory.

    Args:
        conn: A connection.
        line: The line.
        having: The things.

    Yields:
        Some of them, and what is stored of their contents by hash.
    """
    known = await sizes(conn, line=line, hashes={one.content_hash for one in having})
    for piece in _pieces(having, known):
        yield piece, await get_many(conn, line=line, hashes={one.content_hash for one in piece})


def _pieces(having: Sequence[H], known: Mapping[bytes, int]) -> Iterator[Sequence[H]]:
    first, total = 0, 0
    for place, one in enumerate(having):
        size = known.get(one.content_hash, 0)
        if place > first and (total + size > PIECE_BYTES or place - first == PIECE):
            yield having[first:place]
            first, total = place, 0
        total += size
    if first < len(having):
        yield having[first:]
