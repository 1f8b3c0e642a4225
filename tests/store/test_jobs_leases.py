"""Leases: one worker a job, nobody else's writes count, and each step is in the log."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store.branching import (
    blocked,
    claimed,
    expire_leases,
    new_branch,
    new_job,
    open_automatic,
    receive,
)

from anabranch.store import jobs, leases, lines

MINUTE = timedelta(minutes=1)


async def line_of(db, job: jobs.JobRow) -> lines.LineRow:
    async with db.connection() as conn:
        return (await lines.get(conn, job.line)).line


async def reload(db, job: jobs.JobRow) -> jobs.JobRow:
    async with db.connection() as conn:
        return await jobs.get(conn, job.job_id)


async def claim(db, holder: str = "worker", limit: int = 10) -> list[jobs.JobRow]:
    async with db.connection() as conn:
        return (await leases.claim(conn, holder=holder, limit=limit)).jobs


async def steps(db, job: jobs.JobRow) -> list[tuple[str | None, str]]:
    async with db.connection() as conn:
        log = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=100)
    return [(step.from_state, step.to_state) for step in log]


async def test_a_due_job_is_claimed_once(db):
    job = await new_job(db)
    (held,) = await claim(db)
    assert (held.job_id, held.fence, held.holder, held.attempt) == (job.job_id, job.fence + 1, "worker", 0)
    assert held.lease_deadline == held.due_at
    assert held.version == job.version + 1
    assert await claim(db) == []
    async with db.connection() as conn:
        assert await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="other") is None
        left = await conn.fetchval("SELECT $1::timestamptz - now()", held.lease_deadline)
    assert timedelta(seconds=25) < left <= timedelta(seconds=30), "by the clock of the database"


async def test_twenty_jobs_are_shared_out_among_eight_workers(db):
    made = {(await new_job(db, name=f"run-{n}")).job_id for n in range(20)}
    found = await asyncio.gather(*(claim(db, holder=f"worker-{n}", limit=4) for n in range(8)))
    taken = [job.job_id for some in found for job in some]
    assert len(taken) == len(set(taken))
    rest = [job.job_id for job in await claim(db, limit=20)]
    assert sorted(taken + rest) == sorted(made)


async def test_a_claim_does_not_wait_for_one_that_is_under_way(db):
    await new_job(db)
    async with db.connection() as first:
        transaction = first.transaction()
        await transaction.start()
        assert len((await leases.claim(first, holder="worker", limit=1)).jobs) == 1
        assert await asyncio.wait_for(claim(db), timeout=30) == []
        await transaction.rollback()
    assert len(await claim(db)) == 1


@pytest.mark.parametrize(
    "pause",
    [
        "UPDATE line_heads SET suspended = true",
        "UPDATE line_heads SET pinned_generation = 1",
        "UPDATE lines SET deleted_at = now()",
    ],
)
async def test_jobs_of_a_paused_line_stay_due(db, pause):
    job = await new_job(db)
    async with db.connection() as conn:
        await conn.execute(pause)
        assert await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker") is None
    assert await claim(db) == []
    assert await reload(db, job) == job


async def test_jobs_are_claimed_in_the_order_in_which_they_came_due(db):
    made = [await new_job(db, name=f"run-{n}") for n in range(3)]
    async with db.connection() as conn:
        await conn.execute("UPDATE jobs SET due_at = now() - interval '1 h' WHERE job_id = $1", made[2].job_id)
    assert [job.job_id for job in await claim(db, limit=1)] == [made[2].job_id]


@pytest.mark.parametrize("holder", ["other", "worker"])
async def test_an_expired_lease_is_taken_over_and_its_holder_fenced_off(db, holder):
    """Also where the same process takes it over: its former task may still be at it."""
    lost = await claimed(db)
    await expire_leases(db)
    (held,) = await claim(db, holder=holder)
    assert (held.fence, held.attempt, held.last_error) == (lost.fence + 1, 1, "The lease of worker ran out.")
    before = await steps(db, held)
    assert before[-1] == ("received", "received"), "a takeover is in the log"
    async with db.connection() as conn:
        for write in (
            leases.advance(conn, job=lost, to_state="importing"),
            leases.renew(conn, job=lost),
            leases.fail(conn, job=lost, error="late", retry_in=MINUTE),
        ):
            with pytest.raises(leases.FencedError):
                await write
        await leases.release(conn, job=lost)
    assert await reload(db, held) == held
    assert await steps(db, held) == before


async def test_a_lease_that_ran_out_unclaimed_still_lets_its_holder_go_on(db):
    job = await claimed(db)
    await expire_leases(db)
    async with db.connection() as conn:
        renewed = await leases.renew(conn, job=job)
    assert renewed.lease_deadline > job.lease_deadline
    assert await claim(db) == []


async def test_a_job_that_kills_its_workers_is_given_up(db):
    job = await claimed(db)
    for _ in range(job.retry_limit):
        await expire_leases(db)
        (job,) = await claim(db, holder="another")
    await expire_leases(db)
    before = await line_of(db, job)
    assert await claim(db) == []
    given_up = await reload(db, job)
    assert (given_up.failed, given_up.state, given_up.holder) == (True, "received", None)
    assert given_up.finished_at is not None
    assert given_up.due_at is None
    after = await line_of(db, job)
    assert (after.version, before.due_at) == (before.version + 1, None)
    assert after.due_at is not None, "the Baseline counts its jobs anew, and looks at what waited for this one"
    with pytest.raises(leases.FencedError):
        async with db.connection() as conn:
            await leases.advance(conn, job=job, to_state="importing")


async def test_an_advance_moves_the_job_renews_the_lease_and_is_logged(db):
    job = await claimed(db)
    async with db.connection() as conn:
        await conn.execute("UPDATE jobs SET attempt = 3, last_error = 'x'")
        moved = await leases.advance(
            conn, job=job, to_state="importing", detail="Read 1 batch.", counts={"received": 4}
        )
        again = await leases.advance(conn, job=moved, to_state="validating", reason="Checking")
        log = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=10)
    assert (moved.state, moved.attempt, moved.last_error, moved.counts) == ("importing", 0, None, {"received": 4})
    assert moved.lease_deadline > job.lease_deadline
    assert (again.state, again.reason, again.counts, again.version) == (
        "validating",
        "Checking",
        {"received": 4},
        job.version + 2,
    )
    assert [(step.from_state, step.to_state) for step in log] == [
        (None, "received"),
        ("received", "importing"),
        ("importing", "validating"),
    ]
    assert (log[1].detail, log[1].holder, log[1].fence) == ("Read 1 batch.", "worker", job.fence)


async def test_a_step_cannot_be_taken_twice(db):
    job = await claimed(db)
    async with db.connection() as conn:
        await leases.advance(conn, job=job, to_state="importing")
        with pytest.raises(leases.FencedError):
            await leases.advance(conn, job=job, to_state="importing")
    assert await steps(db, job) == [(None, "received"), ("received", "importing")]


async def test_a_step_that_rolls_back_leaves_no_trace(db):
    job = await claimed(db)
    async with db.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await leases.advance(conn, job=job, to_state="importing")
        await transaction.rollback()
    assert await reload(db, job) == job
    assert await steps(db, job) == [(None, "received")]


async def test_a_published_job_is_finished(db):
    job = await claimed(db)
    async with db.connection() as conn:
        done = await leases.advance(conn, job=job, to_state="published", published_generation=1)
        assert not await jobs.wake(conn, line=job.line, job_id=job.job_id)
        with pytest.raises(leases.FencedError):
            await leases.advance(conn, job=done, to_state="published")
    assert (done.holder, done.lease_deadline, done.due_at, done.published_generation) == (None, None, None, 1)
    assert done.finished_at is not None


async def test_only_steps_that_the_baseline_counts_change_its_version(db):
    job = await claimed(db)

    async def version() -> int:
        async with db.connection() as conn:
            return await conn.fetchval("SELECT version FROM lines")

    before = await version()
    async with db.connection() as conn:
        job = await leases.advance(conn, job=job, to_state="importing")
        assert await version() == before
        job = await leases.advance(conn, job=job, to_state="awaiting_review")
        assert await version() == before + 1
        job = await leases.advance(conn, job=job, to_state="publishing")
        assert await version() == before + 2
        job = await leases.fail(conn, job=job, error="no", retry_in=MINUTE)
        assert await version() == before + 2
        job = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        await leases.fail(conn, job=job, error="no", retry_in=None)
        assert await version() == before + 3


async def test_a_step_locks_the_line_before_the_job(db):
    """Else it would deadlock with a transaction that changes the line and then wakes the line's jobs."""
    job = await claimed(db)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        await first.execute("UPDATE lines SET version = version + 1")
        task = asyncio.create_task(leases.advance(second, job=job, to_state="awaiting_review", release=True))
        await blocked(db, task)
        assert await jobs.wake(first, line=job.line, job_id=job.job_id)
        await transaction.commit()
        moved = await task
    assert moved.due_at is not None, "and the knock is kept"


async def test_a_released_job_is_due_when_asked_for(db):
    job = await claimed(db)
    async with db.connection() as conn:
        await leases.release(conn, job=job)
        waiting = await jobs.get(conn, job.job_id)
        assert (waiting.holder, waiting.lease_deadline, waiting.due_at) == (None, None, None)
        assert (await leases.claim(conn, holder="worker", limit=1)).jobs == []
        job = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        await leases.release(conn, job=job, due_in=timedelta(0))
        (job,) = (await leases.claim(conn, holder="worker", limit=1)).jobs
        job = await leases.advance(conn, job=job, to_state="importing", release=True, due_in=MINUTE)
        assert job.holder is None
        assert await conn.fetchval("SELECT due_at > now() + interval '50 s' FROM jobs")


@pytest.mark.parametrize("way", ["release", "advance", "renew, advance and release"])
async def test_a_knock_while_a_job_is_held_makes_it_due_when_it_is_let_go(db, way):
    job = await claimed(db)
    async with db.connection() as conn:
        assert await jobs.wake(conn, line=job.line, job_id=job.job_id)
        assert (await leases.claim(conn, holder="other", limit=1)).jobs == [], "a knock does not break the lease"
        if way.startswith("renew"):
            job = await leases.renew(conn, job=job)
            job = await leases.advance(conn, job=job, to_state="importing")
            assert (await leases.claim(conn, holder="other", limit=1)).jobs == []
        if way.endswith("release"):
            await leases.release(conn, job=job)
        else:
            await leases.advance(conn, job=job, to_state="awaiting_review", release=True)
        (again,) = (await leases.claim(conn, holder="other", limit=1)).jobs
        assert again.attempt == 0
        await leases.release(conn, job=again)
        assert (await leases.claim(conn, holder="other", limit=1)).jobs == [], "one knock, one look"


async def test_a_knock_after_the_lease_ran_out_is_kept_too(db):
    job = await claimed(db)
    await expire_leases(db)
    async with db.connection() as conn:
        assert await jobs.wake(conn, line=job.line, job_id=job.job_id)
        await leases.release(conn, job=job)
        assert len((await leases.claim(conn, holder="other", limit=1)).jobs) == 1


async def test_the_api_may_knock(db, api_db):
    job = await claimed(db)
    async with api_db.connection() as conn:
        assert await jobs.wake(conn, line=job.line, job_id=job.job_id)


async def test_a_waiting_job_is_woken_with_all_that_wait_in_its_line(db):
    job = await claimed(db)
    async with db.connection() as conn:
        assert await jobs.wake_waiting(conn, line=job.line) == 0
        await leases.advance(conn, job=job, to_state="awaiting_review", release=True)
        assert await jobs.wake_waiting(conn, line=job.line) == 1
        assert len((await leases.claim(conn, holder="worker", limit=5)).jobs) == 1


async def test_a_failure_keeps_the_state_and_is_tried_again_later(db):
    job = await claimed(db)
    async with db.connection() as conn:
        job = await leases.advance(conn, job=job, to_state="importing")
        failed = await leases.fail(conn, job=job, error="no\0 luck" + "!" * 2_000, retry_in=MINUTE)
        log = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=10)
    assert (failed.state, failed.attempt, failed.failed, failed.holder) == ("importing", 1, False, None)
    assert failed.last_error.startswith("no luck!")
    assert len(failed.last_error) == 1_024
    assert failed.retry_at == failed.due_at
    assert log[-1].detail == failed.last_error
    assert await claim(db) == [], "not before it is due"


async def test_a_job_fails_for_good_after_its_retries(db):
    job = await claimed(db)
    async with db.connection() as conn:
        for attempt in range(1, job.retry_limit + 1):
            job = await leases.fail(conn, job=job, error="no", retry_in=timedelta(0))
            assert (job.attempt, job.failed) == (attempt, False)
            (job,) = (await leases.claim(conn, holder="worker", limit=1)).jobs
        before = await line_of(db, job)
        job = await leases.fail(conn, job=job, error="no", retry_in=timedelta(0))
        assert (await leases.claim(conn, holder="worker", limit=1)).jobs == []
    after = await line_of(db, job)
    assert (after.version, before.due_at, after.due_at is None) == (before.version + 1, None, False)
    assert (job.failed, job.attempt, job.retry_at, job.due_at) == (True, job.retry_limit + 1, None, None)
    assert job.finished_at is not None


async def test_a_higher_retry_limit_revives_a_failed_job(db):
    job = await claimed(db)

    async def save(generation: int, retry_limit: int) -> jobs.JobRow | None:
        async with db.connection() as conn:
            return await jobs.save_spec(
                conn,
                line=job.line,
                job_id=job.job_id,
                observed_generation=generation,
                lease_seconds=60,
                retry_limit=retry_limit,
            )

    async with db.connection() as conn:
        await leases.fail(conn, job=job, error="no", retry_in=None)
    assert (await save(2, 5)).failed
    assert await save(2, 5) is None
    assert await save(1, 9) is None, "an older resource changes nothing"
    revived = await save(3, 6)
    assert (revived.failed, revived.finished_at, revived.lease_seconds) == (False, None, 60)
    assert len(await claim(db)) == 1
    assert (await steps(db, job))[-1] == ("received", "received")


async def test_many_jobs_are_claimed_by_index(db):
    job = await new_job(db)
    async with db.connection() as conn:
        await conn.execute(
            "INSERT INTO jobs (line, job_id, namespace, name, automatic, origin, due_at)"
            " SELECT $1, 'job-' || n, 'team', 'job-' || n, true, 'Import', now() + n * interval '1 s'"
            " FROM generate_series(1, 20000) AS n",
            job.line,
        )
        await conn.execute("ANALYZE jobs")
        plan = await conn.fetch("EXPLAIN " + leases._sql.claim.sql, 10, 100, "worker")
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan on jobs" not in text, text


async def with_batches(db, name: str, *changes: int) -> jobs.JobRow:
    """The job of a branch whose batches hold so many changes."""
    branch = await new_branch(db, name=name)
    async with db.connection() as conn:
        for sequence, count in enumerate(changes, start=1):
            await receive(conn, branch, sequence, changes=count)
        return await open_automatic(conn, branch)


async def test_a_job_without_a_change_is_done_by_being_claimed(db):
    """An empty final batch leaves nothing to decide on; a job with one change among its batches is worked on."""
    empty, full = await with_batches(db, "empty", 0, 0), await with_batches(db, "full", 0, 1)
    async with db.connection() as conn:
        found = await leases.claim(conn, holder="worker", limit=10)
    (held,), empty = found.jobs, await reload(db, empty)
    assert (found.done, held.job_id, held.state, held.holder) == (1, full.job_id, "received", "worker")
    assert (empty.state, empty.reason, empty.holder, empty.due_at) == ("published", "NothingToPublish", None, None)
    assert (empty.fence, empty.finished_at is not None) == (1, True)
    assert (await steps(db, empty))[-1] == ("received", "published")
    line = await line_of(db, empty)
    async with db.connection() as conn:
        assert await leases.claim(conn, holder="worker", limit=10) == leases.Claim([], 0)
    assert (await line_of(db, empty)).version == line.version


@pytest.mark.parametrize("kind", ["idle", "spent"])
async def test_a_claim_waits_for_no_line_that_somebody_publishes_to(db, kind):
    """Everybody else locks a line before its jobs: a claim that waited, its jobs in hand, would be in a deadlock."""
    job = await with_batches(db, "busy", 0 if kind == "idle" else 1)
    if kind == "spent":
        async with db.connection() as conn:
            await conn.execute(
                "UPDATE jobs SET holder = 'gone', lease_deadline = now(), due_at = now(), attempt = retry_limit"
            )
    other = await with_batches(db, "quiet", 1)
    async with db.transaction() as publishing, db.connection() as conn:
        await publishing.execute("SELECT FROM lines WHERE line = $1 FOR NO KEY UPDATE", job.line)
        await conn.execute("SET lock_timeout = '2s'")
        found = await leases.claim(conn, holder="worker", limit=10)
        await conn.execute("RESET lock_timeout")
    assert ([held.job_id for held in found.jobs], found.done) == ([other.job_id], 0)
    async with db.connection() as conn:
        found = await leases.claim(conn, holder="worker", limit=10)
    assert (list(found.jobs), found.done) == ([], 1 if kind == "idle" else 0)
    assert (await reload(db, job)).finished_at is not None


async def test_no_more_jobs_are_held_than_asked_for_however_many_are_looked_at(db):
    """Those that need no work are found among as many as are looked at, and what is not taken stays as it was."""
    for name, changes in (("a", 1), ("b", 0), ("c", 1), ("d", 0), ("e", 0)):
        await with_batches(db, name, changes)
    async with db.connection() as conn:
        first = await leases.claim(conn, holder="one", limit=1, among=4)
        second = await leases.claim(conn, holder="two", limit=1)
        third = await leases.claim(conn, holder="three", limit=1)
    assert [(len(claim.jobs), claim.done) for claim in (first, second, third)] == [(1, 2), (1, 0), (0, 1)]
    assert (second.jobs[0].fence, second.jobs[0].attempt, second.jobs[0].holder) == (1, 0, "two")
