"""Whose an agent id is: the first ServiceAccount's that works under it, for good.

A Branch takes its agent's id when it forks, and so does the first call about an agent's memory. So no id is ever two
agents', and none that somebody has worked under is handed on with what it remembers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.store import agents

if TYPE_CHECKING:
    from anabranch.model.memory import AgentKey
    from anabranch.store.database import Database


async def take(db: Database, who: AgentKey, *, service_account: str) -> bool:
    """Take an agent's id for a ServiceAccount of its namespace that may use it.

    Args:
        db: The store.
        who: An instance of the agent.
        service_account: Name of the account.

    Returns:
        Whether the id is that account's.
    """
    async with db.connection() as conn:
        owner = await agents.owner(conn, namespace=who.namespace, agent_id=who.agent_id)
        if owner is None:
            owner = await agents.claim(
                conn, namespace=who.namespace, agent_id=who.agent_id, service_account=service_account
            )
    return owner == service_account


async def holds(db: Database, who: AgentKey, *, service_account: str) -> bool:
    """Whether an agent's id is a ServiceAccount's by now; nothing is taken.

    Args:
        db: The store.
        who: An instance of the agent.
        service_account: Name of the account.
    """
    async with db.connection() as conn:
        return await agents.owner(conn, namespace=who.namespace, agent_id=who.agent_id) == service_account
