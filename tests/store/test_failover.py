"""The primary is lost under load: what was acknowledged is on the standby, and everybody goes on there."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from tests import pairs
from tests.store.remembering import WHO, exchange, note, tell
from tests.store.served import serving
from tests.store.world import AGENTS, AUTOMATIC, World

from anabranch.client import transport
from anabranch.devcluster import postgres
from anabranch.model.canonical import sha256
from anabranch.model.errors import AnabranchError
from anabranch.model.ids import LineId, new_retraction_id
from anabranch.model.objects import Change
from anabranch.store import (
    agent_events,
    checkpoints,
    durability,
    evidence,
    leases,
    migrate,
    notices,
    retractions,
    trie,
)
from anabranch.store.durability import RefusedError, UnsettledError
from anabranch.store.receipts import Arrival
from anabranch.store.receiver import Receiver

pytestmark = pytest.mark.outages

AGENTS_AT_WORK = 4
BATCHES = 12
HALF = BATCHES // 2
"""Behind which agents wait until something was published; the primary is lost in the middle of what comes then."""


async def run_of(world, name="ada"):
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    return await world.apply_branch(name)


def arrival(branch, sequence=1):
    body = b'{"sequence":%d}' % sequence
    return Arrival(
        line=branch.line,
        branch_id=branch.branch_id,
        sequence=sequence,
        receipt_id=f"rc_{sequence}",
        content_hash=sha256(body),
        body=body,
        changes=1,
        final=False,
    )


class Processes:
    """One after the other, each without any knowledge of standbys that are missing.

    Attributes:
        api: The database of the one that there is now.
    """

    def __init__(self, dsn, opened):
        self._dsn, self._opened = dsn, opened
        self.api = None

    async def another(self):
        self.api = await self._opened(self._dsn)


def be_impatient(monkeypatch):
    """Have processes let commits go which wait for longer than a moment."""
    monkeypatch.setattr(durability, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(durability, "LONG_SECONDS", 0.1)


async def beside_a_run(processes, line):
    """What is kept of agents' memory, and of a line, by others than its runs; each says whether it is new."""
    withdrawn = {"line": line, "key": "a", "revision": 1, "scope": "shared", "content_hash": sha256(b"one")}
    withdrawn |= {"reason": "it is wrong", "requested_by": "eve"}
    for event_id in ("acked", "failed"):
        await tell(processes.api, event_id)
    async with processes.api.transaction() as conn:
        (acked, failed), _ = await agent_events.claim(conn, WHO, limit=2, visibility=timedelta(hours=1))

    async def keep_exchange():
        (noted,) = await note(processes.api, exchange(exchange_id="x"))
        return noted.new

    async def keep_retraction():
        async with processes.api.connection() as conn:
            row = await retractions.request(conn, **withdrawn, retraction_id=(own := new_retraction_id(LineId(line))))
        return row.retraction_id == own

    async def acknowledge():
        async with processes.api.connection() as conn:
            known = await agent_events.get(conn, WHO, event_id=acked.event_id)
            await agent_events.acknowledge(conn, WHO, event_id=acked.event_id, claim_id=acked.claim_id)
        return known.status == "claimed"

    async def give_back():
        async with processes.api.connection() as conn:
            known = await agent_events.get(conn, WHO, event_id=failed.event_id)
            claimed = {"event_id": failed.event_id, "claim_id": failed.claim_id}
            await agent_events.give_back(conn, WHO, **claimed, error="no", retry_in=timedelta(hours=1))
        return known.status == "claimed"

    return keep_exchange, keep_retraction, acknowledge, give_back


async def keeps_of(processes, branch):
    """Everything that an agent may be told is kept; each says whether it is new."""
    digest, where = sha256(b"a log"), {"line": branch.line, "branch_id": branch.branch_id}
    checkpoint = {"checkpoint_id": "c", "session_id": "s", "content_hash": digest, "body": b"{}", "after": None}

    async def keep_evidence():
        async with processes.api.connection() as conn:
            return await evidence.put(conn, **where, digest=digest, media_type="text/plain", body=b"a log")

    async def keep_checkpoint():
        async with processes.api.connection() as conn:
            return (await checkpoints.add(conn, **where, **checkpoint))[1]

    async def receive():
        (row,) = await Receiver(processes.api).receive([arrival(branch)])
        return not row.duplicate

    return receive, keep_evidence, keep_checkpoint, *await beside_a_run(processes, branch.line)


async def test_what_no_standby_has_is_not_acknowledged_however_often_it_is_repeated(synchronous, opened, monkeypatch):
    be_impatient(monkeypatch)
    processes = Processes(synchronous.dsn("api"), opened)
    await processes.another()
    keeps = await keeps_of(processes, await run_of(World(await opened(synchronous.dsn("operator")))))
    pairs.freeze(synchronous.standby)
    for keep in keeps:
        for _ in range(2):  # the second time it is there already, for all to see
            await processes.another()
            with pytest.raises(UnsettledError):
                await keep()
            with pytest.raises(RefusedError):  # by a process that has learned of it, at once
                await keep()
    pairs.freeze(synchronous.standby, pairs.signal.SIGCONT)
    for keep in keeps:
        await processes.another()
        async with asyncio.timeout(30):
            assert await keep() is False  # it is not new, and the standby has it


async def test_the_primary_is_lost_under_load_and_nothing_that_was_acknowledged_is(synchronous, opened, monkeypatch):
    monkeypatch.setattr(transport, "pause", lambda _attempt: 0.05)
    db = await opened(synchronous.dsn("operator"))
    heard = []
    async with serving(db, synchronous.dsn("api")) as served, db.listen() as topics:
        world, acknowledged = served.world, {}
        line = (await world.import_documents({"a": "one"}, **AUTOMATIC)).line.line
        branches = [await world.apply_branch(f"agent-{number}") for number in range(AGENTS_AT_WORK)]
        listening = asyncio.create_task(_hear(topics, heard))
        done = asyncio.Event()
        operator = asyncio.create_task(_operate(world, done, turns := []))
        go_on = asyncio.Event()
        agents = [asyncio.create_task(_submit(served, branch, acknowledged, go_on)) for branch in branches]
        await _until(lambda: turns)
        go_on.set()
        await _until(lambda: len(acknowledged) > AGENTS_AT_WORK * HALF)

        old = synchronous.primary
        pairs.kill(old)
        before = dict(acknowledged)
        await synchronous.promote()
        await _until(lambda: len(acknowledged) > len(before))
        await asyncio.gather(*agents)
        done.set()
        await operator
        await _until(lambda: heard.count(notices.EVERYTHING) >= 2)  # at the start, and behind the failover
        listening.cancel()

    assert len(before) < AGENTS_AT_WORK * BATCHES
    assert len(acknowledged) == AGENTS_AT_WORK * BATCHES
    await _check(db, line, acknowledged)
    assert (
        await migrate.upgrade(synchronous.dsn("migrate")) == migrate.head()
    )  # it finds the one that takes writes, too

    # The one that was lost comes back as it was, and is written to: nothing that it takes is acknowledged.
    await asyncio.to_thread(
        postgres.start, old.folder, durable=False, settings={**pairs.SETTINGS, "cluster_name": "first"}
    )
    be_impatient(monkeypatch)
    zombie = await opened(synchronous.of(old, "api"))
    with pytest.raises(UnsettledError):
        await Receiver(zombie).receive([arrival(branches[0], BATCHES + 1)])
    old.stop()


async def _hear(topics, heard):
    async for topic in topics:
        heard.append(topic)


async def _operate(world, done, turns):
    """Work as an operator does, which an outage costs nothing but time, until there is nothing left."""
    while True:
        try:
            async with world.db.connection() as conn:  # what was held when the server went is taken over
                await conn.execute(
                    "UPDATE jobs SET lease_deadline = now() - interval '1 s', due_at = now() WHERE holder IS NOT NULL"
                )
            worked = await world.work_once()
        except (AnabranchError, leases.FencedError):
            worked = 0
        if worked:
            turns.append(worked)
        if done.is_set() and not worked:
            return
        await asyncio.sleep(0.01)


async def _submit(served, branch, acknowledged, go_on):
    """Hand in batches one after the other, each until it is acknowledged."""
    client = await served.client(branch.service_account)
    for sequence in range(1, BATCHES + 1):
        key = f"{branch.name}/{sequence}"
        if sequence > HALF:
            await go_on.wait()
        while True:
            try:
                proof = await client.put_evidence(AGENTS, branch.branch_id, b"a log of it")
                receipt = await client.submit_batch(
                    AGENTS,
                    branch.branch_id,
                    sequence=sequence,
                    changes=[Change(op="put", key=key, content=sequence, scope="shared", visibility="shareable")],
                    sources=[[proof]],
                    base_revisions=["0"],
                )
            except (AnabranchError, OSError):
                await asyncio.sleep(0.05)
            else:
                acknowledged[branch.branch_id, sequence] = receipt.receipt_id
                break


async def _until(holds):
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110  (only looking tells)
            await asyncio.sleep(0.01)


async def _check(db, line, acknowledged):
    """What was acknowledged is there once, was published once, is told without a gap, and leads to its roots."""
    async with db.transaction() as conn:
        rows = await conn.fetch("SELECT branch_id, sequence, receipt_id, job_id FROM batches WHERE line = $1", line)
        assert {(row["branch_id"], row["sequence"]): row["receipt_id"] for row in rows} == acknowledged
        states = await conn.fetch("SELECT job_id, state, failed FROM jobs WHERE line = $1", line)
        assert {(row["state"], row["failed"]) for row in states} == {("published", False)}
        assert {row["job_id"] for row in rows} <= {row["job_id"] for row in states}
        events = await conn.fetch("SELECT sequence, kind, key FROM events WHERE line = $1 ORDER BY sequence", line)
        assert [row["sequence"] for row in events] == list(range(1, len(events) + 1))
        told = Counter(row["key"] for row in events if row["kind"] == "published")
        assert len(told) == len(acknowledged)
        assert set(told.values()) == {1}
        for row in await conn.fetch("SELECT generation, manifest_hash FROM manifests WHERE line = $1", line):
            assert await trie.recompute_root(conn, line=line, generation=row["generation"]) == row["manifest_hash"]
