"""An agent's queue of events, looked at without taking anything from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from anabranch.model.agent_events import EventStatus
    from anabranch.model.memory import AgentKey
    from anabranch.store.database import Connection

_sql: Final = queries.load("agent_queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRow:
    """An event of the queue, without its data; the columns have their names."""

    event_id: str
    kind: str
    status: EventStatus
    attempts: int
    created_at: datetime
    due_at: datetime
    finished_at: datetime | None
    error: str | None


async def page(
    conn: Connection, who: AgentKey, *, status: str | None, before: tuple[datetime, str] | None, limit: int
) -> list[QueuedRow]:
    """The events of an instance, newest first.

    Args:
        conn: A connection.
        who: The instance.
        status: Only those in this state; None: all.
        before: Only those older than this time and id; None: from the newest.
        limit: Rows at most.
    """
    created_at, event_id = before or (None, "")
    found = _sql.page(
        conn, **who.columns, status=status, before_created_at=created_at, before_event_id=event_id, row_limit=limit
    )
    return await queries.rows(found, lambda row: QueuedRow(**row))


async def out(conn: Connection, who: AgentKey, *, claims: Mapping[str, UUID]) -> set[str]:
    """Ids of those of some events that are still out under the claims that they were delivered with.

    Args:
        conn: A connection.
        who: The instance.
        claims: Claim ids by event id.
    """
    found: Any = _sql.out(conn, **who.columns, event_ids=list(claims), claim_ids=list(claims.values()))
    return {row["event_id"] async for row in found}
