"""An agent with a memory, and what happens to it elsewhere."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from anabranch.memory import envelopes
from anabranch.model.canonical import canonical_bytes, sha256
from anabranch.model.memory import AgentKey, MemorySync, PutSection
from anabranch.store import agent_events, exchanges
from anabranch.store.agent_events import NewAgentEvent
from anabranch.store.exchanges import NewExchange

if TYPE_CHECKING:
    from anabranch.model.memory import MemorySection
    from anabranch.store.database import Database

WHO = AgentKey(namespace="agents", agent_id="scout", instance="pod-a")
SIBLING = AgentKey(namespace="agents", agent_id="scout", instance="pod-b")
STRANGER = AgentKey(namespace="agents", agent_id="planner", instance="pod-a")
WHEN = datetime(2026, 11, 30, 12, tzinfo=UTC)

_numbers = itertools.count(1)


def exchange(key: AgentKey = WHO, exchange_id: str | None = None, **members: Any) -> NewExchange:
    """An exchange with the planner in its room."""
    exchange_id = exchange_id or f"exchange-{next(_numbers)}"
    told = {
        "kind": "exchange.direct",
        "surface_pod_id": "room-7",
        "surface_label": "Planning",
        "peers": ("planner/pod-a",),
        "takeaway": f"Said in {exchange_id}.",
    } | members
    return NewExchange(key=key, exchange_id=exchange_id, digest=sha256(canonical_bytes(told)), **{"ts": WHEN} | told)


async def note(db: Database, *entries: NewExchange) -> list[exchanges.Appended]:
    """Append exchanges in a transaction of their own."""

    async def work(conn: Any) -> list[exchanges.Appended]:
        return await exchanges.append(conn, entries)

    return await db.run(work)


async def tell(db: Database, event_id: str, key: AgentKey = WHO, *, with_exchange: bool = False, **data: Any) -> None:
    """Put an event into a queue, and perhaps the exchange that it tells of into the envelope."""

    async def work(conn: Any) -> None:
        if with_exchange:
            await exchanges.append(conn, [exchange(key, event_id)])
        event = NewAgentEvent(
            key=key, event_id=event_id, kind="exchange.direct", subject=event_id, data=data, time=WHEN
        )
        await agent_events.enqueue(conn, [event])

    await db.run(work)


async def put(
    db: Database, section: str, content: Any, item: str | None = None, who: AgentKey = WHO, **more: Any
) -> MemorySection:
    expected = more.pop("expected", None)
    body = PutSection(content=content, **more)
    return await envelopes.put(db, who, section=section, item=item, body=body, expected=expected)


def sync_of(mode: str, contents: dict[str, Any], *, runtime: str = "runner") -> MemorySync:
    """A sync of contents by ``section`` or ``section/item``."""
    given = []
    for place, content in contents.items():
        section, _, item = place.partition("/")
        given.append({"section": section, "item": item or None, "content": content})
    return MemorySync.model_validate({"mode": mode, "runtime": runtime, "sections": given})


async def written(db: Database, who: AgentKey = WHO) -> dict[str, Any]:
    """What an agent has written down, by ``section`` or ``section/item``."""
    envelope = await envelopes.read(db, who)
    return {"/".join(filter(None, (each.section, each.item))): each.content for each in envelope.sections}


async def takeaways(db: Database, who: AgentKey = WHO) -> list[str]:
    """Of the exchanges in an envelope, newest first."""
    return [entry.takeaway for entry in (await envelopes.read(db, who)).system_exchanges.entries]


async def unseen(db: Database, who: AgentKey = WHO) -> list[int]:
    """Revisions of the exchanges that an agent has not seen, newest first."""
    entries = (await envelopes.read(db, who)).system_exchanges.entries
    return [int(entry.revision) for entry in entries if not entry.seen]


async def revision(db: Database, who: AgentKey = WHO) -> int:
    return int((await envelopes.read(db, who)).revision)


async def last_seen(db: Database, who: AgentKey = WHO) -> int:
    return int((await envelopes.read(db, who)).last_seen_revision)
