"""Baselines come and go, with and without their namespaces and their data; what stood on them says so."""

from __future__ import annotations

import pytest
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World, decisions

from anabranch.baselines import deletion
from anabranch.baselines.finalizer import FINALIZER, needs_visit
from anabranch.branches import reconcile as branch_resources
from anabranch.kube.kinds import BASELINE
from anabranch.model.ids import new_line_id
from anabranch.store import branches, lines, purging, waiting

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}
TEXTS = {"a": "first", "b": "first"}


class Cluster:
    """The API server as far as a Baseline's end needs it: namespaces, the Baseline, the definition of its kind."""

    def __init__(self, config_maps):
        self.config_maps = config_maps
        self.namespace_uid = "uid-of-the-namespace"
        self.baseline = None
        self.definition = {"metadata": {}}

    async def get(self, _kind, *, name):
        return {"metadata": {"name": name, "uid": self.namespace_uid}}

    async def find(self, kind, *, name, **_):
        if kind.name == "CustomResourceDefinition":
            return self.definition
        if kind == BASELINE:
            return self.baseline
        data = self.config_maps.get(name)
        return None if data is None else {"metadata": {"name": name}, "data": data}

    async def call(self, _method, _path, *, body, **_):
        uid, version, finalizers = (operation["value"] for operation in body)
        metadata = self.baseline["metadata"]
        assert (uid, version) == (metadata["uid"], metadata["resourceVersion"])
        metadata["finalizers"] = finalizers


@pytest.fixture
async def world(db):
    world = World(db)
    world.kube = Cluster(world.kube.config_maps)
    world.config_maps_of("facts", TEXTS)
    return world


async def wait_of(world, kind, name, namespace):
    async with world.db.connection() as conn:
        return await waiting.get(conn, namespace=namespace, kind=kind, name=name)


async def by_name(world, name="facts"):
    async with world.db.connection() as conn:
        return await lines.find(conn, namespace=TEAM, name=name)


# ----------------------------------------------------------------------------------------------------------- adoption


@pytest.fixture
async def left(world):
    """The line of a Baseline whose namespace was deleted and made again."""
    state = await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    world.kube.namespace_uid = "uid-of-another-namespace"
    return state.line.line


async def test_a_baseline_in_a_recreated_namespace_stalls_and_names_the_line(world, left):
    assert await world.apply_baseline(uid="new", generation=3, **FROM_MAP) is None

    row = await wait_of(world, "Baseline", "facts", TEAM)
    assert (row.condition, row.reason, row.uid, row.observed_generation) == ("Stalled", "AdoptionRequired", "new", 3)
    assert left in row.message
    assert "baselines/adopt" in row.message


async def test_branches_wait_until_the_line_is_adopted_and_then_go_on(world, left):
    await world.apply_baseline(uid="new", **FROM_MAP)
    assert await world.apply_branch("run") is None
    assert await world.waits("Branch", "run") == "BaselineUnavailable"

    state = await world.apply_baseline(uid="new", generation=2, adopt={"lineId": left}, **FROM_MAP)

    assert (state.line.line, state.head.head_generation, state.line.observed_generation) == (left, 1, 2)
    assert await wait_of(world, "Baseline", "facts", TEAM) is None
    row = await wait_of(world, "Branch", "run", AGENTS)
    async with world.db.connection() as conn:
        assert row in await waiting.due(conn, limit=10)  # woken
    assert (await world.apply_branch("run")).line == left


async def test_adopted_jobs_go_on_under_the_policy_of_the_new_owner(world, left):
    # Received while the line was its predecessor's, whose policy would have accepted it.
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await world.apply_baseline(uid="new", adopt={"lineId": left}, **FROM_MAP)
    await world.work()
    (job,) = await world.jobs()
    assert job.state == "awaiting_review"


async def test_naming_a_line_counts_for_nothing_while_admission_does_not_check_who_does(world, left):
    world.guard.missing.append("The ValidatingAdmissionPolicy anabranch-baseline-adoption is absent.")
    assert await world.apply_baseline(uid="new", adopt={"lineId": left}, **FROM_MAP) is None
    row = await wait_of(world, "Baseline", "facts", TEAM)
    assert row.reason == "AdoptionRequired"
    assert "does not count yet" in row.message
    assert "anabranch-baseline-adoption is absent" in row.message


async def test_an_unknown_line_stalls_the_baseline_and_says_which_there_is(world, left):
    assert await world.apply_baseline(uid="new", adopt={"lineId": new_line_id()}, **FROM_MAP) is None
    row = await wait_of(world, "Baseline", "facts", TEAM)
    assert row.reason == "AdoptTargetUnknown"
    assert left in row.message


async def test_who_has_a_line_is_told_that_it_cannot_have_another(world):
    state = await world.apply_baseline(**FROM_MAP)
    state = await world.apply_baseline(generation=2, adopt={"lineId": new_line_id()}, **FROM_MAP)
    assert await world.conditions(state.line.line) == {"Stalled": "AdoptionConflict"}
    assert state.head.current_generation == 1
    # It goes on all the same, and so does the condition once the wish is taken back.
    state = await world.apply_baseline(generation=3, **FROM_MAP)
    assert (await world.conditions(state.line.line), state.line.observed_generation) == ({}, 3)


# ----------------------------------------------------------------------------------------------------------- deletion


def a_body(policy="Delete", *, deleted=True, finalizers=(FINALIZER,), observed=1, generation=1):
    metadata = {
        "namespace": TEAM, "name": "facts", "uid": "uid-of-facts", "resourceVersion": "7", "generation": generation,
        "finalizers": list(finalizers),
    }  # fmt: skip
    if deleted:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"deletionPolicy": policy}, "status": {"observedGeneration": observed}}


async def release(world, body):
    world.kube.baseline = body
    return await deletion.release(world.db, body, kube=world.kube)


async def purge(world):
    async with world.db.connection() as conn:
        line = await conn.fetchval("SELECT line FROM lines WHERE condemned_at IS NOT NULL")
    await purging.purge(world.db, line=line)


async def test_a_baseline_is_let_go_when_its_data_is_gone_and_not_before(world):
    line = (await world.apply_baseline(**FROM_MAP)).line.line
    body = a_body()
    for _ in range(2):
        with pytest.raises(deletion.DataRemainsError):
            await release(world, body)
        assert body["metadata"]["finalizers"] == [FINALIZER]

    await purge(world)
    assert (await release(world, body)).reason == "DataDeleted"
    assert body["metadata"]["finalizers"] == []
    assert await world.contents_of_table(line) == 0
    # Whoever died after taking the finalizer off does it once more.
    assert (await release(world, a_body(finalizers=()))).reason == "DataDeleted"


async def test_the_policy_that_stands_at_the_end_counts(world):
    line = (await world.apply_baseline(**FROM_MAP)).line.line
    body = a_body("Retain", finalizers=("another's", FINALIZER))
    assert (await release(world, body)).reason == "DataKept"
    assert body["metadata"]["finalizers"] == ["another's"]
    assert (await world.state(line)).line.deleted_at is not None
    assert await world.contents(line) == {"a": '"first"', "b": '"first"'}


@pytest.mark.parametrize("definition", [{"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}, None])
async def test_when_the_kind_is_deleted_the_data_stays(world, definition):
    line = (await world.apply_baseline(**FROM_MAP)).line.line
    world.kube.definition = definition
    body = a_body()
    assert "its data is kept" in (await release(world, body)).note
    assert body["metadata"]["finalizers"] == []
    assert await world.contents(line) == {"a": '"first"', "b": '"first"'}


async def test_a_baseline_that_never_got_a_line_is_let_go_at_once(world, left):
    await world.apply_baseline(uid="new", **FROM_MAP)
    body = a_body()
    body["metadata"]["uid"] = "new"
    await release(world, body)
    assert body["metadata"]["finalizers"] == []
    assert await wait_of(world, "Baseline", "facts", TEAM) is None
    assert await world.contents(left) == {"a": '"first"', "b": '"first"'}


async def test_the_finalizer_follows_the_policy(world):
    world.kube.baseline = a_body(deleted=False, finalizers=("another's",))
    await world.apply_baseline(deletionPolicy="Delete", **FROM_MAP)
    assert world.kube.baseline["metadata"]["finalizers"] == ["another's", FINALIZER]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (a_body(), True),
        (a_body(finalizers=()), False),
        (a_body("Retain"), True),
        (a_body(deleted=False), False),
        (a_body(deleted=False, finalizers=()), True),  # somebody took it off
        (a_body("Retain", deleted=False), True),  # somebody put it on
        (a_body("Retain", deleted=False, finalizers=()), False),
        (a_body(deleted=False, finalizers=(), generation=2), False),  # its new spec is seen to anyway
    ],
)
def test_a_baseline_needs_a_visit_when_it_goes_or_its_finalizer_was_moved(body, expected):
    assert needs_visit(body) is expected


# -------------------------------------------------------------------------------------------------- what stood on it


async def deleted_with_its_data(world):
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "against it", "base": 0})
    await world.work()
    (job,) = await world.jobs()
    await world.apply_job(
        job.name, branchRef={"namespace": AGENTS, "name": "run"}, batches={"from": 1, "through": 1}, origin="Branch"
    )
    with pytest.raises(deletion.DataRemainsError):
        await release(world, a_body())
    await purge(world)
    return branch, job


async def test_branches_and_jobs_do_not_begin_anew_on_a_namesake(world):
    branch, job = await deleted_with_its_data(world)
    await world.apply_baseline(uid="a namesake", **FROM_MAP, **AUTOMATIC)

    assert await world.apply_branch("run", generation=2) is None
    assert await world.apply_job(job.name, origin="Held", generation=2) is None

    for kind, name, namespace in (("Branch", branch.name, AGENTS), ("ConsolidationJob", job.name, TEAM)):
        row = await wait_of(world, kind, name, namespace)
        assert (row.condition, row.reason, row.observed_generation) == ("Stalled", "BaselineDeleted", 2)
        assert row.due_at is None


async def test_a_branch_that_is_made_again_forks_from_the_namesake(world):
    await deleted_with_its_data(world)
    line = (await world.apply_baseline(uid="a namesake", **FROM_MAP)).line.line
    await branch_resources.forget(world.db, namespace=AGENTS, name="run", uid="uid-of-run")
    assert (await world.apply_branch("run")).line == line


async def test_a_fork_that_overlaps_with_the_deletion_is_told(world, monkeypatch):
    """The deletion has looked for branches already when the fork comes: the fork then looks for the deletion."""
    await world.apply_baseline(**FROM_MAP)
    fork = branches.fork

    async def condemn_first(conn, **what):
        async with world.db.transaction() as other:
            await purging.condemn(other, uid="uid-of-facts", namespace=TEAM, name="facts")
        return await fork(conn, **what)

    monkeypatch.setattr(branches, "fork", condemn_first)
    await world.apply_branch("run")
    assert await world.waits("Branch", "run") == "BaselineDeleted"
    await purge(world)


async def test_a_reconcile_that_overlaps_with_the_deletion_takes_nothing_back(world, monkeypatch):
    await world.apply_baseline(**FROM_MAP)
    await world.apply_branch("run")
    update = branches.update_spec

    async def condemn_first(conn, **what):
        async with world.db.transaction() as other:
            await purging.condemn(other, uid="uid-of-facts", namespace=TEAM, name="facts")
        return await update(conn, **what)

    monkeypatch.setattr(branches, "update_spec", condemn_first)
    await world.apply_branch("run", generation=2)
    assert await world.waits("Branch", "run") == "BaselineDeleted"


# ------------------------------------------------------------------------------------------------------------ retained


async def test_jobs_of_a_deleted_baseline_rest_until_a_namesake_takes_the_line_up(world):
    state = await world.apply_baseline(**FROM_MAP, **AUTOMATIC)
    branch = await world.apply_branch("run")
    async with world.db.connection() as conn:
        await lines.mark_deleted(conn, line=state.line.line, uid="uid-of-facts")
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    assert await world.jobs() == []

    await world.apply_baseline(uid="a namesake", **FROM_MAP, **AUTOMATIC)
    await world.work()
    assert (await world.contents(state.line.line))["a"] == '"second"'


# -------------------------------------------------------------------------------------------------------- the source


async def test_a_source_that_goes_missing_after_the_import_is_told_and_takes_nothing_away(world):
    line = (await world.apply_baseline(**FROM_MAP)).line.line
    source = world.kube.config_maps.pop("facts")

    state = await world.apply_baseline(**FROM_MAP)
    assert await world.conditions(line) == {"ImportMissing": "ConfigMapMissing"}
    assert state.line.due_at is not None
    assert await world.contents(line) == {"a": '"first"', "b": '"first"'}

    world.kube.config_maps["facts"] = source
    await world.apply_baseline(**FROM_MAP)
    assert await world.conditions(line) == {}
    assert await world.jobs() == []


async def test_what_a_change_proposed_is_still_told_when_the_source_goes_missing(world):
    line = (await world.apply_baseline(**FROM_MAP)).line.line
    world.config_maps_of("facts", TEXTS | {"a": "second"})
    await world.apply_baseline(**FROM_MAP)
    del world.kube.config_maps["facts"]
    await world.apply_baseline(**FROM_MAP)
    assert await world.conditions(line) == {"ImportMissing": "ConfigMapMissing", "ImportChanged": "AwaitingReview"}
    await world.work()
    (job,) = await world.jobs()
    assert len(decisions(await world.candidates(job))) == 1
