"""Counters of quality: what generations have in each scope, as far as a line is counted.

Whoever counts a line holds the row of its progress, so there is one at a time, and a transaction brings counters and
progress together. A scope has a row for each generation that changed it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.quality import Counts
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime, timedelta

    from anabranch.store.database import Connection

_sql: Final = queries.load("quality")

_ROWS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a line is counted.

    Attributes:
        line: The line.
        since: Generations from this one on are counted each; 0: none is.
        through: Up to this one.
        head_generation: Up to where there is something to count.
        head_records: Live records of that generation.
    """

    line: str
    since: int
    through: int
    head_generation: int
    head_records: int


@dataclass(frozen=True, slots=True)
class Change:
    """Records of one provenance that a generation has more, or less, in a scope."""

    generation: int
    scope: str
    fact_hash: bytes
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is told of a line beside its counters.

    Attributes:
        counted: Whether the generation that was asked for is counted.
        duplicates: Findings that said what was known already, ever.
        sources_required: Whether the review policy asks for a verified source.
    """

    counted: bool
    duplicates: int
    sources_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What a generation has in all scopes together."""

    generation: int
    created_at: datetime
    records: int
    sourced: int
    verified: int


async def be_patient(conn: Connection) -> None:
    """Let a statement of this transaction read a whole line."""
    await _sql.be_patient(conn)


async def claim(conn: Connection, *, every: timedelta) -> Progress | None:
    """Take the line whose turn it is, and keep others from it until the transaction ends; None: there is none.

    Args:
        conn: Inside a transaction.
        every: Not one whose last turn is not as long ago.
    """
    line = await _sql.next(conn, every=every)
    return None if line is None else await take(conn, line=line)


async def begun(conn: Connection, *, line: str) -> bool:
    """Whether a line is counted, or has nothing to be counted."""
    return bool(await _sql.begun(conn, line=line))


async def take(conn: Connection, *, line: str) -> Progress | None:
    """Keep others from counting a line until the transaction ends; None: somebody does, or the line is given up."""
    await _sql.enrol(conn, line=line)
    row = await _sql.take(conn, line=line)
    return None if row is None else Progress(**row)


async def put_off(conn: Connection, *, line: str) -> None:
    """Let the other lines come first: this one could not be counted."""
    await _sql.put_off(conn, line=line)


async def advance(conn: Connection, progress: Progress, *, since: int) -> None:
    """Note that a line is counted up to its head, each generation from one on; forget what is not kept any more."""
    await _sql.advance(conn, line=progress.line, since=since, through=progress.head_generation)
    await _sql.forget(conn, line=progress.line)


async def much(conn: Connection, progress: Progress, *, limit: int) -> bool:
    """Whether more than so many versions are to be counted."""
    return bool(
        await _sql.much(conn, line=progress.line, after=progress.through, through=progress.head_generation, limit=limit)
    )


async def changed(conn: Connection, progress: Progress) -> list[Change]:
    """What the generations that are to be counted have more and less, each in its turn."""
    found = _sql.changed(conn, line=progress.line, after=progress.through, through=progress.head_generation)
    return await queries.rows(found, lambda row: Change(**row))


async def live(conn: Connection, progress: Progress) -> AsyncIterator[list[Change]]:
    """All that the head shows, some at a time."""
    async with _sql.live_cursor(conn, line=progress.line, generation=progress.head_generation) as shown:
        cursor = await shown
        while some := await cursor.fetch(_ROWS):
            yield [Change(progress.head_generation, row["scope"], row["fact_hash"], row["records"]) for row in some]


async def counts(conn: Connection, *, line: str, generation: int) -> dict[str, Counts]:
    """What is counted of a generation, by scope."""
    return dict(await queries.rows(_sql.counts(conn, line=line, generation=generation), _counts))


async def write(conn: Connection, *, line: str, rows: Mapping[tuple[str, int], Counts]) -> None:
    """Note what generations have, by scope and generation."""
    some = list(rows.items())
    await _sql.write(
        conn,
        line=line,
        scopes=[scope for (scope, _), _ in some],
        generations=[generation for (_, generation), _ in some],
        records=[one.records for _, one in some],
        sourced=[one.sourced for _, one in some],
        verified=[one.verified for _, one in some],
        undated=[one.undated for _, one in some],
        weeks=[json.dumps(one.weeks) for _, one in some],
    )


async def forget_all(conn: Connection, *, line: str) -> None:
    """Forget what was counted of a line."""
    await _sql.forget_all(conn, line=line)


async def told(conn: Connection, *, line: str, generation: int) -> Told:
    """What is told beside the counters of a generation."""
    return Told(**await _sql.told(conn, line=line, generation=generation))


async def conflicts(conn: Connection, *, line: str) -> dict[str, int]:
    """Findings that contradict a record and wait for a reviewer, by scope."""
    return dict(await queries.rows(_sql.conflicts(conn, line=line), lambda row: (row["scope"], row["conflicts"])))


async def totals(conn: Connection, *, line: str, before: int, limit: int) -> list[Total]:
    """Retained and counted generations before one, newest first."""
    return await queries.rows(_sql.totals(conn, line=line, before=before, limit=limit), lambda row: Total(**row))


def _counts(row: Mapping[str, Any]) -> tuple[str, Counts]:
    weeks = Counter({int(number): records for number, records in row["weeks"].items()})
    members = {name: row[name] for name in ("records", "sourced", "verified", "undated")}
    return row["scope"], Counts(weeks=weeks, **members)
