"""Vectors beside the segments of the index: which segments lack theirs, how they are kept, and as a search reads them.

To make the vectors of a segment takes seconds, in which no transaction is open. So a segment is claimed for some time,
by a row of its own, and whoever dies leaves a claim that runs out. That two make the same vectors would cost time and
change nothing: a segment is never written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.store import queries
from anabranch.store.searching import FoundRow, found_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from anabranch.store.database import Connection

_sql: Final = queries.load("vectors")


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a segment.

    Attributes:
        key: Of the record.
        content_hash: Of its content; None: retention has removed the version.
        size: Of the content, bytes.
    """

    key: str
    content_hash: bytes | None
    size: int


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment, as a search by meaning sees it.

    Attributes:
        segment: Its number.
        documents: How many it has.
        embedded: Whether it has vectors.
    """

    segment: int
    documents: int
    embedded: bool


async def claim(conn: Connection, *, model: str, lease: timedelta) -> tuple[str, int] | None:
    """Take a segment without vectors of a model, for so long; its line and its number. None: there is none.

    Vectors of another model go at that moment.
    """
    row = await _sql.claim(conn, model=model, lease=lease)
    return None if row is None else (row["line"], row["segment"])


async def documents(conn: Connection, *, line: str, segment: int) -> list[Document]:
    """The documents of a segment, in their order."""
    return await queries.rows(_sql.documents(conn, line=line, segment=segment), lambda row: Document(**row))


async def renew(conn: Connection, *, line: str, segment: int, model: str, lease: timedelta) -> bool:
    """Go on with a segment for so long; whether it is still to be done."""
    return bool(await _sql.renew(conn, line=line, segment=segment, model=model, lease=lease))


async def put(conn: Connection, *, line: str, segment: int, model: str, signs: bytes, codes: bytes) -> None:  # noqa: PLR0913
    """Keep the vectors of a segment, unless it has gone meanwhile."""
    await _sql.put(conn, line=line, segment=segment, model=model, signs=signs, codes=codes)


async def segments(conn: Connection, *, line: str, scopes: Sequence[str], model: str) -> list[SegmentRow]:
    """The segments of some scopes."""
    found = _sql.segments(conn, line=line, scopes=list(scopes), model=model)
    return await queries.rows(found, lambda row: SegmentRow(**row))


async def signs(conn: Connection, *, line: str, segments: Sequence[int]) -> dict[int, bytes]:
    """The signs of the vectors of some segments."""
    found = _sql.signs(conn, line=line, segments=list(segments))
    return dict(await queries.rows(found, lambda row: (row["segment"], row["signs"])))


async def codes(
    conn: Connection, *, line: str, model: str, places: Sequence[tuple[int, int]], dimensions: int
) -> list[bytes | None]:
    """The vectors of some documents, in their order; None for one that has none.

    Args:
        conn: A connection.
        line: The line.
        model: Of the vectors.
        places: Segments and documents.
        dimensions: Of each vector.
    """
    found = _sql.codes(
        conn,
        line=line,
        model=model,
        segments=[segment for segment, _ in places],
        documents=[document for _, document in places],
        dimensions=dimensions,
    )
    return await queries.rows(found, lambda row: row["code"])


async def shown(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    *,
    line: str,
    generation: int,
    scopes: Sequence[str],
    branch_id: str | None,
    places: Sequence[tuple[int, int]],
    large: int,
    limit: int,
    without: Collection[str] = (),
) -> list[FoundRow]:
    """What a generation shows of some documents, in their order.

    Args:
        conn: Inside the transaction of a search.
        line: The line.
        generation: Of a manifest that the caller has found to be there.
        scopes: Those to be seen.
        branch_id: Leave out what this branch has a private record of; None: nothing.
        places: Segments and documents.
        large: Bytes of a content from which on it does not come along.
        limit: How many at most.
        without: Keys to leave out, too.
    """
    found = _sql.shown(
        conn,
        line=line,
        generation=generation,
        scopes=list(scopes),
        branch_id=branch_id,
        segments=[segment for segment, _ in places],
        documents=[document for _, document in places],
        large=large,
        limit=limit,
        without=list(without),
    )
    return await queries.rows(found, found_row)
