"""What agents have been told, as their memory and their queues have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.memory import outbox

if TYPE_CHECKING:
    from anabranch.store.database import Database


async def drain(db: Database) -> None:
    """Tell all that is to be told."""
    while await outbox.drain(db):
        pass


async def let_holds_run_out(db: Database) -> None:
    """As if the time had passed for which whoever died has notices."""
    async with db.connection() as conn:
        await conn.execute("UPDATE agent_outbox SET due_at = now() - interval '1 s'")


async def left(db: Database) -> int:
    """Notices that are still to be told."""
    async with db.connection() as conn:
        count: int = await conn.fetchval("SELECT count(*) FROM agent_outbox")
        return count


async def events(db: Database) -> list[tuple[str, str, dict[str, Any]]]:
    """Agent, kind and data of every event, in the order in which they came about."""
    async with db.connection() as conn:
        rows = await conn.fetch("SELECT agent_id, kind, data FROM agent_events ORDER BY ordinal")
    return [(row["agent_id"], row["kind"], row["data"]) for row in rows]


async def kinds(db: Database) -> list[tuple[str, str]]:
    """Agent and kind of every event, sorted; each has its exchange, and no exchange is without."""
    found = sorted((agent, kind) for agent, kind, _ in await events(db))
    async with db.connection() as conn:
        rows = await conn.fetch("SELECT agent_id, kind FROM agent_exchanges")
    assert sorted((row["agent_id"], row["kind"]) for row in rows) == found
    return found
