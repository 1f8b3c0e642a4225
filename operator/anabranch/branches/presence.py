"""Presence, as agents and their peers meet it: a lease that is renewed by saying so, and what it tells of others.

What is told of a run is its agent, its state and how far it is, and what it is for only where its own sharing policy
says so: never what it knows. A state is read from the lease at the moment that somebody asks. The phase follows within
a second or so, when the operator looks: it is notified of no renewal, of which there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.feed.cursor import Position, seal, unseal
from anabranch.model.objects import AgentPresence
from anabranch.store import branches, presence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.domain.cursor import Sealer
    from anabranch.model.objects import PeerState
    from anabranch.model.runs import PresenceWrite
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.presence import PeerRow

_AT_ONCE: Final = 500


async def renew(db: Database, sealer: Sealer, *, branch: BranchRow, write: PresenceWrite) -> AgentPresence:
    """Renew a run's lease, or end it.

    Args:
        db: The store.
        sealer: Opens and makes cursors.
        branch: The branch, of which the caller is the agent.
        write: What the agent says.

    Raises:
        ConflictError: If the run is over.
        InvalidCursorError: If the cursor is none of this line's feed.
    """
    observed = write.observed_feed_cursor and unseal(sealer, branch.line, write.observed_feed_cursor)
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        live = await presence.renew(
            conn,
            **where,
            leaving=write.state == "stale",
            task=write.task,
            observed=(observed.epoch, observed.sequence) if observed else None,
        )
        found = await presence.find(conn, **where)
        now = await branches.get(conn, branch.branch_id)
    if not live or found is None:
        raise branches.over("Expired" if now is None or now.deleted_at is not None else now.phase)
    return _wire(sealer, branch.line, found)


async def peers(  # noqa: PLR0913  (the parts, the line, and the bounds of a page)
    db: Database, sealer: Sealer, *, line: str, states: Sequence[PeerState] | None, after: str, limit: int
) -> list[AgentPresence]:
    """The live and the completed runs of a line, by branch id.

    Args:
        db: The store.
        sealer: Makes cursors.
        line: The line.
        states: Only runs in these; None: in any.
        after: An id to begin after.
        limit: How many at most.
    """
    async with db.connection() as conn:
        found = await presence.peers(conn, line=line, after=after, states=states, limit=limit)
    return [_wire(sealer, line, row) for row in found]


async def settle(db: Database) -> bool:
    """Let phases say whose lease has run out, and whose has come back; whether there may be more of them."""
    async with db.connection() as conn:
        due = await presence.due(conn, limit=_AT_ONCE)
    looked_at = 0
    for line, branch_ids in due.items():
        async with db.connection() as conn:
            looked_at += await presence.settle(conn, line=line, branch_ids=branch_ids)
    if looked_at:
        db.notify("status")
    return looked_at == _AT_ONCE


def _wire(sealer: Sealer, line: str, row: PeerRow) -> AgentPresence:
    observed = None
    if row.observed_epoch is not None and row.observed_sequence is not None:
        observed = seal(sealer, line, Position(row.observed_epoch, row.observed_sequence))
    return AgentPresence(
        agent_id=row.agent_id,
        branch_id=row.branch_id,
        task=row.task,
        state=row.state,
        lease_deadline=row.lease_deadline,
        last_published_sequence=row.last_published_sequence,
        observed_feed_cursor=observed,
    )
