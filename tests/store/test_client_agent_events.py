"""Agents' events by the client: dealt with one by one, by stream or by poll, by a worker, and without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from tests.store.chatting import told
from tests.store.served import serving
from tests.store.working import RUN
from tests.store.world import AGENTS, AUTOMATIC

from anabranch.client import streams
from anabranch.client.sync import SyncClient
from anabranch.client.worker import Worker
from anabranch.identity import grants
from anabranch.memory import delivery
from anabranch.model.errors import ForbiddenError


@pytest.fixture
async def served(db, database, monkeypatch):
    monkeypatch.setattr(delivery, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.01)
    async with serving(db, database.api) as served:
        yield served


async def states(served):
    """What became of ada's events, oldest first."""
    client = await served.client("ada")
    return [event.status async for event in client.queued_events(AGENTS, "ada")][::-1]


async def until(look, within=60.0):
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def handling(client, handle, **options):
    task = asyncio.create_task(client.handle_events(AGENTS, "ada", handle, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("poll", [False, True])
async def test_what_a_handler_deals_with_is_acknowledged_and_what_it_does_not_comes_again(served, poll):
    client = await served.client("ada")
    met = []

    async def handle(event):
        met.append((event.id, event.attempts))
        if event.attempts == 1 and event.data.exchangeId == ids[0]:
            raise RuntimeError("the disk is full")

    ids = await told(served, "ada", count=2)
    async with handling(client, handle, poll=poll):
        await until(lambda: asyncio.sleep(0, len(met) == 3))
        await until(lambda: _are(served, ["acked", "acked"]))
    assert sorted(attempts for _, attempts in met) == [1, 1, 2]
    assert len({event for event, _ in met}) == 2


async def _are(served, expected):
    return await states(served) == expected


async def test_a_plain_function_is_called_in_a_thread(served):
    client = await served.client("ada")
    threads = []
    await told(served, "ada")
    async with handling(client, lambda _: threads.append(threading.get_ident())):
        await until(lambda: _are(served, ["acked"]))
    assert threads != [threading.get_ident()]


async def test_a_handler_that_takes_too_long_loses_its_claim_and_the_next_one_goes_on(served, monkeypatch):
    client = await served.client("ada")
    met = []

    async def handle(event):
        met.append(event.attempts)
        if event.attempts == 1:  # somebody else gets it meanwhile
            async with served.world.db.connection() as conn:
                await conn.execute("UPDATE agent_events SET due_at = now() - interval '1 second'")
            (other,) = (await client.claim_events(AGENTS, "ada")).events
            await client.fail_event(AGENTS, "ada", other.id, other.claimid, error="so")

    await told(served, "ada")
    async with handling(client, handle, poll=True):
        await until(lambda: _are(served, ["acked"]))
    assert met == [1, 3]


async def test_it_goes_on_after_the_api_was_away_and_ends_when_the_grant_is_gone(served):
    client = await served.client("ada")
    met = []

    async def handle(event):
        met.append(event.id)

    async with handling(client, handle) as task:
        await told(served, "ada")
        await until(lambda: asyncio.sleep(0, len(met) == 1))
        await served.stop()
        await served.start()
        await told(served, "ada")
        await until(lambda: asyncio.sleep(0, len(met) == 2))
        served.world.permissions.deny(grants.OWN_MEMORY)
        with pytest.raises(ForbiddenError):
            await asyncio.wait_for(asyncio.shield(task), 60)


async def test_a_worker_deals_with_the_events_of_its_agents_instance_beside_its_run(served, tmp_path):
    await served.world.import_documents({"a": "one"}, **AUTOMATIC)
    client = await served.client("ada")
    met = []

    async def handle(event):
        met.append(event.data.memory_digest.entries[0].takeaway)

    run = RUN.model_copy(update={"agent_instance": "night"})
    async with await Worker.open(tmp_path / "run.db", client, namespace=AGENTS, branch=run, on_event=handle) as worker:
        await worker.sync()
        async with worker.running():
            await told(served, "ada/night", said="Mind the gap.")
            await until(lambda: asyncio.sleep(0, bool(met)))
    assert met == ["Mind the gap."]


async def test_a_worker_whose_memory_grant_is_gone_says_so(served, tmp_path):
    await served.world.import_documents({"a": "one"}, **AUTOMATIC)
    served.world.permissions.deny(grants.OWN_MEMORY)
    client = await served.client("ada")
    async with await Worker.open(tmp_path / "run.db", client, namespace=AGENTS, branch=RUN, on_event=print) as worker:
        await worker.sync()
        with pytest.raises(ForbiddenError):
            await asyncio.wait_for(worker.run(), 60)


async def test_an_agent_without_an_event_loop_remembers_and_hears(served):
    await told(served, "ada", count=2)
    met = []

    def work():
        with SyncClient(served.url, token="ada") as client:
            client.put_memory(AGENTS, "ada", "long_term", {"a": 1})
            content = client.memory_section(AGENTS, "ada", "long_term").content
            for event in client.agent_events(AGENTS, "ada"):
                met.append(event.id)
                client.ack_event(AGENTS, "ada", event.id, event.claimid)
                if len(met) == 2:
                    return content
        return None

    assert await asyncio.to_thread(work) == {"a": 1}
    assert await states(served) == ["acked", "acked"]
