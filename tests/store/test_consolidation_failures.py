"""Jobs under failure, state by state: who lost a job changes nothing, and who deletes its resource stops nothing."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building
from tests.store.test_consolidation_crashes import let_leases_run_out
from tests.store.world import World, decisions

from anabranch.consolidation import jobs as job_resources
from anabranch.consolidation import schedule, work
from anabranch.model.errors import ConflictError
from anabranch.store import completions, jobs, leases, lines, publish

STATES = ["received", "importing", "validating", "awaiting_review", "publishing"]
SPEC = {"branchRef": {"namespace": "agents", "name": "run"}, "batches": {"from": 1, "through": 1}}


@pytest.fixture
async def world(db):
    """A run that has submitted a change which a reviewer must decide."""
    world = World(db)
    world.line = (await world.import_documents({"a": "first"})).line.line
    world.branch = await world.apply_branch("run")
    await world.submit(world.branch, 1, {"key": "a", "content": "second", "base": 1})
    await schedule.make_jobs(db)
    return world


async def accept(world, job):
    """A reviewer accepts what waits in a job, by its resource."""
    reviews = [{"reviewer": "ada", "decisions": decisions(await world.candidates(job))}]
    await world.apply_job(job.name, generation=2, reviews=reviews, **SPEC)


async def claim(world, holder):
    async with world.db.connection() as conn:
        (job,) = (await leases.claim(conn, holder=holder, limit=1)).jobs
    return job


async def held_in(world, state):
    """The job as its worker holds it in a state; where that waits for a review, with one given."""
    job = await claim(world, "the first")
    while job is not None and job.state != state:
        job = await work._STEPS[job.state](world.services, job)
        if job is None:
            (waiting,) = await world.jobs()
            await accept(world, waiting)
            job = await claim(world, "the first")
    return job


async def everything(world):
    """All that a job's step may write."""
    async with world.db.connection() as conn:
        return {
            table: await conn.fetch(f"SELECT * FROM {table} AS t WHERE line = $1 ORDER BY t", world.line)
            for table in ("jobs", "candidates", "manifests", "events", "publications", "transitions", "line_heads")
        }


@pytest.mark.parametrize("state", STATES)
async def test_a_worker_whose_lease_ran_out_in_any_state_changes_nothing_and_another_goes_on(world, state):
    late = await held_in(world, state)
    assert late.state == state
    await let_leases_run_out(world)
    taker = await claim(world, "another")
    assert (taker.state, taker.fence, taker.attempt) == (state, late.fence + 1, late.attempt + 1)
    before = await everything(world)

    with pytest.raises(leases.FencedError):
        await work.advance(world.another_operator(), late)

    after = await everything(world)
    if state == "importing":  # its candidates are the same as the taker's: their place in the job is the key
        before.pop("candidates")
        assert len(after.pop("candidates")) == 1
    assert after == before
    await work.advance(world.services, taker)
    if (await world.job(late.name)).state == "awaiting_review":
        await accept(world, late)
        await world.work()
    assert await world.events(world.line) == [("published", "a", 2)]
    assert (await world.job(late.name)).state == "published"


@pytest.mark.parametrize("state", STATES)
async def test_a_job_that_is_given_up_in_any_state_keeps_it_and_can_be_tried_again(world, state):
    job = await held_in(world, state)
    async with world.db.connection() as conn:
        await leases.fail(conn, job=job, error="It broke.", retry_in=None)

    failed = await world.job(job.name)
    assert (failed.state, failed.failed, failed.last_error, failed.retry_at) == (state, True, "It broke.", None)
    await world.work()
    assert (await world.job(job.name)).failed

    async with world.db.connection() as conn:
        where = {"line": job.line, "job_id": job.job_id}
        await jobs.save_spec(conn, **where, observed_generation=9, lease_seconds=30, retry_limit=9)
    await world.work()
    again = await world.job(job.name)
    assert (again.failed, again.state) == (
        False,
        "published" if state in {"awaiting_review", "publishing"} else "awaiting_review",
    )


@pytest.mark.parametrize("state", STATES)
async def test_a_job_whose_resource_is_deleted_half_way_goes_on(world, state):
    (job,) = await world.jobs()
    await world.apply_job(job.name, **SPEC)
    held = await held_in(world, state)

    await job_resources.forget(world.db, namespace=job.namespace, name=job.name, uid=f"uid-of-{job.name}")
    await work.advance(world.services, held)

    after = await world.job(job.name)
    assert after.deleted_at is not None
    if state in {"awaiting_review", "publishing"}:
        assert await world.events(world.line) == [("published", "a", 2)]
    else:
        assert after.state == "awaiting_review"
        await world.apply_job(job.name, uid="uid-of-another", **SPEC)  # a resource for it is made anew
        await accept_again(world, after)
        assert await world.events(world.line) == [("published", "a", 2)]


async def accept_again(world, job):
    reviews = [{"reviewer": "ada", "decisions": decisions(await world.candidates(job))}]
    await world.apply_job(job.name, uid="uid-of-another", generation=2, reviews=reviews, **SPEC)
    await world.work()


async def test_receipts_go_on_while_a_generation_is_being_published(db, world):
    new = building.version("k", "new")
    async with db.connection() as conn:
        prepared = await publish.prepare(conn, head=await lines.head(conn, world.line), versions=[new])
    async with db.transaction() as conn:
        head = await lines.lock_head(conn, world.line)
        await publish.write_generation(conn, head=head, prepared=prepared, events=[], origin={"kind": "publication"})

        async with asyncio.timeout(30):
            receipt = await world.submit(world.branch, 2, {"key": "late", "content": 1})

    assert (receipt.ack, receipt.contiguous_through) == ("receipt", 2)


async def completed(world, last):
    async with world.db.connection() as conn:
        return await completions.submit(
            conn,
            line=world.line,
            branch_id=world.branch.branch_id,
            run_id=world.branch.run_id,
            content_hash=b"\x02" * 32,
            body=b"{}",
            last_submitted_sequence=last,
        )


async def test_a_final_batch_beyond_a_gap_waits_for_what_is_before_it(world):
    last = await world.submit(world.branch, 3, {"key": "last", "content": 3}, final=True)
    assert last.contiguous_through == 1
    assert (await completed(world, 3)).closed_at is None
    await world.work()
    assert sorted(await world.outcomes()) == ["a"]
    with pytest.raises(ConflictError):
        await world.submit(world.branch, 4, {"key": "beyond", "content": 4})

    await world.submit(world.branch, 2, {"key": "gap", "content": 2})
    await world.work()

    assert sorted(await world.outcomes()) == ["a", "gap", "last"]
    assert (await completed(world, 3)).closed_at is not None
