"""The removal of agents' events that are too old, and of what an exchange is known by that is posted again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("agent_expiry")


async def drop_events(conn: Connection, *, before: datetime, limit: int) -> int:
    """Remove events of any agent that were made before a moment, but for those that are claimed now; how many."""
    return queries.touched(await _sql.drop_events(conn, before=before, limit=limit))


async def drop_receipts(conn: Connection, *, before: datetime, limit: int) -> int:
    """Remove receipts of exchanges of any agent that were written before a moment; how many."""
    return queries.touched(await _sql.drop_receipts(conn, before=before, limit=limit))
