"""Everything is restarted in turn under work: what was acknowledged is published, once, and every follower has it all.

The calls go where a Service would send them: to one of two API processes that takes a connection. That is also how the
error budget of docs/high_availability.md is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count

import pytest
from tests.cluster.places import BASELINE, Place, eventually, finding
from tests.cluster.ways import Way
from tests.pace import allowed

from anabranch.client import AnabranchClient
from anabranch.devcluster import choose
from anabranch.devcluster.processes import Processes
from anabranch.model.errors import UnavailableError

AWAY_SECONDS = 2.0
LONGEST_SECONDS = 30.0
"""A call of a client takes no longer, its repetitions included, whatever is restarted: with room for a busy machine."""

pytestmark = pytest.mark.outages


@dataclass
class Told:
    """What became of the calls of one phase."""

    calls: int = 0
    failed: int = 0
    longest: float = 0.0


@dataclass
class Writer:
    """An agent that submits one finding after the other, each until it is acknowledged.

    Attributes:
        acknowledged: Sequences, in order.
        phases: What became of its calls, by what was being restarted.
    """

    town: Place
    client: AnabranchClient
    acknowledged: list[int] = field(default_factory=list)
    phases: defaultdict[str, Told] = field(default_factory=lambda: defaultdict(Told))
    phase: str = ""
    branch: object = None
    stopped: bool = False

    async def work(self) -> None:
        evidence = await self.client.put_evidence(self.town.namespace, self.branch.branch_id, b"seen")
        for sequence in count(1):
            if self.stopped:
                return
            while not await self._is_acknowledged(sequence, evidence):
                pass
            self.acknowledged.append(sequence)
            await asyncio.sleep(0.5)

    def key(self, sequence: int) -> str:
        return f"restarts/{self.branch.name}/{sequence:04}"

    async def _is_acknowledged(self, sequence, evidence) -> bool:
        told = self.phases[self.phase]
        told.calls += 1
        began = time.monotonic()
        try:
            await self.client.submit_batch(
                self.town.namespace,
                self.branch.branch_id,
                sequence=sequence,
                changes=[finding(self.key(sequence), sequence)],
                sources=[[evidence]],
                base_revisions=["0"],
            )
        except UnavailableError:
            told.failed += 1
            await asyncio.sleep(0.2)
            return False
        finally:
            told.longest = max(told.longest, time.monotonic() - began)
        return True


class Service(Way):
    """Sends each connection to the next API process that takes it."""

    def __init__(self, *urls: str) -> None:
        super().__init__(urls[0])
        self._ways = [Way(url) for url in urls]
        self._turns = count()

    async def _forward(self, reader, writer) -> None:
        first = next(self._turns)
        for turn in range(len(self._ways)):
            way = self._ways[(first + turn) % len(self._ways)]
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection(way._host, way._port)
                self._writers |= {writer, back}
                await asyncio.gather(self._pipe(reader, back), self._pipe(there, writer))
                return
        writer.transport.abort()


@pytest.fixture
async def town(stack):
    town = Place(stack, namespace=f"away-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    town.baseline(review={"mode": "Automatic"})
    yield town
    await town.close()


@pytest.fixture
async def service(stack):
    """Two API processes and two operators, and where the former are reached."""
    await asyncio.gather(
        asyncio.to_thread(stack.start_api, "api-2"), asyncio.to_thread(stack.start_operator, "operator-2")
    )
    service = Service(stack.url("api"), stack.url("api-2"))
    await service.open()
    yield f"http://127.0.0.1:{service.port}"
    service.cut()
    await asyncio.to_thread(stack.stop, "api-2")
    await asyncio.to_thread(stack.stop, "operator-2")


def restart_postgres(stack):
    """Be without Postgres for a moment, and with it again."""
    if stack.server.folder is None:
        pytest.skip("a Postgres of somebody else is not restarted")
    stack.server.stop()
    time.sleep(AWAY_SECONDS)
    choose.postgres_server(stack.folder / "postgres", durable=False)


def restarts(stack):
    """Each part by name, and what restarts it."""

    def api(name):
        stack.stop(name)
        stack.start_api(name)

    def operator(name):
        stack.stop(name)
        stack.start_operator(name)

    def api_server():
        Processes(stack.folder / "cluster").stop("kube-apiserver")
        time.sleep(AWAY_SECONDS)
        choose.cluster(stack.folder / "cluster", audit=True)

    yield "API", lambda: [api(name) for name in ("api", "api-2")]
    yield "operators", lambda: [operator(name) for name in ("operator", "operator-2")]
    yield "Postgres", lambda: restart_postgres(stack)
    yield "API server", api_server


@pytest.fixture
async def writers(town, service):
    """Two agents that write, each to a branch of its own."""
    async with contextlib.AsyncExitStack() as opened:
        writers = []
        for name in ("first", "second"):
            token = town.account(name, "anabranch-agent")
            client = await opened.enter_async_context(AnabranchClient(service, token=token))
            writers.append(Writer(town, client, branch=await town.branch(client)))
        yield writers


@pytest.fixture
async def followed(town, writers):
    """What each of them follows, as sequence and key."""
    followed = [[] for _ in writers]

    async def follow(client, events):
        async for item in client.follow(town.namespace, BASELINE):
            if item.event is not None:
                events.append((item.event.sequence, item.event.key))

    tasks = [
        asyncio.create_task(follow(writer.client, events)) for writer, events in zip(writers, followed, strict=True)
    ]
    yield followed
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def restart_in_turn(stack, writers):
    """Restart each part, and wait each time until every writer has gone on."""

    async def gone_on():
        return all(len(writer.acknowledged) > known for writer, known in before)

    for phase, restart in restarts(stack):
        for writer in writers:
            writer.phase = phase
        await asyncio.to_thread(restart)
        before = [(writer, len(writer.acknowledged)) for writer in writers]
        await eventually(gone_on, within=allowed(LONGEST_SECONDS))


async def test_agents_write_and_follow_while_everything_is_restarted_in_turn(stack, town, writers, followed):
    if stack.server.folder is None or stack.cluster.kind != "local":
        pytest.skip("what belongs to somebody else is not restarted")
    writing = [asyncio.create_task(writer.work()) for writer in writers]
    await restart_in_turn(stack, writers)
    for writer in writers:
        writer.stopped = True
    await asyncio.gather(*writing)

    # Nothing that was acknowledged is lost, or there twice.
    for writer in writers:
        for sequence in writer.acknowledged:
            assert (await town.publication(writer.client, writer.branch, sequence)).generation
    wanted = Counter(writer.key(sequence) for writer in writers for sequence in writer.acknowledged)
    records = writers[0].client.records(town.namespace, BASELINE)
    assert Counter([record.key async for record in records if record.key.startswith("restarts/")]) == wanted

    async def converged():
        return all(len(events) >= wanted.total() for events in followed)

    await eventually(converged)
    for events in followed:
        assert Counter(key for _, key in events) == wanted
        assert [sequence for sequence, _ in events] == list(range(1, len(events) + 1))

    # The budget: with its repetitions a call fails only while Postgres is away, and none takes long.
    phases = [(phase, told) for writer in writers for phase, told in writer.phases.items()]
    assert not [(phase, told) for phase, told in phases if told.failed and phase != "Postgres"]
    assert max(told.longest for _, told in phases) < allowed(LONGEST_SECONDS)

    await eventually(lambda: shown(town, writers))
    town.apply("Branch", "later", {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "first"}})
    town.kubectl("wait", "--for=condition=Ready", "branch/later", "--timeout=60s")


async def shown(town, writers):
    """Whether each batch is in one job, each job is a resource that has ended, and the Baseline has nothing left."""
    jobs = json.loads(town.kubectl("get", "consolidationjobs", "--output=json"))["items"]
    taken = Counter(
        (job["spec"]["branchRef"]["name"], sequence)
        for job in jobs
        if job["status"].get("state") == "published"
        for sequence in range(job["spec"]["batches"]["from"], job["spec"]["batches"]["through"] + 1)
    )
    status = town.stack.cluster.get("baseline", BASELINE, f"--namespace={town.namespace}")["status"]
    return status["pendingBatches"] == 0 and taken == Counter(
        (writer.branch.name, sequence) for writer in writers for sequence in writer.acknowledged
    )
