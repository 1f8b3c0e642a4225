"""The index of words as its maker sees it: what is not in it yet, its segments, and how they are replaced.

Whoever works on a line's index holds the row of its progress, so there is one at a time, and a transaction brings
segments and progress together: who dies leaves the index as it was, and the next one does the same again. That a row
is locked by somebody is no reason to wait for it; there are other lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from anabranch.domain.postings import Posting
    from anabranch.store.database import Connection

_sql: Final = queries.load("indexing")

_ROWS: Final = 2_000
"""Rows that are sent at once: a few milliseconds, in which the process does nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the index of a line has come.

    Attributes:
        line: The line.
        through: All versions that begin up to this generation are in it.
        target: Up to where a walk over the keys goes that is under way; not above `through`: there is none.
        walked_key: The last version that the walk has seen: its key,
        walked_generation: and where it begins.
        next_segment: The number of the next segment.
        head_generation: Up to where there is something to index.
    """

    line: str
    through: int
    target: int
    walked_key: str
    walked_generation: int
    next_segment: int
    head_generation: int


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a record, to be indexed.

    Attributes:
        key: The record's key.
        from_generation: Where it begins.
        scope: Where it is visible.
        content_hash: Of its content.
        size: Of that, bytes.
    """

    key: str
    from_generation: int
    scope: str
    content_hash: bytes
    size: int


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """A segment of a line."""

    segment: int
    scope: str
    documents: int


async def be_patient(conn: Connection) -> None:
    """Let this transaction wait for its client, and its statements take minutes; others wait for nothing in it."""
    await _sql.be_patient(conn)


async def claim(conn: Connection) -> Progress | None:
    """Take the line whose turn it is until the transaction ends; None: nothing is to be done, or somebody does it.

    Args:
        conn: Inside a transaction.
    """
    if (line := await _sql.next(conn)) is None:
        return None
    await _sql.enrol(conn, line=line)
    return await take(conn, line=line)


async def take(conn: Connection, *, line: str) -> Progress | None:
    """Take a line until the transaction ends; None: somebody has it, or it is condemned."""
    row = await _sql.take(conn, line=line)
    return None if row is None else Progress(**row)


async def put_off(conn: Connection, *, line: str) -> None:
    """Let other lines come before this one, which could not be indexed; it comes again."""
    await _sql.put_off(conn, line=line)


async def advance(conn: Connection, progress: Progress) -> None:
    """Note how far the index has come."""
    await _sql.advance(
        conn,
        line=progress.line,
        through=progress.through,
        target=progress.target,
        walked_key=progress.walked_key,
        walked_generation=progress.walked_generation,
        next_segment=progress.next_segment,
    )


async def begun(conn: Connection, *, line: str, after: int, through: int, limit: int) -> list[Version]:
    """Versions that began after a generation and not after another one; not more than so many."""
    return await queries.rows(_sql.begun(conn, line=line, after=after, through=through, limit=limit), _version)


async def walk(conn: Connection, progress: Progress, *, limit: int) -> list[Version]:
    """The next versions of a walk in the order of their keys; fewer than so many come at its end."""
    found = _sql.walk(
        conn,
        line=progress.line,
        after=progress.through,
        through=progress.target,
        key=progress.walked_key,
        generation=progress.walked_generation,
        limit=limit,
    )
    return await queries.rows(found, _version)


async def remaining(conn: Connection, *, line: str, segments: Sequence[int]) -> list[Version]:
    """The versions of some segments that retention has not removed."""
    return await queries.rows(_sql.remaining(conn, line=line, segments=list(segments)), _version)


async def add_segment(  # noqa: PLR0913  (a segment has that many parts)
    conn: Connection,
    *,
    line: str,
    segment: int,
    scope: str,
    words: int,
    versions: Sequence[Version],
    postings: Sequence[Posting],
) -> None:
    """Write a segment.

    Args:
        conn: Inside the transaction that has the line.
        line: The line.
        segment: Its number, which no other one had.
        scope: Of all its documents.
        words: How many its documents have together.
        versions: Its documents, in the order of their numbers.
        postings: Its words.
    """
    await _sql.add_segment(conn, line=line, segment=segment, scope=scope, documents=len(versions), words=words)
    for first in range(0, len(versions), _ROWS):
        some = enumerate(versions[first : first + _ROWS], first)
        await conn.copy_records_to_table(
            "search_documents",
            columns=("line", "segment", "document", "key", "from_generation"),
            records=[(line, segment, number, version.key, version.from_generation) for number, version in some],
        )
    for first in range(0, len(postings), _ROWS):
        await conn.copy_records_to_table(
            "search_words",
            columns=("line", "segment", "word", "documents", "entries", "dense"),
            records=[
                (line, segment, one.word, one.documents, one.entries, one.dense)
                for one in postings[first : first + _ROWS]
            ],
        )


async def sizes(conn: Connection, *, line: str) -> list[SegmentSize]:
    """The segments of a line, oldest first."""
    return await queries.rows(_sql.sizes(conn, line=line), lambda row: SegmentSize(**row))


async def drop_segments(conn: Connection, *, line: str, segments: Sequence[int]) -> None:
    """Remove segments, whose documents are in others by now, or gone."""
    await _sql.drop_segments(conn, line=line, segments=list(segments))


async def recount(conn: Connection, *, line: str) -> None:
    """Have the segments of a line looked through for versions that are gone."""
    await _sql.recount(conn, line=line)


async def uncounted(conn: Connection, *, older_than: timedelta) -> tuple[str, SegmentSize] | None:
    """A segment, with its line, of which versions may be gone and that was not counted for so long."""
    row = await _sql.uncounted(conn, older_than=older_than)
    return None if row is None else (row["line"], SegmentSize(row["segment"], "", row["documents"]))


async def counted(conn: Connection, *, line: str, segment: int) -> None:
    """Note that a segment was counted."""
    await _sql.counted(conn, line=line, segment=segment)


def _version(row: Any) -> Version:
    return Version(**row)
