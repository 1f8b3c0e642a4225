"""Delivery of events: claimed together with what else the agent should know, acknowledged by the claim.

Every runtime reads the payload of its events, and few adopt a new tool. So what one session of an agent did reaches its
next session in the events that it gets anyway: the newest exchanges that it has not seen, and how many more there are.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.domain import backoff
from anabranch.domain.digest import share_out
from anabranch.model.agent_events import TYPE_PREFIX, AgentEvent, AgentEventData, EventState
from anabranch.model.memory import Exchange
from anabranch.store import agent_events
from anabranch.telemetry.of_api import AGENT_EVENTS

if TYPE_CHECKING:
    from uuid import UUID

    from anabranch.model.agent_events import MemoryDigest
    from anabranch.model.memory import AgentKey
    from anabranch.store.agent_events import ClaimedEvent, EventRow
    from anabranch.store.database import Database
    from anabranch.store.exchanges import ExchangeRow

_RETRY_SECONDS: Final = 30.0
"""After the first failure, at most."""


async def claim(db: Database, who: AgentKey, *, limit: int, visibility: timedelta) -> list[AgentEvent]:
    """Take an agent's oldest events, for a time; nobody else is given them until then.

    Args:
        db: The store.
        who: Whose queue it is, and who claims.
        limit: How many at most.
        visibility: For how long.
    """
    async with db.transaction() as conn:
        taken, unseen = await agent_events.claim(conn, who, limit=limit, visibility=visibility)
        digests = share_out([_exchange(row) for row in unseen], events=len(taken))
        untold = iter(unseen)
        told = [
            (event.event_id, next(untold).revision)
            for event, digest in zip(taken, digests, strict=True)
            for _ in digest.entries
        ]
        if told:
            await agent_events.deliver(conn, who, told)
    for event in taken:
        AGENT_EVENTS.labels("told" if event.attempts == 1 else "told_again").inc()
    return [_told(who, event, digest) for event, digest in zip(taken, digests, strict=True)]


async def ack(db: Database, who: AgentKey, *, event_id: str, claim_id: UUID) -> EventState:
    """Say that an event was dealt with: what was told with it is seen. The same again changes nothing.

    Raises:
        NotFoundError: If there is no such event, or not any more.
        ClaimLostError: If the claim does not hold it: somebody else has it by now. Nothing is changed then.
    """
    async with db.connection() as conn:
        row = await agent_events.acknowledge(conn, who, event_id=event_id, claim_id=claim_id)
    AGENT_EVENTS.labels("acknowledged").inc()
    db.notify(who.topic)
    return _state(row, claim_id)


async def fail(db: Database, who: AgentKey, *, event_id: str, claim_id: UUID, error: str) -> EventState:
    """Say that an event could not be dealt with: it comes again a little later, unless this was the third time.

    Raises:
        NotFoundError: If there is no such event, or not any more.
        ClaimLostError: If the claim does not hold it. Nothing is changed then.
    """
    async with db.connection() as conn:
        known = await agent_events.get(conn, who, event_id=event_id)
        pause = backoff.delay(known.attempts if known else 1, chance=random.random(), base=_RETRY_SECONDS)  # noqa: S311  (jitter)
        row = await agent_events.give_back(
            conn, who, event_id=event_id, claim_id=claim_id, error=error, retry_in=timedelta(seconds=pause)
        )
    AGENT_EVENTS.labels("given_back").inc()
    db.notify(who.topic)
    return _state(row, claim_id)


def _exchange(row: ExchangeRow) -> Exchange:
    return Exchange(
        kind=row.kind,
        surface_pod_id=row.surface_pod_id,
        surface_label=row.surface_label,
        peers=row.peers,
        takeaway=row.takeaway,
        ts=row.ts,
    )


def _told(who: AgentKey, event: ClaimedEvent, digest: MemoryDigest) -> AgentEvent:
    return AgentEvent(
        id=event.event_id,
        source=who.path,
        type=TYPE_PREFIX + event.kind,
        subject=event.subject,
        time=event.time,
        claimid=event.claim_id,
        attempts=event.attempts,
        deadline=event.deadline,
        data=AgentEventData(**event.data, memory_revision=str(event.memory_revision), memory_digest=digest),
    )


def _state(row: EventRow, claim_id: UUID) -> EventState:
    return EventState(
        event_id=row.event_id,
        claim_id=claim_id,
        status=row.status,
        attempts=row.attempts,
        memory_revision=str(row.memory_revision_at_delivery or 0),
        retry_at=row.due_at if row.status == "pending" else None,
    )
