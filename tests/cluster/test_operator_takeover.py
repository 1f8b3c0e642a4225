"""Two operators: one leads; whatever becomes of it the other takes over within the Lease, and nothing is done twice.

Each is a process of its own, with its own way to the API server and its own way to Postgres, which can be cut. Their
Lease is shorter than the usual one; the proportions are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.places import BASELINE, Place, eventually, finding
from tests.cluster.test_operator_killed import Crossing, let_leases_run_out
from tests.cluster.ways import Way
from tests.pace import allowed

from anabranch.devcluster.processes import Processes
from anabranch.kube.leader import Pace
from anabranch.manifests import LEASE, OPERATOR_ACCOUNT

PACE = Pace.of(4)
WITHIN = PACE.duration + PACE.retry + 2
"""Until another one leads: the Lease, the time between two looks at it, and some for a machine with other work."""

PATIENCE = 2 * PACE.duration
"""Without Postgres, before a leader gives up."""

pytestmark = pytest.mark.outages


@pytest.fixture(scope="module")
def aside():
    """Runs the ways, which must go on while a test waits for a command."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Operator:
    """One of the two."""

    def __init__(self, stack, name, aside) -> None:
        self.name = name
        self._stack = stack
        self._aside = aside
        config = json.loads(
            (stack.folder / "accounts" / f"{stack.namespace}.{OPERATOR_ACCOUNT}.kubeconfig").read_text()
        )
        cluster = config["clusters"][0]["cluster"]
        self.api_server, self.postgres = Way(cluster["server"]), Way(stack.operator_dsn)
        self.mend()
        cluster["server"] = f"https://127.0.0.1:{self.api_server.port}"
        self._kubeconfig = stack.folder / f"{name}-kubeconfig"
        self._kubeconfig.write_text(json.dumps(config))
        parts = urlsplit(stack.operator_dsn)
        there = f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self.postgres.port}"
        self._dsn = urlunsplit(parts._replace(netloc=there))

    def start(self) -> None:
        self._stack.start_operator(
            self.name,
            options=[f"--lease-seconds={PACE.duration}"],
            KUBECONFIG=str(self._kubeconfig),
            ANABRANCH_OPERATOR_DSN=self._dsn,
        )

    @property
    def process(self):
        return Processes(self._stack.folder).running(self.name)

    def mend(self) -> None:
        for way in (self.api_server, self.postgres):
            self._aside(way.mend())

    def cut(self, way) -> None:
        self._aside(_call(way.cut))

    def silence(self, way) -> None:
        self._aside(_call(way.silence))

    async def tells(self):
        """What it says of itself; nothing if it does not answer."""
        with contextlib.suppress(httpx.HTTPError):
            async with httpx.AsyncClient(
                base_url=self._stack.inner_url(self.name), trust_env=False, timeout=allowed(5)
            ) as http:
                return (await http.get("/readyz")).json()
        return {"ok": False, "leading": False, "wrong": {}}

    async def count(self, name, **labels):
        """The sum of a counter over all that have these labels; whoever led begins anew, its port too."""

        async def shown():
            with contextlib.suppress(httpx.HTTPError):
                async with httpx.AsyncClient(base_url=self._stack.inner_url(self.name), trust_env=False) as http:
                    return (await http.get("/metrics")).text

        text = await eventually(shown, within=allowed(10))
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"anabranch_{name}_total" and labels.items() <= sample.labels.items()
        )


async def _call(function):
    function()


@pytest.fixture(scope="module")
def pair(stack, aside):
    """Both, instead of the ordinary one, which is back afterwards."""
    if stack.cluster.kind == "given":
        pytest.skip("the certificate of a given cluster may not name the loopback address")
    stack.stop("operator")
    pair = [Operator(stack, name, aside) for name in ("operator-a", "operator-b")]
    try:
        yield pair
    finally:
        for operator in pair:
            stack.kill(operator.name)
            operator.cut(operator.api_server)
            operator.cut(operator.postgres)
        stack.start_operator()


@pytest.fixture
async def two(pair):
    """The one that leads, and the other one; everything is mended before and afterwards."""
    await asyncio.to_thread(_start, pair)
    yield await eventually(lambda: _roles(pair), within=allowed(WITHIN))
    for operator in pair:
        if process := operator.process:
            process.resume()
        operator.mend()


def _start(pair):
    with ThreadPoolExecutor() as executor:
        list(executor.map(Operator.start, pair))


async def _roles(pair):
    told = [await operator.tells() for operator in pair]
    if all(each["ok"] for each in told) and sum(each["leading"] for each in told) == 1:
        return sorted(pair, key=lambda operator: not told[pair.index(operator)]["leading"])
    return None


@pytest.fixture(scope="module")
async def town(stack, pair):
    town = Place(stack)
    await asyncio.to_thread(stack.make_namespace, town.namespace)
    await asyncio.to_thread(_start, pair)
    await asyncio.to_thread(town.baseline, review={"mode": "Automatic"})
    yield town
    await town.close()


@pytest.fixture
async def agent(town):
    return await town.client("agent", "anabranch-agent")


@pytest.fixture
async def conn(stack):
    conn = await asyncpg.connect(stack.admin_dsn)
    yield conn
    await conn.close()


async def leads(operator):
    return (await operator.tells())["leading"]


async def forked(town, name, *, within):
    """Wait until a Branch that is applied now is forked and shown, which takes a leader."""
    spec = {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "agent"}}
    await asyncio.to_thread(town.apply, "Branch", name, spec)
    wait = ("wait", "--for=condition=Ready", f"branch/{name}", f"--timeout={allowed(within):.0f}s")
    await asyncio.to_thread(town.kubectl, *wait)


async def published_once(town, agent, branch, sequences, prefix):
    """Wait until every batch of a branch is published; each of its findings stands in the feed once."""
    for sequence in sequences:
        assert (await town.publication(agent, branch, sequence)).published_baseline_id
    page = await agent.events(town.namespace, BASELINE, limit=1_000)
    counts = Counter(event.key for event in page.events if event.key.startswith(prefix))
    assert counts == {f"{prefix}{sequence}": 1 for sequence in sequences}
    assert [event.sequence for event in page.events] == list(range(1, len(page.events) + 1))


async def test_of_two_that_start_at_once_one_leads(stack, pair, town):
    for operator in pair:
        stack.kill(operator.name)
    await asyncio.to_thread(_start, pair)

    async def lead():
        told = [await operator.tells() for operator in pair]
        assert sum(each["leading"] for each in told) < 2
        assert all(each["ok"] for each in told if not each["leading"]), "who stands by is ready"
        return any(each["leading"] and each["ok"] for each in told)

    await eventually(lead, within=allowed(WITHIN))  # the killed ones' Lease first has to run out
    for _ in range(10):
        await lead()
        await asyncio.sleep(0.1)


async def test_when_the_leader_is_killed_under_load_the_other_leads_within_the_lease(stack, two, town, agent, conn):
    first, second = two
    branch = await town.branch(agent)
    prefix, sequences = f"killed-{branch.name}/", range(1, 31)
    await town.submit(agent, branch, finding(f"{prefix}1", 1))

    async def load():
        for sequence in sequences[1:]:
            await town.submit(agent, branch, finding(f"{prefix}{sequence}", sequence), sequence=sequence)
            await asyncio.sleep(0.1)

    loading = asyncio.create_task(load())
    await town.publication(agent, branch)
    await asyncio.to_thread(stack.kill, first.name)
    await eventually(lambda: leads(second), within=allowed(WITHIN))
    await loading
    await let_leases_run_out(conn)  # of jobs: they hold for half a minute
    await forked(town, f"after-{branch.name}", within=10)
    await published_once(town, agent, branch, sequences, prefix)

    async def shown():
        status = stack.cluster.get("branch", branch.name, f"--namespace={town.namespace}")["status"]
        jobs = json.loads(town.kubectl("get", "consolidationjobs", "--output=json"))["items"]
        return status["lastSubmittedSequence"] == len(sequences) and all(
            job["status"].get("state") == "published" for job in jobs
        )

    await eventually(shown, within=allowed(40))  # rising numbers are shown every half minute


async def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes(stack, two, town, agent, conn):
    first, second = two
    branch = await town.branch(agent)
    line = await conn.fetchval("SELECT line FROM branches WHERE branch_id = $1", branch.branch_id)
    prefix = f"frozen-{branch.name}/"

    async def in_vain():
        return await first.count("job_works") - await first.count("job_works", outcome="advanced")

    crossing = Crossing(conn)
    await crossing.remove()
    await crossing.install()
    try:
        async with crossing.closed():
            await crossing.arm(line, "validated-committing")
            second.process.suspend()  # so that the job is the leader's
            await town.submit(agent, branch, finding(f"{prefix}1", "found"))
            await crossing.blocked(1)
            before = await in_vain()
            first.process.suspend()
            second.process.resume()
        # Its transaction commits without it. The job's own lease runs out like the one of the leader.
        await let_leases_run_out(conn)
        await eventually(lambda: leads(second), within=allowed(WITHIN))
        await published_once(town, agent, branch, [1], prefix)
        await forked(town, f"while-{branch.name}", within=10)

        first.process.resume()
        told = await first.tells()
        assert not told["leading"], "it takes nobody's word for it but its clock's"
        written = await first.count("status_writes", outcome="written")

        async def stands_by():
            told = await first.tells()
            assert not told["leading"]
            return told["ok"]

        await eventually(stands_by, within=allowed(20))
        await asyncio.sleep(1)
        assert await first.count("status_writes", outcome="written") == written
        assert await in_vain() == before + 1, "its job was another's by then"
        await published_once(town, agent, branch, [1], prefix)
        jobs = json.loads(town.kubectl("get", "consolidationjobs", "--output=json"))["items"]
        (job,) = (job for job in jobs if job["spec"]["branchRef"]["name"] == branch.name)
        assert job["status"]["state"] == "published"
    finally:
        await crossing.remove()


async def test_a_leader_cut_off_from_the_api_server_is_replaced_takes_no_job_and_says_so(two, town, agent):
    first, second = two
    branch = await town.branch(agent)
    first.cut(first.api_server)
    await eventually(lambda: leads(second), within=allowed(WITHIN))
    told = await first.tells()
    assert not told["ok"]
    assert not told["leading"]
    assert set(told["wrong"]) == {"api_server"}
    claimed = await first.count("job_claims")
    prefix = f"cut-{branch.name}/"
    for sequence in range(1, 4):
        await town.submit(agent, branch, finding(f"{prefix}{sequence}", 1), sequence=sequence)
        await town.publication(agent, branch, sequence)
    assert await first.count("job_claims") == claimed, "it keeps no job from who can do it"
    first.mend()

    async def ready():
        return (await first.tells())["ok"]

    await eventually(ready, within=allowed(10))
    await published_once(town, agent, branch, range(1, 4), prefix)


@pytest.mark.parametrize("how", ["cut", "silence"])
async def test_a_leader_cut_off_from_postgres_gives_the_lease_back(two, town, agent, how):
    first, second = two
    branch = await town.branch(agent)
    getattr(first, how)(first.postgres)
    await eventually(lambda: leads(second), within=allowed(PATIENCE + WITHIN))
    await forked(town, f"{how}-{branch.name}", within=10)
    prefix = f"{how}-{branch.name}/"
    await town.submit(agent, branch, finding(f"{prefix}1", 1))
    await published_once(town, agent, branch, [1], prefix)
    told = await first.tells()
    assert not told["leading"]
    assert "database" in told["wrong"]
    first.mend()

    async def ready():
        return (await first.tells())["ok"]

    await eventually(ready, within=allowed(40))


async def test_a_lease_that_somebody_deletes_or_gives_away_leads_to_one_leader(stack, two, town, agent):
    async def one_leads():
        told = [await operator.tells() for operator in two]
        assert sum(each["leading"] for each in told) < 2
        return any(each["leading"] for each in told)

    async def watched(seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await one_leads()
            await asyncio.sleep(0.05)

    await watched(PACE.retry + 1)  # the other one has seen whose the Lease is: until then it may lead beside it
    there = f"--namespace={stack.namespace}"
    await asyncio.to_thread(stack.cluster.kubectl, "delete", "lease", LEASE, there)
    await watched(PACE.retry + 1)
    assert await one_leads()
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 2}
    await asyncio.to_thread(
        stack.cluster.kubectl, "patch", "lease", LEASE, there, "--type=merge", f"--patch={json.dumps({'spec': spec})}"
    )
    await watched(PACE.retry + 0.5)
    await eventually(one_leads, within=allowed(WITHIN))
    await forked(town, "given-away", within=10)
