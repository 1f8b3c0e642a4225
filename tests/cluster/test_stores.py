"""Lines in two databases, on two real servers: each lies in its own, and neither needs the other."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from functools import partial

import asyncpg
import pytest
from tests.cluster.beside import AUTOMATIC, Town, beside, published
from tests.cluster.places import eventually
from tests.pace import allowed
from tests.pairs import freeze

from anabranch.client import AnabranchClient
from anabranch.devcluster.errors import DevclusterError
from anabranch.model.errors import UnavailableError
from anabranch.model.requests import BranchRequest

pytestmark = pytest.mark.outages

HERE, THERE = "here", "there"


@pytest.fixture(scope="module")
def stores(stack, run_folder):
    with beside(stack, run_folder / "east") as made:
        yield made


@pytest.fixture(scope="module")
async def town(stores):
    town = Town(stores.stack, namespace=f"stores-{secrets.token_hex(4)}")
    stores.stack.make_namespace(town.namespace)
    town.baseline(HERE, **AUTOMATIC)
    town.baseline(THERE, store="east", **AUTOMATIC)
    yield town
    await town.close()


@pytest.fixture
async def ada(town):
    return await town.client("ada", "anabranch-agent", "anabranch-viewer", "get consolidationjobs/review")


async def test_each_line_lies_in_the_database_that_its_baseline_names(stores, town, ada):
    for baseline in (HERE, THERE):
        branch, key = await published(town, ada, baseline)
        name = f"kept/{baseline}"
        await ada.put_private(town.namespace, branch.branch_id, name, "mine")
        assert (await ada.view(town.namespace, branch.name, name)).content == "mine"
        events = await ada.events(town.namespace, baseline)
        assert [event.key for event in events.events if event.kind == "published"][-1:] == [key]
        found = await ada.search(town.namespace, baseline, "cache")
        assert [hit.key for hit in found.items] == ["build/cache"]
        home = "east" if baseline == THERE else None
        assert town.status("branch", branch.name).get("store") == home
        (job,) = [job async for job in ada.jobs(town.namespace, baseline=baseline, branch=branch.branch_id)]
        assert (await eventually(partial(shown, town, job.name))).get("store") == home
    assert {job.branch_id async for job in ada.jobs(town.namespace)} >= {branch.branch_id}
    listed = [state.name async for state in ada.baselines(town.namespace)]
    assert [name for name in listed if name in {HERE, THERE}] == [HERE, THERE]
    lines = {store: await stores.lines(store) & {HERE, THERE} for store in ("default", "east")}
    assert lines == {"default": {HERE}, "east": {THERE}}


async def shown(town, job):
    if not town.kubectl("get", "consolidationjob", job, "--ignore-not-found", "--output=name"):
        return None  # the API tells of a job before there is a resource of it
    status = town.status("consolidationjob", job)
    return status if status.get("state") == "published" else None


async def test_agents_are_told_where_they_are_what_happened_where_they_are_not(stores, town):
    name = f"eve-{secrets.token_hex(3)}"
    eve = await town.client(name, "anabranch-agent")
    await published(town, eve, THERE)

    async def told():
        return (await eve.claim_events(town.namespace, name)).events

    assert {event.type for event in await eventually(told)} == {"dev.anabranch.agent.finding.published"}
    conn = await asyncpg.connect(stores.stack.admin_dsn)
    owner = await conn.fetchval("SELECT service_account FROM agents WHERE agent_id = $1", name)
    await conn.close()
    assert owner == name, "an agent's id is claimed in the default store, wherever it works"


@pytest.mark.parametrize(("away", "up", "down"), [("east", HERE, THERE), ("default", THERE, HERE)])
async def test_one_database_that_is_away_takes_only_its_own_lines_with_it(stores, town, ada, away, up, down):
    lost, key = await published(town, ada, down)
    await published(town, ada, up)  # an agent that has worked there before: a new one's id is claimed in the default
    async with stores.away(away):
        stores.stack.stop("api-stores")
        await asyncio.to_thread(stores.start_api)  # ready, though it has never seen that database
        async with AnabranchClient(stores.stack.url("api-stores"), token=town.account("ada")) as fresh:
            await published(town, fresh, up)
            for call in (
                fresh.record(town.namespace, down, key),
                fresh.branch(town.namespace, lost.branch_id),
                fresh.record(town.namespace, "nowhere", key),  # nobody can say
            ):
                with pytest.raises(UnavailableError, match=f"The store {away} does not answer"):
                    await call
            with pytest.raises(UnavailableError):
                [state async for state in fresh.baselines(town.namespace)]

    async def back():
        try:
            return await ada.record(town.namespace, down, key)
        except UnavailableError:
            return None

    ada = await town.client("ada")
    assert (await eventually(back)).content == down
    await published(town, ada, down)


@pytest.mark.parametrize(("hangs", "up", "down"), [("east", HERE, THERE), ("default", THERE, HERE)])
async def test_one_database_that_hangs_is_felt_by_nobody_who_uses_another(stores, town, ada, hangs, up, down):
    """It takes connections, and what is sent on them, and answers nothing."""
    lost, key = await published(town, ada, down)
    _, known = await published(town, ada, up)
    stranger = f"new-{secrets.token_hex(3)}"
    town.account(stranger, "anabranch-agent")

    async def status(path):
        began = time.monotonic()
        answer = await town.raw(ada, "GET", path, timeout=120)
        return answer.status_code, time.monotonic() - began

    freeze(stores.server(hangs))
    try:
        begun = asyncio.create_task(status(f"baselines/{down}/manifests/current/records/{key}"))
        looked = asyncio.create_task(status(f"branches/{lost.name}"))
        if hangs == "default":  # its id would be claimed there, and its operator must not wait for that
            spec = {"baselineRef": {"name": up}, "agent": {"serviceAccountName": stranger}}
            town.apply("Branch", stranger, spec)
        for _ in range(20):
            code, seconds = await status(f"baselines/{up}/manifests/current/records/{known}")
            assert (code, seconds < allowed(2.0)) == (200, True), seconds
            await asyncio.sleep(0.2)
        async with asyncio.timeout(allowed(30.0)):
            await published(town, ada, up)
        code, seconds = await looked
        assert (code, seconds < allowed(8.0)) == (503, True), seconds
        code, seconds = await begun
        assert (code, seconds < allowed(20.0)) == (503, True), seconds
        for path in (f"baselines/{down}/manifests/current/records/{key}", f"branches/{lost.name}", "branches"):
            code, seconds = await status(path)
            assert (code, seconds < allowed(1.0)) == (503, True), (path, seconds)
    finally:
        freeze(stores.server(hangs), signal.SIGCONT)

    async def back():
        return (await status(f"branches/{lost.name}"))[0] == 200

    await eventually(back)
    await published(town, ada, down)
    if hangs == "default":
        town.kubectl("wait", "--for=condition=Ready", f"branch/{stranger}", "--timeout=90s")


async def test_a_branch_that_came_before_its_baseline_is_forked_where_that_lies(stores, town, ada):
    late, run = f"late-{secrets.token_hex(3)}", f"run-{secrets.token_hex(3)}"
    town.apply("Branch", run, {"baselineRef": {"name": late}, "agent": {"serviceAccountName": "ada"}})

    async def waits():
        return [c for c in town.status("branch", run).get("conditions", ()) if c["reason"] == "BaselineUnavailable"]

    await eventually(waits)
    town.baseline(late, store="east", **AUTOMATIC)
    town.kubectl("wait", "--for=condition=Ready", f"branch/{run}", "--timeout=90s")
    assert town.status("branch", run)["store"] == "east"
    conn = await asyncpg.connect(stores.stack.admin_dsn)

    async def forgotten():
        return await conn.fetchval("SELECT count(*) FROM waiting WHERE name = $1", run) == 0

    await eventually(forgotten)
    await conn.close()


async def test_a_store_that_nobody_knows_is_told_and_nothing_is_done(stores, town):
    name = f"lost-{secrets.token_hex(3)}"
    town.apply("Baseline", name, {"store": "west", "deletionPolicy": "Delete"})
    town.kubectl("wait", "--for=condition=Stalled", f"baseline/{name}", "--timeout=90s")
    (told,) = [c for c in town.status("baseline", name)["conditions"] if c["type"] == "Stalled"]
    assert told["reason"] == "StoreUnknown"
    assert "no store west" in told["message"]
    assert name not in await stores.lines("default") | await stores.lines("east")
    town.kubectl("delete", "baseline", name, "--timeout=90s")


async def test_a_line_is_not_moved_by_naming_another_store(town):
    with pytest.raises(DevclusterError, match=r"spec\.store is fixed at creation"):
        town.kubectl("patch", "baseline", HERE, "--type=merge", '--patch={"spec":{"store":"east"}}')


async def test_the_same_request_for_a_branch_is_answered_from_where_it_lies(town, ada):
    request = BranchRequest(name=f"run-{secrets.token_hex(4)}", baseline=THERE)
    made = await ada.create_branch(town.namespace, request)
    assert (await ada.create_branch(town.namespace, request)).branch_id == made.branch_id
