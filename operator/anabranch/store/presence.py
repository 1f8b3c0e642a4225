"""Presence: whether the agents of live runs are there, as far as their leases tell.

An agent renews its lease all the time, and nobody is interested in a renewal, so it writes one narrow row and nothing
else. When a lease may have run out its row is due; whoever looks then moves the run's phase, which the status shows. A
lease that has run out says that nobody has heard of the agent, and never that its work is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.model.objects import PeerState
    from anabranch.store.database import Connection

_sql: Final = queries.load("presence")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRow:
    """What others may know of a run.

    Attributes:
        agent_id: Whose run it is.
        state: ``unknown``: its agent has never had a lease.
        task: What it is for; None where its sharing policy keeps that back.
        lease_deadline: When its lease runs out, or did.
        last_published_sequence: The last batch of it that a job with something to publish took along; 0 for none.
        observed_epoch: Of the place in the feed that it has seen or saved; None: it has told none.
        observed_sequence: Of the same.
    """

    branch_id: str
    agent_id: str
    state: PeerState
    task: str | None
    lease_deadline: datetime | None
    last_published_sequence: int
    observed_epoch: int | None
    observed_sequence: int | None


async def renew(  # noqa: PLR0913  (what an agent says of itself)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    leaving: bool,
    task: str | None,
    observed: tuple[int, int] | None,
) -> bool:
    """Renew the lease of a live run for as long as its Branch says; whether it is live.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        leaving: Let the lease end now instead.
        task: What the agent is at; None: what the Branch says.
        observed: Epoch and sequence of the feed's event that the agent has seen last; None: it does not say.
    """
    epoch, sequence = observed or (None, None)
    row = await _sql.renew(
        conn,
        line=line,
        branch_id=branch_id,
        leaving=leaving,
        task=task,
        observed_epoch=epoch,
        observed_sequence=sequence,
    )
    return row is not None


async def find(conn: Connection, *, line: str, branch_id: str) -> PeerRow | None:
    """What others may know of a run; None if it is neither live nor completed."""
    found = await _peers(conn, line=line, branch_id=branch_id, after="", states=None, limit=1)
    return found[0] if found else None


async def peers(
    conn: Connection, *, line: str, after: str, states: Sequence[PeerState] | None, limit: int
) -> list[PeerRow]:
    """The runs of a line that are live or completed, by their ids.

    Args:
        conn: A connection.
        line: The line.
        after: An id to begin after; empty: at the first.
        states: Only runs in these; None: in any.
        limit: How many at most.
    """
    return await _peers(conn, line=line, branch_id=None, after=after, states=states, limit=limit)


async def due(conn: Connection, *, limit: int) -> dict[str, list[str]]:
    """Branches to `settle`, by their lines."""
    found = await queries.rows(_sql.due(conn, limit=limit), lambda row: (row["line"], row["branch_id"]))
    return {line: [branch for _, branch in rows] for line, rows in groupby(sorted(found), key=itemgetter(0))}


async def settle(conn: Connection, *, line: str, branch_ids: Sequence[str]) -> int:
    """Let phases of runs say whether their agents are there: ``Stale`` when a lease ran out, ``Active`` again when not.

    Args:
        conn: A connection.
        line: The line.
        branch_ids: As `due` gave them.

    Returns:
        How many were looked at; one that somebody writes to at this moment stays due.
    """
    looked_at: int = await _sql.settle(conn, line=line, branch_ids=list(branch_ids))
    return looked_at


async def wake(conn: Connection, *, line: str, branch_id: str) -> None:
    """Have a run looked at that was given back its grant: its lease may have run out meanwhile."""
    await _sql.wake(conn, line=line, branch_id=branch_id)


async def _peers(  # noqa: PLR0913  (the bounds of a page)
    conn: Connection,
    *,
    line: str,
    branch_id: str | None,
    after: str,
    states: Sequence[PeerState] | None,
    limit: int,
) -> list[PeerRow]:
    found = _sql.peers(
        conn,
        line=line,
        branch_id=branch_id,
        after=after,
        states=None if states is None else list(states),
        limit=limit,
    )
    return await queries.rows(found, lambda row: PeerRow(**row))
