"""ConsolidationJob resources: a person's, the operator's own, and those that ask for what is not there."""

from __future__ import annotations

import pytest
from tests.store.world import AUTOMATIC, TEAM, World

from anabranch.consolidation import schedule
from anabranch.consolidation.jobs import forget

REF = {"branchRef": {"namespace": "agents", "name": "run"}}


@pytest.fixture
async def world(db):
    return World(db)


async def a_branch(world):
    await world.import_documents({"a": "first"}, **AUTOMATIC)
    return await world.apply_branch("run")


def batches(first, last):
    return {"batches": {"from": first, "through": last}}


async def test_a_job_applied_by_hand_runs_when_its_batches_are_there(world):
    branch = await a_branch(world)
    job = await world.apply_job("mine", **REF, **batches(1, 2))
    assert (job.state, job.reason, job.due_at, job.automatic) == ("received", "BatchesMissing", None, False)

    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()
    assert (await world.job("mine")).state == "received"
    await world.submit(branch, 2, {"key": "l", "content": 1})
    await world.work()

    assert [(job.name, job.state) for job in await world.jobs()] == [("mine", "published")]
    assert {"k", "l"} <= (await world.contents(branch.line)).keys()


async def test_applying_it_again_changes_nothing_but_what_may_change(world):
    await a_branch(world)
    first = await world.apply_job("mine", **REF, **batches(1, 2))

    again = await world.apply_job("mine", generation=2, leaseDuration="1m", retryLimit=9, **REF, **batches(1, 2))

    assert (again.job_id, again.lease_seconds, again.retry_limit) == (first.job_id, 60, 9)
    assert len(await world.jobs()) == 1


async def test_a_job_that_comes_before_its_branch_waits_and_is_woken_by_it(world):
    assert await world.apply_job("early", **REF, **batches(1, 1)) is None
    assert await world.waits("ConsolidationJob", "early", namespace=TEAM) == "BranchUnavailable"

    branch = await a_branch(world)
    async with world.db.connection() as conn:
        due = await conn.fetchval("SELECT due_at <= now() FROM waiting WHERE name = 'early'")
    assert due
    assert (await world.apply_job("early", **REF, **batches(1, 1))).branch_id == branch.branch_id
    assert await world.waits("ConsolidationJob", "early", namespace=TEAM) is None


async def test_a_branch_of_another_teams_baseline_is_as_absent(world):
    await a_branch(world)
    async with world.db.connection() as conn:  # the Baseline lies in another namespace than the job
        await conn.execute("UPDATE lines SET namespace = 'elsewhere'")

    assert await world.apply_job("spying", **REF, **batches(1, 1)) is None
    assert await world.waits("ConsolidationJob", "spying", namespace=TEAM) == "BranchUnavailable"


async def test_batches_that_another_job_has_are_refused_by_name(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()

    assert await world.apply_job("late", **REF, **batches(1, 3)) is None
    assert await world.waits("ConsolidationJob", "late", namespace=TEAM) == "BatchesTaken"


async def test_a_job_takes_only_so_many_batches(world):
    await a_branch(world)

    assert await world.apply_job("huge", **REF, **batches(1, 101)) is None
    assert await world.waits("ConsolidationJob", "huge", namespace=TEAM) == "BatchesTooMany"
    assert (await world.apply_job("large", **REF, **batches(1, 100))).state == "received"


async def test_only_the_operator_makes_held_jobs(world):
    await a_branch(world)

    assert await world.apply_job("forged", origin="Held", **REF) is None
    assert await world.waits("ConsolidationJob", "forged", namespace=TEAM) == "UnknownJob"


async def test_the_operators_own_resource_is_adopted_by_its_name(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await schedule.make_jobs(world.db)
    (made,) = await world.jobs()
    assert (made.uid, made.automatic) == (None, True)

    job = await world.apply_job(made.name, **REF, **batches(1, 1))

    assert (job.job_id, job.uid) == (made.job_id, f"uid-of-{made.name}")


async def test_a_resource_of_that_name_with_other_batches_is_not_adopted(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await schedule.make_jobs(world.db)
    (made,) = await world.jobs()

    await world.apply_job(made.name, **REF, **batches(1, 2))

    assert (await world.job(made.name)).uid is None
    assert await world.waits("ConsolidationJob", made.name, namespace=TEAM) == "BatchesTaken"


async def test_a_resource_of_that_name_for_another_branch_is_not_adopted(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await schedule.make_jobs(world.db)
    (made,) = await world.jobs()

    await world.apply_job(made.name, branchRef={"namespace": "agents", "name": "another"}, **batches(1, 1))

    assert (await world.job(made.name)).uid is None
    assert await world.waits("ConsolidationJob", made.name, namespace=TEAM) == "BranchUnavailable"


async def test_a_deleted_resource_lets_its_job_go_on_and_may_come_back(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await schedule.make_jobs(world.db)
    (made,) = await world.jobs()
    job = await world.apply_job(made.name, **REF, **batches(1, 1))

    await forget(world.db, namespace=TEAM, name=job.name, uid="another's uid")
    assert (await world.job(job.name)).deleted_at is None
    await forget(world.db, namespace=TEAM, name=job.name, uid=job.uid)
    await world.work()
    assert (await world.job(job.name)).state == "published"

    back = await world.apply_job(job.name, uid="made again", **REF, **batches(1, 1))
    assert (back.job_id, back.uid, back.deleted_at) == (job.job_id, "made again", None)


async def test_giving_up_a_job_that_waits_for_batches_gives_them_back(world):
    branch = await a_branch(world)
    job = await world.apply_job("mine", **REF, **batches(1, 2))
    await forget(world.db, namespace=TEAM, name="mine", uid=job.uid)

    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()

    assert [(job.automatic, job.state) for job in await world.jobs()] == [(True, "published")]


async def test_batches_make_one_job_at_a_time(world):
    branch = await a_branch(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    assert await schedule.make_jobs(world.db) == 1
    await world.submit(branch, 2, {"key": "l", "content": 1})
    await world.submit(branch, 3, {"key": "m", "content": 1})
    assert await schedule.make_jobs(world.db) == 0

    await world.work()

    ranges = [(job.from_sequence, job.through_sequence) for job in await world.jobs()]
    assert sorted(ranges) == [(1, 1), (2, 3)]
