"""What becomes of lines and runs in two databases when their Baselines go, come back, or are made anew elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import secrets

import pytest
from tests.cluster.beside import AUTOMATIC, OPERATOR_EAST, Town, beside, published
from tests.cluster.places import eventually, finding

from anabranch.model.errors import NotFoundError, UnavailableError
from anabranch.model.ids import LineId, new_branch_id, new_run_id
from anabranch.store import branches
from anabranch.store.database import Database

pytestmark = pytest.mark.outages


@pytest.fixture(scope="module")
def stores(stack, run_folder):
    with beside(stack, run_folder / "east-moves") as made:
        yield made


@pytest.fixture(scope="module")
async def town(stores):
    town = Town(stores.stack, namespace=f"moves-{secrets.token_hex(4)}")
    stores.stack.make_namespace(town.namespace)
    yield town
    await town.close()


@pytest.fixture
async def ada(town):
    grants = ("get consolidationjobs/review", "get baselines/export", "export scopes", "create baselines/archives")
    return await town.client("ada", "anabranch-agent", "anabranch-viewer", *grants)


SHARING = {"default": "private", "scopes": [], "export_private": False, "peer_visibility": "state"}


def fresh():
    return f"bl-{secrets.token_hex(3)}"


def records(text):
    return {"fact": ("shared", text)}


async def says(town, ada, baseline, key="fact"):
    """What a Baseline's record says; None while nobody can tell, or there is none."""
    try:
        return (await ada.record(town.namespace, baseline, key)).content
    except (UnavailableError, NotFoundError):
        return None


def becomes(town, ada, baseline, content):
    async def look():
        return await says(town, ada, baseline) == content

    return eventually(look)


def gone(town, kind, name):
    town.kubectl("delete", kind, name, "--timeout=60s")


async def test_a_line_that_is_deleted_with_its_data_goes_from_its_own_database(stores, town, ada):
    name = fresh()
    town.baseline(name, store="east", deletionPolicy="Delete", **AUTOMATIC)
    branch, key = await published(town, ada, name)
    (line,) = await stores.ask("east", "SELECT line FROM lines WHERE name = $1", name)
    await asyncio.to_thread(gone, town, "baseline", name)
    for table in ("lines", "record_versions", "manifests", "branches", "jobs", "batches"):
        left = await stores.ask("east", f"SELECT count(*) FROM {table} WHERE line = $1", line["line"])
        assert (table, left[0]["count"]) == (table, 0)
    for call in (ada.record(town.namespace, name, key), ada.branch(town.namespace, branch.branch_id)):
        with pytest.raises(NotFoundError):
            await call


async def test_a_baseline_made_anew_in_another_store_is_found_there_by_an_api_that_knows_the_old_place(
    stores, town, ada
):
    name = fresh()
    town.baseline(name, records("of the east"), store="east", **AUTOMATIC)
    branch, _ = await published(town, ada, name)
    assert await says(town, ada, name) == "of the east"
    await asyncio.to_thread(gone, town, "baseline", name)
    town.baseline(name, records("of the default store"), **AUTOMATIC)
    await becomes(town, ada, name, "of the default store")
    again = await town.branch(ada, baseline=name)
    assert town.status("branch", again.name).get("store") is None
    assert town.status("branch", branch.name)["store"] == "east", "a run stays where it was forked"
    assert name not in await stores.lines("east")

    await asyncio.to_thread(gone, town, "baseline", name)
    town.apply("Baseline", name, {"store": "east"})
    town.kubectl("wait", "--for=condition=Ready", f"baseline/{name}", "--timeout=60s")
    await becomes(town, ada, name, "of the east")
    assert name not in await stores.lines("default")


async def test_a_line_moves_as_an_archive_and_says_the_same_there(stores, town, ada, tmp_path):
    before, after = fresh(), fresh()
    town.baseline(before, records("moved"), **AUTOMATIC)
    _, key = await published(town, ada, before)
    file = tmp_path / "line.anabranch"
    await ada.export(town.namespace, before, file)
    digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    town.apply("Baseline", after, {"store": "east", "import": {"archive": {"digest": digest}}, **AUTOMATIC})
    await town.archive_missing(after)
    await ada.upload_archive(town.namespace, after, file, digest)
    town.kubectl("wait", "--for=condition=Ready", f"baseline/{after}", "--timeout=60s")
    assert await says(town, ada, after) == "moved"
    found = {name: [(r.key, r.content) async for r in ada.records(town.namespace, name)] for name in (before, after)}
    assert found[before] == found[after]
    assert key in dict(found[after])
    assert after in await stores.lines("east")


async def test_a_line_that_a_namespace_left_is_adopted_in_its_own_store_and_in_no_other(stores):
    town = Town(stores.stack, namespace=f"moves-{secrets.token_hex(4)}")
    stores.stack.make_namespace(town.namespace)
    try:
        town.baseline("kept", store="east")
        line = town.status("baseline", "kept")["lineId"]
        town.kubectl("delete", "namespace", town.namespace, "--timeout=90s", scoped=False)
        stores.stack.make_namespace(town.namespace)

        def stalled(reason):
            path = rf'jsonpath={{.status.conditions[?(@.type=="Stalled")].reason}}={reason}'
            town.kubectl("wait", f"--for={path}", "baseline/kept", "--timeout=60s")

        town.apply("Baseline", "kept", {"adopt": {"lineId": line}})
        stalled("AdoptTargetUnknown")
        gone(town, "baseline", "kept")
        town.apply("Baseline", "kept", {"store": "east"})
        stalled("AdoptionRequired")
        town.apply("Baseline", "kept", {"store": "east", "adopt": {"lineId": line}})
        town.kubectl("wait", "--for=condition=Ready", "baseline/kept", "--timeout=60s")
        assert town.status("baseline", "kept")["lineId"] == line
    finally:
        await town.close()


async def test_a_run_that_two_stores_have_forked_is_that_ones_whose_status_came_first(stores, town, ada):
    """The east forked it and was lost before it could say so; its Baseline was made anew in the default store."""
    name, run = fresh(), f"run-{secrets.token_hex(3)}"
    town.baseline(name, store="east", **AUTOMATIC)
    stores.stack.stop(OPERATOR_EAST)
    try:
        town.apply("Branch", run, {"baselineRef": {"name": name}, "agent": {"serviceAccountName": "ada"}})
        uid = town.get("branch", run)["metadata"]["uid"]
        doubled = await fork_in_the_east(stores, town, baseline=name, run=run, uid=uid)
        await asyncio.to_thread(gone, town, "baseline", name)
        town.baseline(name, **AUTOMATIC)
        town.kubectl("wait", "--for=condition=Ready", f"branch/{run}", "--timeout=60s")
        taken = town.status("branch", run)["branchId"]
        assert taken != doubled
    finally:
        stores.start_operator()

    async def given_up():
        rows = await stores.ask("east", "SELECT deleted_at FROM branches WHERE uid = $1", uid)
        return [row["deleted_at"] for row in rows] != [None]

    await eventually(given_up)

    async def served():
        try:
            return (await ada.branch(town.namespace, run)).branch_id
        except UnavailableError:  # until the east has noted that its Baseline is deleted
            return None

    assert await eventually(served) == taken
    status = town.status("branch", run)
    assert (status["branchId"], status.get("store")) == (taken, None), "the east has not shown what it had"
    with pytest.raises(NotFoundError):
        await ada.branch(town.namespace, doubled)
    assert await town.submit(ada, await ada.branch(town.namespace, run), finding("found/it", "it"))


async def fork_in_the_east(stores, town, *, baseline, run, uid):
    """What its operator does first of all with a new Branch, and died right after."""
    db = await Database.open(stores.dsn("operator", stores.stack.secrets.operator_password), application_name="test")
    try:
        async with db.connection() as conn:
            line = await conn.fetchval("SELECT line FROM lines WHERE name = $1 AND deleted_at IS NULL", baseline)
            made = await branches.fork(
                conn,
                line=line,
                branch_id=new_branch_id(LineId(line)),
                run_id=new_run_id(LineId(line)),
                namespace=town.namespace,
                name=run,
                uid=uid,
                observed_generation=1,
                agent_id="ada",
                agent_instance="default",
                service_account="ada",
                task="",
                sharing_policy=SHARING,
                generation=None,
            )
    finally:
        await db.close()
    return made.branch_id
