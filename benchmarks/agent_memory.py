"""An agent's memory and its queue of events: how fast exchanges are noted, and events are fetched and acknowledged.

Appends are what the service does for one exchange of one agent: a transaction that locks the envelope, notes the
exchange and queues its event. To one envelope they come one after the other, for each raises its revision; to a
thousand they seldom meet. In bulk they are what the operator makes of the notices that publications leave: 200 a
transaction.

Events are claimed and acknowledged next to pgqueuer and procrastinate, which run jobs that do nothing, on the same
durable server with as many connections. Ours is the service below the HTTP routes: 32 agents at once, each claiming a
hundred of its own events a time and acknowledging each by itself, as agents do. Each claim stamps the events with the
memory's revision and makes the digest of what is unseen; each acknowledgement marks that as seen. Neither peer has
anything like it. pgqueuer fetches a hundred at a time and finishes them in batches; procrastinate fetches and finishes
one job at a time, by as many concurrent tasks as serve it best here.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from anabranch.memory import delivery, outbox
from anabranch.model.canonical import sha256
from anabranch.model.memory import AgentKey
from anabranch.store import agent_events, exchanges
from benchmarks import jobs, serving
from benchmarks.acknowledgement import middle
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Database
    from benchmarks.stage import Line, Stage

NAME = "agent_memory"
WRITERS = 32
ENVELOPES = 1_000
AGENTS = 32
CLAIMED = 100


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    appends, notices, ours, pgqueuer, procrastinate = (
        (200, 200, 640, 300, 100) if quick else (8_000, 10_000, 9_600, 5_000, 1_000)
    )
    line = await stage.new_line(1_000)
    return [
        await appending(line, appends=appends, notices=notices),
        await delivering(stage, line, ours=ours, pgqueuer=pgqueuer, procrastinate=procrastinate),
    ]


async def appending(line: Line, *, appends: int, notices: int) -> Row:
    """Note exchanges, with their events."""
    run = 0

    async def to(envelopes: int) -> float:
        nonlocal run
        run += 1
        return await append(line.db, keys_of("append", envelopes), appends=appends, run=run)

    found = await interleaved(lambda: to(1), lambda: to(ENVELOPES))
    return Row(
        name=NAME,
        work=f"note an exchange and queue its event, {WRITERS} writers to one envelope",
        peer=f"the same to {ENVELOPES:,} envelopes",
        bar="-",
        ratio=found.ratio,
        spread=found.spread,
        reached=True,
        figures={
            "per_s": middle(found.ours),
            "per_s_to_1,000": middle(found.peer),
            "notices_told_per_s": await told(line, notices),
        },
    )


async def delivering(stage: Stage, line: Line, *, ours: int, pgqueuer: int, procrastinate: int) -> Row:
    """Claim and acknowledge events, next to two queues."""
    run = 0

    async def deliver() -> float:
        nonlocal run
        run += 1
        return await claimed_and_acknowledged(line.db, events=ours, run=run)

    queue, app = await stage.database_dsn(), await stage.database_dsn()
    against_pgqueuer = await interleaved(deliver, lambda: jobs.pgqueuer(queue, pgqueuer, batch=CLAIMED))
    against_procrastinate = await interleaved(deliver, lambda: jobs.with_procrastinate(app, procrastinate))
    compared = min(against_pgqueuer, against_procrastinate, key=lambda one: one.ratio)
    return Row(
        name=f"{NAME}_delivery",
        work=f"events of {AGENTS} agents, claimed up to {CLAIMED} at a time and acknowledged one by one",
        peer="procrastinate and pgqueuer, the better of them",
        bar="-",
        ratio=compared.ratio,
        spread=compared.spread,
        reached=True,
        figures={
            "ours_per_s": middle(compared.ours),
            "pgqueuer_per_s": middle(against_pgqueuer.peer),
            "procrastinate_per_s": middle(against_procrastinate.peer),
            "better": "pgqueuer" if compared is against_pgqueuer else "procrastinate",
        },
    )


def keys_of(name: str, number: int) -> list[AgentKey]:
    """So many instances of agents."""
    return [AgentKey(namespace="bench", agent_id=f"{name}-{one}", instance="default") for one in range(number)]


async def append(db: Database, keys: Sequence[AgentKey], *, appends: int, run: int) -> float:
    """Note exchanges one a transaction; how many a second."""
    numbers = iter(range(appends))

    async def write() -> None:
        for number in numbers:
            one = [_exchange(keys[number % len(keys)], f"{run}-{number}")]
            async with db.transaction() as conn:
                await exchanges.append(conn, one)
                await agent_events.enqueue(conn, [_event(exchange) for exchange in one])

    began = time.perf_counter()
    await asyncio.gather(*(write() for _ in range(WRITERS)))
    return appends / (time.perf_counter() - began)


async def told(line: Line, notices: int) -> float:
    """Tell the agents of a thousand runs of publications; how many notices a second."""
    agents = [serving.Agent(f"told-{one}", "") for one in range(min(ENVELOPES, notices))]
    branches = await serving.forked(line.db, line.line, agents)
    async with line.db.connection() as conn:
        await conn.execute(
            "INSERT INTO agent_outbox (line, outbox_id, kind, branch_id, details)"
            " SELECT $1, 'bench-' || n, 'finding.published', ($2::text[])[1 + n % cardinality($2::text[])], $3"
            " FROM generate_series(1, $4::int) AS n",
            line.line,
            [branch.branch_id for branch in branches],
            _DETAILS,
            notices,
        )
    began = time.perf_counter()
    while await outbox.drain(line.db):
        pass
    return notices / (time.perf_counter() - began)


async def claimed_and_acknowledged(db: Database, *, events: int, run: int) -> float:
    """Claim and acknowledge events until there are none; how many a second."""
    keys = keys_of(f"deliver-{run}", AGENTS)
    async with db.transaction() as conn:
        entries = [_exchange(keys[number % AGENTS], f"{run}-{number}") for number in range(events)]
        await exchanges.append(conn, entries)
        await agent_events.enqueue(conn, [_event(entry) for entry in entries])
    done = 0

    async def poll(who: AgentKey) -> None:
        nonlocal done
        while got := await delivery.claim(db, who, limit=CLAIMED, visibility=_VISIBILITY):
            for event in got:
                await delivery.ack(db, who, event_id=event.id, claim_id=event.claimid)
            done += len(got)

    began = time.perf_counter()
    await asyncio.gather(*(poll(who) for who in keys))
    took = time.perf_counter() - began
    if done != events:
        raise RuntimeError(f"{done} of {events} events were fetched")
    return events / took


_VISIBILITY = timedelta(minutes=10)

_DETAILS = {
    "job_id": "job_bench",
    "job_namespace": "bench",
    "job_name": "bench",
    "count": 3,
    "generation": 2,
    "findings": [{"candidate_id": f"cand_{n}", "key": f"platform/topic/note-{n}", "reason": ""} for n in range(3)],
}


def _exchange(key: AgentKey, name: str) -> exchanges.NewExchange:
    return exchanges.NewExchange(
        key=key,
        exchange_id=name,
        digest=sha256(name.encode()),
        kind="exchange.direct",
        surface_pod_id="room-1",
        surface_label="a room",
        peers=("another/default",),
        takeaway="We keep the build cache for a week, and say so on the page about builds." * 2,
        ts=datetime.now(UTC),
    )


def _event(exchange: exchanges.NewExchange) -> agent_events.NewAgentEvent:
    return agent_events.NewAgentEvent(
        key=exchange.key,
        event_id=exchange.exchange_id,
        kind=exchange.kind,
        subject=exchange.surface_pod_id,
        data={"surface": {"podId": "room-1", "label": "a room"}},
        time=exchange.ts,
    )
