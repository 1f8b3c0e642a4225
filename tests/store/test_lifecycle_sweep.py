"""Deletions that nobody told: found by comparing, believed after a while, and not at all when much is missing."""

from __future__ import annotations

import pytest
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World

from anabranch.branches import reconcile as branch_resources
from anabranch.controllers import sweep as sweeping
from anabranch.controllers.keys import Key
from anabranch.controllers.services import controllers
from anabranch.controllers.sweep import Scope, Sweep
from anabranch.kube.kinds import BASELINE, BRANCH, JOB, LEASE
from anabranch.model.errors import UnavailableError
from anabranch.store import branches, drift, jobs, lines, waiting

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}


class Cluster:
    """What the API server lists and has, by kind; a test takes away from either."""

    def __init__(self):
        self.listed = {kind: {} for kind in (BASELINE, BRANCH, JOB)}
        self.there = {kind: {} for kind in (BASELINE, BRANCH, JOB)}
        self.definitions = {f"{kind.plural}.{kind.group}" for kind in self.there}
        self.asked = []
        self.before_list = None

    def add(self, kind, namespace, name, uid=None):
        for known in (self.listed, self.there):
            known[kind][namespace, name] = uid or f"uid-of-{name}"

    def delete(self, kind, namespace, name):
        for known in (self.listed, self.there):
            del known[kind][namespace, name]

    async def items(self, kind, *, namespace=None):
        if self.before_list is not None:
            await self.before_list(kind)
        for (where, name), uid in self.listed[kind].items():
            if namespace in (None, where):
                yield {"metadata": {"namespace": where, "name": name, "uid": uid}}

    async def find(self, kind, *, namespace=None, name):
        if kind.name == "CustomResourceDefinition":
            return {"metadata": {}} if name in self.definitions else None
        if kind == LEASE:
            return {"metadata": {"namespace": namespace, "name": name, "uid": "uid-of-the-lease"}}
        self.asked.append((kind.name, name))
        uid = self.there[kind].get((namespace, name))
        return uid and {"metadata": {"namespace": namespace, "name": name, "uid": uid}}


class Reconciler:
    """As the real one: what is gone goes to the controllers."""

    def __init__(self, db):
        self._controllers = controllers(db, kube=None, grants=None, guard=None, models=(), agents=db, tell=None)
        self.told = []

    async def gone(self, key, uid):
        self.told.append(key)
        await self._controllers[key.kind].forget(key, uid)


@pytest.fixture
async def town(db):
    """A Baseline, two branches, a job and a branch that waits: all of it there."""
    world = World(db)
    await world.import_documents({"a": "first"}, **AUTOMATIC)
    world.cluster = Cluster()
    world.cluster.add(BASELINE, TEAM, "facts")
    for name in ("run-1", "run-2"):
        branch = await world.apply_branch(name)
        world.cluster.add(BRANCH, AGENTS, name)
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    (job,) = await world.jobs()
    await world.apply_job(
        job.name, branchRef={"namespace": AGENTS, "name": "run-2"}, batches={"from": 1, "through": 1}, origin="Branch"
    )
    world.cluster.add(JOB, TEAM, job.name)
    await world.apply_branch("early", baseline="none")
    world.cluster.add(BRANCH, AGENTS, "early")
    world.job = job.name
    return world


@pytest.fixture
def sweep(town, monkeypatch):
    monkeypatch.setattr(sweeping, "GRACE_SECONDS", 0.0)
    return a_sweep(town)


def a_sweep(town, **scope):
    town.reconciler = Reconciler(town.db)
    town.events = []
    scope = {"namespaces": (), "system_namespace": "system", "lease": "operator", **scope}
    return Sweep(
        town.db,
        town.cluster,
        reconciler=town.reconciler,
        tell=lambda about, occurrence: town.events.append((about, occurrence)),
        scope=Scope(**scope),
    )


async def test_when_all_is_there_nothing_follows(town, sweep):
    assert await sweep.look() is False
    assert (town.reconciler.told, town.events, town.cluster.asked) == ([], [], [])


async def test_what_is_gone_of_each_kind_is_noted_as_deleted(town, sweep):
    town.cluster.delete(BASELINE, TEAM, "facts")
    town.cluster.delete(BRANCH, AGENTS, "run-1")
    town.cluster.delete(BRANCH, AGENTS, "early")
    town.cluster.delete(JOB, TEAM, town.job)

    await sweep.look()

    async with town.db.connection() as conn:
        assert await lines.find(conn, namespace=TEAM, name="facts") is None
        assert await branches.by_name(conn, namespace=AGENTS, name="run-1") is None
        assert await branches.by_name(conn, namespace=AGENTS, name="run-2") is not None
        assert (await jobs.by_name(conn, namespace=TEAM, name=town.job)).deleted_at is not None
        assert await waiting.get(conn, namespace=AGENTS, kind="Branch", name="early") is None
    # The data stays: a namesake finds all of it.
    state = await town.apply_baseline(uid="a namesake", **FROM_MAP, **AUTOMATIC)
    assert (await town.contents(state.line.line))["a"] == '"second"'


async def test_nothing_is_believed_before_its_grace_is_over(town, sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "GRACE_SECONDS", 3600.0)
    town.cluster.delete(BRANCH, AGENTS, "run-1")
    assert await sweep.look() is True
    assert town.reconciler.told == []

    # It came back meanwhile, and its grace begins anew.
    town.cluster.add(BRANCH, AGENTS, "run-1")
    assert await sweep.look() is False
    monkeypatch.setattr(sweeping, "GRACE_SECONDS", 0.0)
    town.cluster.delete(BRANCH, AGENTS, "run-1")
    await sweep.look()
    assert town.reconciler.told == [Key("Branch", AGENTS, "run-1")]


async def test_what_a_list_lacks_is_asked_for_by_name(town, sweep):
    del town.cluster.listed[BRANCH][AGENTS, "run-1"]
    assert await sweep.look() is False
    assert town.cluster.asked == [("Branch", "run-1")]
    assert town.reconciler.told == []


async def test_a_namesake_does_not_stand_for_what_is_gone(town, sweep):
    town.cluster.add(BRANCH, AGENTS, "run-1", "made again")
    await sweep.look()
    assert town.reconciler.told == [Key("Branch", AGENTS, "run-1")]


async def test_what_came_after_the_list_began_is_left_out(town, sweep):
    async def fork(kind):
        if kind == BRANCH:
            await town.apply_branch("late")
            town.cluster.there[BRANCH][AGENTS, "late"] = "uid-of-late"

    town.cluster.before_list = fork
    assert await sweep.look() is False
    assert town.cluster.asked == []


async def many_branches(town, count):
    for number in range(count):
        await town.apply_branch(f"many-{number}")
        town.cluster.add(BRANCH, AGENTS, f"many-{number}")


async def test_when_much_is_missing_nothing_is_believed_and_an_event_says_so(town, sweep):
    await many_branches(town, 6)
    town.cluster.delete(JOB, TEAM, town.job)
    for number in range(6):
        town.cluster.delete(BRANCH, AGENTS, f"many-{number}")

    assert await sweep.look() is False

    assert town.reconciler.told == []
    [(about, occurrence)] = town.events
    assert (about.kind, about.namespace, about.name, about.uid) == (LEASE, "system", "operator", "uid-of-the-lease")
    assert (occurrence.reason, occurrence.type) == ("SweepStopped", "Warning")
    assert "6 of 9 branches" in occurrence.note
    assert "--accept-missing" in occurrence.note


async def test_a_few_may_go_however_few_there_are(town, sweep):
    await many_branches(town, 5)
    for number in range(5):
        town.cluster.delete(BRANCH, AGENTS, f"many-{number}")
    await sweep.look()
    assert len(town.reconciler.told) == 5
    assert town.events == []


async def test_a_fifth_may_go_and_no_more(town, sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "FEW", 0)
    await many_branches(town, 7)  # of ten
    for number in range(2):
        town.cluster.delete(BRANCH, AGENTS, f"many-{number}")
    await sweep.look()
    assert len(town.reconciler.told) == 2
    town.cluster.delete(BRANCH, AGENTS, "many-2")
    town.cluster.delete(BRANCH, AGENTS, "many-3")
    await sweep.look()
    assert (len(town.reconciler.told), len(town.events)) == (2, 1)


async def test_somebody_who_has_looked_may_have_it_believed_all_the_same(town, sweep):
    await many_branches(town, 6)
    town.cluster.listed[BRANCH].clear()
    town.cluster.there[BRANCH].clear()
    sweep = a_sweep(town, trusting=True)
    await sweep.look()
    assert len(town.reconciler.told) == 9


async def test_without_its_definition_no_kind_is_believed_to_be_empty(town, sweep):
    town.cluster.definitions.discard("branches.anabranch.dev")
    town.cluster.delete(BASELINE, TEAM, "facts")
    assert await sweep.look() is False
    assert town.reconciler.told == []
    assert "branches.anabranch.dev is absent" in town.events[0][1].note


async def test_a_list_that_fails_proves_nothing(town, sweep):
    async def away(_kind):
        raise UnavailableError("The API server is away.")

    town.cluster.delete(BASELINE, TEAM, "facts")
    town.cluster.before_list = away
    with pytest.raises(UnavailableError):
        await sweep.look()
    assert town.reconciler.told == []


async def test_an_operator_of_some_namespaces_leaves_the_others_alone(town, sweep):
    town.cluster.delete(BRANCH, AGENTS, "run-1")
    town.cluster.delete(JOB, TEAM, town.job)
    sweep = a_sweep(town, namespaces=(AGENTS,))
    await sweep.look()
    assert town.reconciler.told == [Key("Branch", AGENTS, "run-1")]


async def test_a_resource_that_was_given_up_and_is_there_after_all_is_taken_back(town, sweep):
    """As after a cluster's restore: what was there before the backup is there again, under its uid."""
    for name in ("run-1", "early"):
        await branch_resources.forget(town.db, namespace=AGENTS, name=name, uid=f"uid-of-{name}")
    await town.apply_branch("run-1")
    await town.apply_branch("early", baseline="none")
    async with town.db.connection() as conn:
        assert (await branches.by_name(conn, namespace=AGENTS, name="run-1")).deleted_at is None
        assert (await waiting.get(conn, namespace=AGENTS, kind="Branch", name="early")).uid == "uid-of-early"


async def test_nothing_absent_is_nothing_counted(db):
    world = World(db)
    await world.import_documents({"a": "first"})
    async with db.connection() as conn:
        moment = await conn.fetchval("SELECT clock_timestamp()")
        found = await drift.absent(conn, kind="Baseline", uids=["uid-of-facts"], before=moment)
    assert found == drift.Absent((), 0)


async def test_a_branch_that_comes_back_after_its_parent_was_pruned_has_ended(town):
    async with town.db.connection() as conn:
        branch = await branches.by_name(conn, namespace=AGENTS, name="run-1")
        await branches.mark_deleted(conn, line=branch.line, branch_id=branch.branch_id)
        await branches.mark_deleted(
            conn, line=branch.line, branch_id=(await branches.by_name(conn, namespace=AGENTS, name="run-2")).branch_id
        )
        await conn.execute("DELETE FROM publications; DELETE FROM manifests WHERE generation = 1")
    branch = await town.apply_branch("run-1")
    assert (branch.phase, branch.deleted_at) == ("Expired", None)


async def test_a_spec_that_was_set_back_with_its_cluster_counts_again(town):
    kinds = {
        "Baseline": (TEAM, "facts", "uid-of-facts", "lines"),
        "Branch": (AGENTS, "run-1", "uid-of-run-1", "branches"),
        "ConsolidationJob": (TEAM, town.job, f"uid-of-{town.job}", "jobs"),
    }
    for kind, (namespace, name, uid, table) in kinds.items():
        what = {"kind": kind, "namespace": namespace, "name": name}
        async with town.db.connection() as conn:
            await conn.execute(f"UPDATE {table} SET observed_generation = 7 WHERE uid = $1", uid)
            assert not await drift.rewind(conn, **what, uid=uid, generation=7)
            assert not await drift.rewind(conn, **what, uid="another", generation=5)
            assert await drift.rewind(conn, **what, uid=uid, generation=5)

    state = await town.apply_baseline(generation=5, suspend=True, review={"minReviewers": 2})
    assert (state.line.observed_generation, state.line.policy["review"]["minReviewers"]) == (5, 2)
    assert (await town.apply_branch("run-1", generation=5, task="As it was.")).task == "As it was."
