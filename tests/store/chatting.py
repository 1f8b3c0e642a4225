"""What tests of agents' memory over HTTP share: a served world, and what happens to agents in it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from tests.store.world import AGENTS

from anabranch.model.memory import ExchangePost, Participant, Surface, Turn

if TYPE_CHECKING:
    import httpx
    from tests.store.served import Served

    from anabranch.client import AnabranchClient

ME = f"/v1/namespaces/{AGENTS}/agents/ada/default"


async def told(served: Served, *agents: str, count: int = 1, said: str = "Use the large pool.") -> list[str]:
    """Let some agents have exchanges on a chat platform; their ids, oldest first."""
    chat = await served.client("chat")
    ids = []
    for _ in range(count):
        ids.append(f"room-7/{secrets.token_hex(4)}")
        await chat.post_exchange(
            AGENTS,
            ExchangePost(
                exchange_id=ids[-1],
                kind="exchange.direct",
                surface=Surface(pod_id="room-7", label="Build chat"),
                participants=tuple(
                    Participant(agent_id=agent.partition("/")[0], instance=agent.partition("/")[2] or "default")
                    for agent in agents or ("ada", "bob")
                ),
                turns=(Turn(sender="bob", content=said), Turn(sender="bob", content="NO_REPLY")),
            ),
        )
    return ids


async def raw(client: AnabranchClient, method: str, path: str, **options: Any) -> httpx.Response:
    """One request as it is, its answer as it is."""
    return await client._http.request(method, path, **options)
