"""What is in an agent's queue of events, for whoever looks and takes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from anabranch.model.agent_events import TYPE_PREFIX
from anabranch.model.agent_queue import QueuedEvent
from anabranch.store import agent_queue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from anabranch.model.agent_events import EventStatus
    from anabranch.model.memory import AgentKey
    from anabranch.store.agent_queue import QueuedRow
    from anabranch.store.database import Database


async def page(
    db: Database, who: AgentKey, *, status: EventStatus | None, before: Sequence[str] | None, limit: int
) -> list[QueuedEvent]:
    """The events of an instance, newest first.

    Args:
        db: The store.
        who: The instance.
        status: Only those in this state; None: all.
        before: Time and id of the last one of the page before; None: from the newest.
        limit: How many at most.
    """
    place = None if before is None else (datetime.fromisoformat(before[0]), before[1])
    async with db.connection() as conn:
        rows = await agent_queue.page(conn, who, status=status, before=place, limit=limit)
    return [_wire(row) for row in rows]


async def out(db: Database, who: AgentKey, *, claims: Mapping[str, UUID]) -> set[str]:
    """Ids of those of some events that are neither acknowledged nor sent back nor past their deadlines.

    Args:
        db: The store.
        who: The instance.
        claims: The claim ids that they were delivered with, by event id.
    """
    async with db.connection() as conn:
        return await agent_queue.out(conn, who, claims=claims)


def _wire(row: QueuedRow) -> QueuedEvent:
    return QueuedEvent.model_construct(
        event_id=row.event_id,
        type=TYPE_PREFIX + row.kind,
        status=row.status,
        attempts=row.attempts,
        created_at=row.created_at,
        not_before=row.due_at if row.status == "pending" else None,
        deadline=row.due_at if row.status == "claimed" else None,
        finished_at=row.finished_at,
        error=row.error,
    )
