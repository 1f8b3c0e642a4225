"""Which line retention looks at next, and the removal of what needs no care: old events, and archives.

Every line comes up again and again, at a time that stands in its row. A process that takes one up moves that time, so
that several processes work on different lines; one that dies leaves its line for whoever finds it due again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import lines, queries

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from anabranch.store.database import Connection

_sql: Final = queries.load("retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A line to look at.

    Attributes:
        line: The line.
        policy: Its Baseline's policy (JSON).
        retain_at: Names this claim.
    """

    line: str
    policy: dict[str, Any]
    retain_at: datetime


async def claim(conn: Connection, *, hold: timedelta) -> Claim | None:
    """Take up the line that is due for the longest time; None: none is.

    Args:
        conn: A connection.
        hold: How long nobody else is given it. If the taker dies it is due again then.
    """
    row = await _sql.claim(conn, hold=hold)
    return None if row is None else Claim(**row)


async def settle(conn: Connection, *, claim: Claim, pause: timedelta) -> None:
    """End a claim: the line is due again after a pause, or earlier if its policy has changed meanwhile."""
    await _sql.settle(conn, line=claim.line, retain_at=claim.retain_at, pause=pause)


async def be_patient(conn: Connection) -> None:
    """Let a statement of this transaction take minutes; the transaction holds nothing that others wait for."""
    await _sql.be_patient(conn)


async def prune_events(conn: Connection, *, line: str, before: datetime, limit: int) -> int:
    """Remove the oldest events that were told before a moment, and raise the floor with them; how many.

    Args:
        conn: Inside a transaction.
        line: The line.
        before: The moment.
        limit: How many at most.
    """
    head = await lines.lock_head(conn, line)
    through = await _sql.last_old_event(conn, line=line, floor=head.event_floor, before=before, limit=limit)
    if through is None or through <= head.event_floor:
        return 0
    await _sql.raise_floor(conn, line=line, through=through)
    return queries.touched(await _sql.drop_events(conn, line=line, through=through))


async def drop_archives(conn: Connection, *, line: str, imported_before: datetime, uploaded_before: datetime) -> int:
    """Remove archives that are no longer needed; how many.

    Args:
        conn: Inside a transaction.
        line: The line.
        imported_before: The one that was imported last goes if it was uploaded before this moment;
        uploaded_before: every other one if it was uploaded before this one.
    """
    tag = await _sql.drop_archives(conn, line=line, imported_before=imported_before, uploaded_before=uploaded_before)
    return queries.touched(tag)
