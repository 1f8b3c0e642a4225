"""What is forgotten of agents' events: they are kept for some days, fetched or not.

An agent that fetches none, as a runtime that knows nothing of them, must not fill the database; what they told of is in
its memory, under ``system_exchanges``. An event that somebody works on just now is left until the claim ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.store import agent_expiry, database

if TYPE_CHECKING:
    from datetime import timedelta

    from anabranch.store.database import Database

ROWS: Final = 2_000
"""Rows of a table at once."""


async def turn(db: Database, *, keep: timedelta) -> bool:
    """Remove some of what is too old; whether there may be more.

    Args:
        db: The database.
        keep: How long events are kept, and the receipts by which an exchange that is posted again is known.
    """
    async with db.connection() as conn:
        before = await database.now(conn) - keep
        events = await agent_expiry.drop_events(conn, before=before, limit=ROWS)
        receipts = await agent_expiry.drop_receipts(conn, before=before, limit=ROWS)
    return ROWS in (events, receipts)
