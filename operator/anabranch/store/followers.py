"""How far runs follow the feed: the place that each has saved, and what its status shows of it.

A place only moves on, so whichever of an agent's answers arrives last, nothing is taken back; but for a restore of the
line from a backup, after which the feed has another epoch. An agent saves a place with whatever it takes over, and the
status needs to follow only from time to time, so what is shown is written apart, at most twice a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

SHOWN_EVERY: Final = timedelta(seconds=30)
"""How often a status follows at most."""

_sql: Final = queries.load("followers")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRow:
    """How far a run follows.

    Attributes:
        epoch: Of the feed.
        sequence: Of the last event that it has taken over.
        generation: What was current behind that event; None: nobody knew any more when the place was saved.
        saved_at: When it moved on to there.
    """

    line: str
    branch_id: str
    epoch: int
    sequence: int
    generation: int | None
    saved_at: datetime


async def save(  # noqa: PLR0913  (whose place, and which)
    conn: Connection, *, line: str, branch_id: str, epoch: int, sequence: int, cursor: str
) -> FollowerRow | None:
    """Save how far a live run follows.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        epoch: Of the feed.
        sequence: Of the last event that was taken over.
        cursor: The same place, as its agent carries it.

    Returns:
        The place; None where nothing was saved: the run is not live, the feed does not reach there, or the run was
        there before.
    """
    row = await _sql.save(
        conn,
        line=line,
        branch_id=branch_id,
        epoch=epoch,
        sequence=sequence,
        cursor=cursor,
        pause=SHOWN_EVERY,
    )
    return row and FollowerRow(**row)


async def get(conn: Connection, *, line: str, branch_id: str) -> FollowerRow | None:
    """How far a run has saved that it follows; None: nowhere yet."""
    row = await _sql.get(conn, line=line, branch_id=branch_id)
    return row and FollowerRow(**row)


async def of_branches(conn: Connection, *, lines: Sequence[str], branch_ids: Sequence[str]) -> dict[str, FollowerRow]:
    """How far some runs follow, by their ids; one that has saved no place is left out.

    Args:
        conn: A connection.
        lines: Their lines, each at least once.
        branch_ids: Their ids.
    """
    found = _sql.of_branches(conn, lines=list(lines), branch_ids=list(branch_ids))
    return {row.branch_id: row for row in await queries.rows(found, lambda row: FollowerRow(**row))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Where to read what a run has taken over of a key.

    Attributes:
        parent_generation: Of the run.
        generation: The one that was current at the saved place, as far as this key goes; None: nobody knows any more.
        expired: Whether the place is of a time before a restore from backup, and means nothing any more.
    """

    parent_generation: int
    generation: int | None
    expired: bool


async def shown_of(conn: Connection, *, line: str, branch_id: str, key: str) -> Shown | None:
    """Where to read what a run has taken over of a key; None: there is no such run.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        key: The record's.
    """
    row = await _sql.shown(conn, line=line, branch_id=branch_id, key=key)
    if row is None:
        return None
    return Shown(
        parent_generation=row["parent_generation"],
        generation=row["generation"],
        expired=row["epoch"] is not None and row["epoch"] != row["line_epoch"],
    )


async def due(conn: Connection, *, limit: int) -> dict[str, list[str]]:
    """Branches to `show`, by their lines."""
    found = await queries.rows(_sql.due(conn, limit=limit), lambda row: (row["line"], row["branch_id"]))
    return {line: [branch for _, branch in rows] for line, rows in groupby(sorted(found), key=itemgetter(0))}


async def show(conn: Connection, *, line: str, branch_ids: Sequence[str]) -> int:
    """Let the statuses of runs show how far they are; of how many.

    Args:
        conn: A connection.
        line: The line.
        branch_ids: As `due` gave them.
    """
    shown: int = await _sql.show(conn, line=line, branch_ids=list(branch_ids))
    return shown
