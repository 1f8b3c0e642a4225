"""Agent ids: each belongs to one ServiceAccount of its namespace, the first that works under it, for good.

What an agent remembers is kept by its id, so an id that changed hands would hand over a memory. The row outlives
branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_sql: Final = queries.load("agents")


async def claim(conn: Connection, *, namespace: str, agent_id: str, service_account: str) -> str:
    """Take an agent id, or find whose it is.

    Args:
        conn: A connection.
        namespace: Of the Branch, and so of the ServiceAccount.
        agent_id: The id.
        service_account: Name of the ServiceAccount that works under it.

    Returns:
        Name of the ServiceAccount that the id belongs to: the given one, or another.
    """
    await _sql.claim(conn, namespace=namespace, agent_id=agent_id, service_account=service_account)
    taken: str = await _sql.owner(conn, namespace=namespace, agent_id=agent_id)
    return taken


async def owner(conn: Connection, *, namespace: str, agent_id: str) -> str | None:
    """Name of the ServiceAccount that an agent id belongs to; None: nobody has taken it."""
    found: str | None = await _sql.owner(conn, namespace=namespace, agent_id=agent_id)
    return found
