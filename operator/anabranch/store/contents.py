"""Contents: canonical bytes by their hash, stored once for a line, whichever versions and candidates have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.store.database import Connection

_sql = queries.load("contents")


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
