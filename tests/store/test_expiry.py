"""What has ended is deleted once it has been kept as long as its spec says, and nothing else is, whoever dies then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.store.retaining import LONG, retain, set_back
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World, decisions

from anabranch.controllers import expiry as deleting
from anabranch.controllers.expiry import Expiry
from anabranch.controllers.reconciler import Reconciler
from anabranch.controllers.services import controllers
from anabranch.kube.errors import ObjectNotFoundError, RightMissingError, StaleObjectError
from anabranch.kube.kinds import BRANCH, JOB
from anabranch.store import branches, completions, expiry

HOUR = timedelta(hours=1)
KEPT = {"ttlAfterFinished": "1h"}


class Cluster:
    """The objects that an API server has, by kind, namespace and name."""

    def __init__(self):
        self.objects = {}
        self.error = None
        self.deleted = []
        self.deletion = asyncio.Event()
        self.held = set()
        self.before_delete = None

    def add(self, kind, namespace, name, *, uid=None, generation=1, age=timedelta(days=1)):
        self.objects[kind.name, namespace, name] = {
            "uid": uid or f"uid-of-{name}",
            "generation": generation,
            "resourceVersion": "1",
            "creationTimestamp": (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def touch(self, kind, namespace, name, **metadata):
        self.objects[kind.name, namespace, name].update(metadata, resourceVersion="2")

    async def find(self, kind, *, namespace, name):
        metadata = self.objects.get((kind.name, namespace, name))
        return None if metadata is None else {"metadata": dict(metadata)}

    async def delete(self, kind, *, namespace, name, uid, resource_version):
        if self.before_delete is not None:
            self.before_delete()
        if self.error is not None and name in self.error:
            raise RightMissingError("no right", hint="")
        metadata = self.objects.get((kind.name, namespace, name))
        if metadata is None:
            raise ObjectNotFoundError("gone", hint="")
        if (metadata["uid"], metadata["resourceVersion"]) != (uid, resource_version):
            raise StaleObjectError("another", hint="")
        if name in self.held:
            metadata["deletionTimestamp"] = "now"
            return False
        del self.objects[kind.name, namespace, name]
        self.deleted.append(name)
        self.deletion.set()
        return True


class Leader:
    leading = True


@pytest.fixture
async def world(db, monkeypatch):
    monkeypatch.setattr(deleting, "_CHANGED_SECONDS", 0.0)
    monkeypatch.setattr(deleting.backoff, "delay", lambda *_, **__: 0.0)
    world = World(db)
    world.line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    world.cluster = Cluster()
    world.expiry = an_expiry(world)
    return world


def an_expiry(world, **scope):
    """As a process has it that has just begun to lead."""
    kinds = controllers(world.db, kube=world.cluster, grants=None, guard=None, models=(), agents=world.db, tell=None)
    reconciler = Reconciler(kinds, db=world.db, kube=world.cluster, changed=lambda: None)
    return Expiry(world.db, world.cluster, reconciler=reconciler, leadership=Leader(), **scope)


async def run(world, name="run", *changes, **spec):
    """A Branch that submits some findings, if any, and completes its run."""
    branch = await world.apply_branch(name, **(KEPT | spec))
    world.cluster.add(BRANCH, AGENTS, name)
    if changes:
        await world.submit(branch, 1, *changes)
        await world.work()
    await complete(world, branch, last=1 if changes else 0)
    return branch


async def complete(world, branch, *, last):
    async with world.db.connection() as conn:
        completion = await completions.submit(
            conn, line=branch.line, branch_id=branch.branch_id, run_id=branch.run_id, content_hash=b"c" * 32,
            body=b"{}", last_submitted_sequence=last,
        )  # fmt: skip
    assert completion.closed_at


async def later(world, by=HOUR):
    """Let all statuses be written, and some time pass."""
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET projected = version")
        await conn.execute("UPDATE jobs SET projected = version, uid = 'uid-of-' || name")
        await set_back(conn, world.line, by=by)
    for job in await world.jobs():
        if ("ConsolidationJob", TEAM, job.name) not in world.cluster.objects and job.deleted_at is None:
            world.cluster.add(JOB, TEAM, job.name, generation=job.observed_generation)


async def due(world, **scope):
    async with world.db.connection() as conn:
        return sorted(row.name for row in await expiry.due(conn, limit=100, **scope))


async def is_deleted(world, branch):
    async with world.db.connection() as conn:
        return (await branches.get(conn, branch.branch_id)).deleted_at is not None


async def test_a_branch_goes_its_time_after_its_end_and_its_row_stays(world):
    branch = await run(world)
    await later(world, by=HOUR - timedelta(seconds=20))
    await world.expiry.look()
    assert world.cluster.deleted == []

    await later(world, by=timedelta(seconds=20))
    await world.expiry.look()
    assert world.cluster.deleted == ["run"]
    assert await is_deleted(world, branch)
    assert await due(world) == []


async def test_nobody_deletes_what_does_not_say_for_how_long_it_is_kept(world):
    branch = await world.apply_branch("run")
    await complete(world, branch, last=0)
    await later(world, by=LONG)
    assert await due(world) == []


async def test_a_run_that_goes_on_stays_whatever_its_age_and_so_does_one_that_may_go_on(world):
    await world.apply_branch("live", **KEPT)
    denied = await world.apply_branch("denied", **KEPT)
    async with world.db.connection() as conn:
        await branches.set_phase(conn, line=world.line, branch_id=denied.branch_id, phase="Denied")
    await later(world, by=LONG)
    assert await due(world) == []

    # Once retention has removed what it could go on with, it has ended.
    await retain(world.db, world.line)
    await later(world, by=HOUR)
    assert await due(world) == ["denied"]


async def test_a_branch_stays_while_a_finding_of_it_waits_for_review_and_so_does_the_job(world):
    branch = await run(world, "run", {"key": "b", "content": "new"}, {"key": "a", "content": "against it"})
    await later(world, by=LONG)
    (held,) = [job for job in await world.jobs() if job.state == "awaiting_review"]
    await world.expiry.look()
    assert held.name not in world.cluster.deleted
    assert not await is_deleted(world, branch)

    await world.apply_job(
        held.name,
        generation=2,
        origin="Held",
        branchRef={"namespace": AGENTS, "name": "run"},
        ttlSecondsAfterFinished=86_400,
        reviews=[{"reviewer": "ada", "decisions": decisions(await world.candidates(held), "reject")}],
    )
    world.cluster.touch(JOB, TEAM, held.name, generation=2)
    await world.work()
    assert (await world.job(held.name)).state == "published"
    await later(world, by=timedelta(minutes=59))
    assert await due(world) == [], "its time is counted from the last decision"
    await later(world, by=timedelta(minutes=1))
    assert await due(world) == ["run"], "a job of the operator has a day"


async def test_a_branch_stays_while_a_batch_of_it_is_in_no_job(world):
    branch = await world.apply_branch("run", **KEPT)
    await world.submit(branch, 1, {"key": "b", "content": "new"})
    await complete(world, branch, last=1)
    await later(world, by=LONG)
    assert await due(world) == []
    await world.work()
    await later(world)
    assert await due(world) == ["run"]


async def test_a_job_that_was_given_up_stays_while_it_could_go_on(world):
    branch = await run(world, "run")
    async with world.db.connection() as conn:
        await conn.execute(
            "INSERT INTO jobs (line, job_id, namespace, name, uid, automatic, origin, branch_id, from_sequence,"
            " through_sequence, state, failed, finished_at, ttl_seconds)"
            " VALUES ($1, 'job', $2, 'failed', 'u', true, 'Branch', $3, 1, 1, 'validating', true, now(), 0)",
            world.line, TEAM, branch.branch_id,
        )  # fmt: skip
    await later(world, by=LONG)
    assert await due(world) == []
    await retain(world.db, world.line)
    await later(world)
    assert await due(world) == ["failed", "run"]


async def test_a_jobs_own_time_counts_from_its_end_and_zero_is_at_once_but_after_its_status(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": "new"})
    await world.apply_job(
        "by-hand",
        branchRef={"namespace": AGENTS, "name": "run"},
        batches={"from": 1, "through": 1},
        ttlSecondsAfterFinished=0,
    )
    await world.work()
    assert (await world.job("by-hand")).state == "published"
    assert await due(world) == [], "its status does not tell yet"
    await later(world, by=timedelta())
    await world.expiry.look()
    assert world.cluster.deleted == ["by-hand"]
    job = await world.job("by-hand")
    assert (job.state, job.deleted_at is not None) == ("published", True)
    assert len(await world.candidates(job)) == 1


async def test_jobs_of_the_operator_are_made_with_a_day_and_say_so(world):
    await run(world, "run", {"key": "b", "content": "new"}, {"key": "a", "content": "against it"})
    made, held = await world.jobs()
    assert (made.ttl_seconds, held.ttl_seconds, held.origin) == (86_400, 86_400, "Held")
    await later(world, by=timedelta(days=1))
    assert await due(world) == [made.name]


@pytest.mark.parametrize("spec", [{}, {"ttlAfterFinished": "30d"}])
async def test_taking_the_time_out_or_a_longer_one_counts_until_the_deletion(world, spec):
    await run(world)
    await later(world)
    assert await due(world) == ["run"]
    world.cluster.touch(BRANCH, AGENTS, "run", generation=2)
    await world.expiry.look()
    assert world.cluster.deleted == [], "a newer spec has not been looked at"

    await world.apply_branch("run", generation=2, **spec)
    await later(world, by=timedelta())
    assert await due(world) == []


async def test_what_changes_between_the_look_and_the_deletion_is_not_deleted(world):
    await run(world)
    await later(world)
    world.cluster.before_delete = lambda: world.cluster.touch(BRANCH, AGENTS, "run")
    await world.expiry.look()
    assert world.cluster.deleted == []
    world.cluster.before_delete = None
    await world.expiry.look()
    assert world.cluster.deleted == ["run"]


async def test_a_namesake_is_not_meant(world):
    branch = await run(world)
    await later(world)
    world.cluster.add(BRANCH, AGENTS, "run", uid="a namesake")
    await world.expiry.look()
    assert world.cluster.deleted == []
    assert await is_deleted(world, branch)


async def test_whoever_dies_after_a_deletion_leaves_it_to_the_next_to_note_it(world, monkeypatch):
    branch = await run(world)
    await later(world)

    async def die(*_):
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(Reconciler, "gone", die)
        with pytest.raises(asyncio.CancelledError):
            await world.expiry.look()
    assert (world.cluster.deleted, await is_deleted(world, branch)) == (["run"], False)

    await an_expiry(world).look()
    assert await is_deleted(world, branch)


async def test_what_cannot_be_deleted_holds_up_nothing_else(world, monkeypatch):
    monkeypatch.setattr(deleting, "_AT_ONCE", 1)
    monkeypatch.setattr(deleting.backoff, "delay", lambda *_, **__: 60.0)
    for name in ("first", "second"):
        await run(world, name)
        await later(world)
    world.cluster.error = {"first"}
    for _ in range(2):
        await world.expiry.look()
    assert world.cluster.deleted == ["second"]


async def test_what_a_finalizer_keeps_is_not_noted_as_gone(world):
    branch = await run(world)
    await later(world)
    world.cluster.held.add("run")
    for _ in range(2):
        await world.expiry.look()
        assert not await is_deleted(world, branch)
    assert world.cluster.objects["Branch", AGENTS, "run"]["deletionTimestamp"]


async def test_a_resource_that_is_made_again_for_a_finished_job_shows_its_result_for_its_time(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": "new"})
    spec = {
        "branchRef": {"namespace": AGENTS, "name": "run"},
        "batches": {"from": 1, "through": 1},
        "ttlSecondsAfterFinished": 3600,
    }
    first = await world.apply_job("by-hand", **spec)
    await world.work()
    await later(world)
    await world.expiry.look()
    assert world.cluster.deleted == ["by-hand"]

    again = await world.apply_job("by-hand", uid="again", **spec)
    assert (again.job_id, again.state, again.deleted_at) == (first.job_id, "published", None)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET projected = version")
    world.cluster.add(JOB, TEAM, "by-hand", uid="again", age=timedelta(minutes=59))
    await world.expiry.look()
    assert world.cluster.deleted == ["by-hand"]
    world.cluster.add(JOB, TEAM, "by-hand", uid="again", age=timedelta(minutes=61))
    await an_expiry(world).look()
    assert world.cluster.deleted == ["by-hand", "by-hand"]


async def test_only_served_namespaces_are_looked_at(world):
    await run(world)
    await later(world)
    assert await due(world, namespaces=["elsewhere"]) == []
    await an_expiry(world, namespaces=["elsewhere"]).look()
    assert world.cluster.deleted == []
    await an_expiry(world, namespaces=[AGENTS]).look()
    assert world.cluster.deleted == ["run"]


async def test_who_does_not_lead_deletes_nothing(world, monkeypatch):
    monkeypatch.setattr(deleting, "POLL_SECONDS", 0.01)
    await run(world)
    await later(world)
    leader = world.expiry._leadership = Leader()
    leader.leading = False
    task = asyncio.create_task(world.expiry.run())
    try:
        await asyncio.sleep(0.1)
        assert world.cluster.deleted == []
        leader.leading = True
        async with asyncio.timeout(30):
            await world.cluster.deletion.wait()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_what_is_due_is_found_by_an_index(world):
    async with world.db.transaction() as conn:
        await conn.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(row[0] for row in await conn.fetch("EXPLAIN " + _filled(expiry)))
    assert "branches_expiring" in plan
    assert "jobs_expiring" in plan


def _filled(module):
    sql = module._sql.due.sql
    return sql.replace("$1", "'{}'").replace("$2", "'{}'").replace("$3", "10")
