"""Exchanges that a chat platform reports: noted for all who took part, once, and told to each by an event.

What was said last is taken from the turns by one rule, here, so that no platform has one of its own. The turns are not
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from anabranch.domain import takeaway
from anabranch.memory.triggers import derived_id
from anabranch.model.canonical import canonical_bytes, hash_text, sha256
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import SURFACE_LABEL_CHARACTERS
from anabranch.model.memory import AgentKey, ExchangeReceipt
from anabranch.store import agent_events, database, exchanges

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.model.memory import ExchangePost
    from anabranch.store.database import Connection, Database

_log = structlog.get_logger(__name__)


async def post(db: Database, *, namespace: str, body: ExchangePost, poster: str) -> ExchangeReceipt:
    """Note an exchange for each of its participants, in one transaction.

    Args:
        db: The store.
        namespace: Of the agents.
        body: The exchange.
        poster: Username of the platform, for the log.

    Raises:
        ConflictError: If another exchange was noted under this id.
        InvalidInputError: If a participant is named twice.
    """
    agents = [AgentKey(namespace=namespace, agent_id=one.agent_id, instance=one.instance) for one in body.participants]
    if len(set(agents)) != len(agents):
        raise InvalidInputError("A participant is named twice.", hint="Name each agent's instance once.")
    digest = sha256(canonical_bytes(body.model_dump(mode="json")))

    async def write(conn: Connection) -> tuple[datetime, list[AgentKey]]:
        at = body.ts or (body.turns[-1].ts if body.turns else None) or await database.now(conn)
        noted = await exchanges.append(conn, [_entry(body, agent, agents, digest=digest, at=at) for agent in agents])
        new = [one.key for one in noted if one.new]
        await agent_events.enqueue(conn, [_event(body, agent, at=at) for agent in new])
        return min(one.received_at for one in noted), new

    received_at, new = await db.run(write)
    for agent in new:
        db.notify(agent.topic)
    if new:
        _log.info("exchange noted", exchange=body.exchange_id, kind=body.kind, poster=poster, agents=len(new))
    return ExchangeReceipt(exchange_id=body.exchange_id, content_hash=hash_text(digest), received_at=received_at)


def _entry(
    body: ExchangePost, agent: AgentKey, agents: list[AgentKey], *, digest: bytes, at: datetime
) -> exchanges.NewExchange:
    return exchanges.NewExchange(
        key=agent,
        exchange_id=body.exchange_id,
        digest=digest,
        kind=body.kind,
        surface_pod_id=body.surface.pod_id,
        surface_label=takeaway.head(body.surface.label, limit=SURFACE_LABEL_CHARACTERS),
        peers=tuple(other.peer for other in agents if other != agent),
        takeaway=takeaway.of_turns(body.turns),
        ts=at,
    )


def _event(body: ExchangePost, agent: AgentKey, *, at: datetime) -> agent_events.NewAgentEvent:
    return agent_events.NewAgentEvent(
        key=agent,
        event_id=derived_id(*agent.columns.values(), body.exchange_id),
        kind=body.kind,
        subject=body.surface.pod_id,
        data={
            "exchangeId": body.exchange_id,
            "surface": {"podId": body.surface.pod_id, "label": body.surface.label},
            "participants": [{"agentId": one.agent_id, "instance": one.instance} for one in body.participants],
        },
        time=at,
    )
