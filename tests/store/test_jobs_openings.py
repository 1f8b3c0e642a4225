"""Who gets which batches: each in one job, none lost, whoever races."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.store.branching import (
    NAMESPACE,
    blocked,
    claimed,
    finish,
    new_branch,
    new_job,
    open_automatic,
    receive,
    receive_all,
    register,
)

from anabranch.model.errors import InvalidInputError, NotFoundError
from anabranch.model.ids import new_branch_id
from anabranch.store import batches, jobs, leases, openings


async def owners(db) -> dict[int, str | None]:
    """The job of each batch by sequence."""
    async with db.connection() as conn:
        return dict(await conn.fetch("SELECT sequence, job_id FROM batches ORDER BY sequence"))


async def ranges(db) -> list[tuple[str, int, int]]:
    async with db.connection() as conn:
        found = await conn.fetch(
            "SELECT job_id, from_sequence, through_sequence FROM jobs WHERE origin = 'Branch' ORDER BY from_sequence"
        )
    return [tuple(row) for row in found]


async def check_every_batch_is_in_one_job(db, count: int) -> None:
    """The jobs' ranges are disjoint, cover all batches, and agree with what the batches say."""
    found = await ranges(db)
    told = [(n, job) for job, first, last in found for n in range(first, last + 1)]
    assert len(told) == count
    assert dict(told) == await owners(db)


async def versions(db) -> tuple[int, ...]:
    async with db.connection() as conn:
        return tuple(await conn.fetchrow("SELECT l.version, b.version FROM lines l, branches b"))


async def test_an_automatic_job_takes_the_gap_free_run(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2, 4)
    before = await versions(db)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
        log = await jobs.transitions(conn, line=branch.line, job_id=job.job_id, limit=10)
    assert (job.from_sequence, job.through_sequence, job.state) == (1, 2, "received")
    assert (job.automatic, job.uid, job.origin, job.namespace) == (True, None, "Branch", NAMESPACE)
    assert job.due_at is not None
    assert await owners(db) == {1: job.job_id, 2: job.job_id, 4: None}
    assert [(step.from_state, step.to_state) for step in log] == [(None, "received")]
    assert await versions(db) == tuple(version + 1 for version in before), "both statuses show it"


async def test_an_automatic_jobs_name_tells_branch_and_first_batch(db):
    branch = await new_branch(db, name=f"{'n' * 39}.long")
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
    assert job.name.startswith(f"{'n' * 39}-")
    assert job.name.endswith("-1")
    assert len(job.name) <= 63


async def test_nothing_is_opened_for_nothing(db):
    branch = await new_branch(db)
    before = await versions(db)
    async with db.connection() as conn:
        assert await open_automatic(conn, branch) is None
        await receive(conn, branch, 2)
        assert await open_automatic(conn, branch) is None
        absent = new_branch_id(branch.line)
        assert await openings.open_automatic(conn, line=branch.line, branch_id=absent, namespace="x") is None
    assert await versions(db) == before


async def test_a_branch_has_one_automatic_job_before_review_at_a_time(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
        await receive(conn, branch, 2)
        assert await open_automatic(conn, branch) is None
        held = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        held = await leases.advance(conn, job=held, to_state="publishing")
        assert await open_automatic(conn, branch) is None
        await leases.advance(conn, job=held, to_state="awaiting_review", release=True)
        second = await open_automatic(conn, branch)
    assert (second.from_sequence, second.through_sequence) == (2, 2)


async def test_a_failed_job_does_not_hold_up_later_batches(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
        held = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        await leases.fail(conn, job=held, error="broken", retry_in=None)
        await receive(conn, branch, 3)
        second = await open_automatic(conn, branch)
    assert second.from_sequence == 3


async def test_eight_operators_at_once_open_one_job(db):
    branch = await new_branch(db)
    await receive_all(db, branch, *range(1, 11))

    async def once() -> jobs.JobRow | None:
        async with db.connection() as conn:
            return await open_automatic(conn, branch)

    opened = [job for job in await asyncio.gather(*(once() for _ in range(8))) if job]
    assert [(job.from_sequence, job.through_sequence) for job in opened] == [(1, 10)]
    await check_every_batch_is_in_one_job(db, 10)


async def test_a_job_holds_a_hundred_batches_at_most(db):
    branch = await new_branch(db)
    await receive_all(db, branch, *range(1, 104))
    async with db.connection() as conn:
        first = await open_automatic(conn, branch)
        await finish(conn, first)
        second = await open_automatic(conn, branch)
    assert (first.through_sequence, second.from_sequence, second.through_sequence) == (100, 101, 103)


async def test_a_job_holds_twenty_thousand_changes_at_most_but_one_batch_always(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        for sequence, changes in enumerate((30_000, 9_000, 9_000, 9_000), start=1):
            await receive(conn, branch, sequence, changes=changes)
        found = []
        while job := await open_automatic(conn, branch):
            found.append((job.from_sequence, job.through_sequence))
            await finish(conn, job)
    assert found == [(1, 1), (2, 3), (4, 4)]


async def test_a_hand_made_job_gets_its_batches_at_once_if_they_are_there(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2, 3)
    async with db.connection() as conn:
        job = await register(conn, branch, 1, 2)
        automatic = await open_automatic(conn, branch)
    assert (job.reason, job.automatic, job.uid) == ("", False, "uid-of-by-hand")
    assert job.due_at is not None
    assert (automatic.from_sequence, automatic.through_sequence) == (3, 3)
    assert await owners(db) == {1: job.job_id, 2: job.job_id, 3: automatic.job_id}


async def test_a_hand_made_job_waits_for_its_batches(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        job = await register(conn, branch, 2, 3)
        assert (job.reason, job.due_at) == ("BatchesMissing", None)
        assert not await jobs.wake(conn, line=job.line, job_id=job.job_id)
        assert await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker") is None
        await receive(conn, branch, 1)
        await receive(conn, branch, 2)
        automatic = await open_automatic(conn, branch)
        assert (automatic.from_sequence, automatic.through_sequence) == (1, 1), "it stops before what is reserved"
        await receive(conn, branch, 3)
        assert await open_automatic(conn, branch) is None
        due = await jobs.get(conn, job.job_id)
        log = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=10)
    assert (due.reason, due.version) == ("", job.version + 1)
    assert due.due_at is not None
    assert [step.detail for step in log] == ["Applied by hand.", "All its batches are in."]
    await check_every_batch_is_in_one_job(db, 3)


async def test_batches_of_another_job_cannot_be_taken(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2)
    async with db.connection() as conn:
        automatic = await open_automatic(conn, branch)
        with pytest.raises(openings.BatchesTakenError) as caught:
            await register(conn, branch, 2, 5)
        await register(conn, branch, 6, 9, name="reserved")
        for first, last in ((5, 6), (7, 8), (9, 12), (1, 20)):
            with pytest.raises(openings.BatchesTakenError):
                await register(conn, branch, first, last)
        await register(conn, branch, 3, 5, name="between")
    assert caught.value.extra["job"] == automatic.name
    assert caught.value.code == "BatchesTaken"


async def test_the_same_resource_registers_once(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1)

    async def once() -> str:
        async with db.connection() as conn:
            return (await register(conn, branch, 1, 1)).job_id

    assert len({*await asyncio.gather(*(once() for _ in range(6)))}) == 1
    assert len(await ranges(db)) == 1


async def test_a_hand_made_job_needs_a_range_and_a_branch(db):
    branch = await new_branch(db)
    async with db.connection() as conn:
        for first, last in ((2, 1), (0, 1)):
            with pytest.raises(InvalidInputError):
                await register(conn, branch, first, last)
        with pytest.raises(NotFoundError):
            await openings.register_manual(
                conn,
                line=branch.line,
                job_id="job",
                namespace="n",
                name="n",
                uid="u",
                observed_generation=1,
                branch_id=new_branch_id(branch.line),
                from_sequence=1,
                through_sequence=1,
                lease_seconds=30,
                retry_limit=5,
            )


async def test_a_person_and_the_operator_that_want_the_same_batches_come_one_after_the_other(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        job = await register(first, branch, 1, 2)
        task = asyncio.create_task(open_automatic(second, branch))
        await blocked(db, task)
        await transaction.commit()
        assert await task is None
    assert set((await owners(db)).values()) == {job.job_id}


async def test_receipts_go_on_while_batches_are_handed_out(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1)
    async with db.connection() as opening, db.connection() as receiving:
        transaction = opening.transaction()
        await transaction.start()
        await open_automatic(opening, branch)
        receipt = await asyncio.wait_for(receive(receiving, branch, 2), timeout=30)
        await transaction.commit()
    assert receipt.contiguous_through == 2


@pytest.mark.parametrize("seed", range(2))
async def test_no_batch_is_lost_or_taken_twice_when_all_race(db, seed):
    """Senders out of order, two operators, and people who reserve ranges, all at once."""
    count = 150
    branch = await new_branch(db)
    order = random.Random(seed).sample(range(1, count + 1), count)
    sent = asyncio.Event()

    async def send(sequences: list[int]) -> None:
        await receive_all(db, branch, *sequences)

    async def operate(holder: str) -> None:
        while True:
            last_look = sent.is_set()
            async with db.connection() as conn:
                await open_automatic(conn, branch)
                for job in (await leases.claim(conn, holder=holder, limit=3)).jobs:
                    await leases.advance(conn, job=job, to_state="published")
            if last_look and None not in (await owners(db)).values():
                return

    async def apply(number: int) -> None:
        first = number * 40 + 5
        async with db.connection() as conn:
            try:
                await register(conn, branch, first, first + 6, name=f"by-hand-{number}")
            except openings.BatchesTakenError:
                return

    async def send_all() -> None:
        await asyncio.gather(*(send(order[part::4]) for part in range(4)))
        sent.set()

    await asyncio.gather(send_all(), operate("one"), operate("two"), *(apply(n) for n in range(3)))
    await check_every_batch_is_in_one_job(db, count)


async def test_a_reservation_whose_resource_is_deleted_is_given_back(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        job = await register(conn, branch, 1, 3)
        await jobs.mark_deleted(conn, line=job.line, job_id=job.job_id)
        assert await jobs.get(conn, job.job_id) is None
        assert await conn.fetchval("SELECT count(*) FROM transitions") == 0
        again = await register(conn, branch, 1, 1, uid="applied again")
        await jobs.mark_deleted(conn, line=job.line, job_id=again.job_id)
        kept = await jobs.get(conn, again.job_id)
    assert kept.deleted_at is not None
    assert kept.due_at is not None, "its work goes on"


async def hold(db, job: jobs.JobRow) -> jobs.JobRow:
    async with db.transaction() as conn:
        return await openings.open_held(conn, job=job, counts={"received": 1})


async def test_a_job_is_split_off_once_and_begins_at_review(db):
    job = await claimed(db)
    first = await hold(db, job)
    assert (first.name, first.origin, first.state) == (f"{job.name}-held", "Held", "awaiting_review")
    assert (first.held_from, first.branch_id, first.automatic) == (job.job_id, job.branch_id, True)
    assert (first.due_at, first.counts) == (None, {"received": 1})
    again = await hold(db, job)
    assert again.job_id == first.job_id
    assert again.due_at is not None, "more candidates came to it"


async def test_a_worker_on_the_held_job_is_fenced_off_when_candidates_join(db):
    job = await claimed(db)
    held = await hold(db, job)
    async with db.connection() as conn:
        await jobs.wake(conn, line=held.line, job_id=held.job_id)
        (working,) = (await leases.claim(conn, holder="other", limit=10)).jobs
        assert working.job_id == held.job_id
        await hold(db, job)
        with pytest.raises(leases.FencedError):
            await leases.advance(conn, job=working, to_state="publishing")
        (next_one,) = (await leases.claim(conn, holder="other", limit=10)).jobs
    assert next_one.job_id == held.job_id
    assert next_one.attempt == 0


async def test_candidates_that_wait_after_the_held_job_has_ended_go_to_another(db):
    job = await claimed(db)
    held = await hold(db, job)
    async with db.connection() as conn:
        await finish(conn, held)
    second = await hold(db, job)
    assert (second.name, second.held_from) == (f"{job.name}-held-2", held.job_id)
    assert (await hold(db, held)).job_id == second.job_id
    third = await hold(db, second)
    assert third.name == f"{job.name}-held-3"


async def test_two_that_split_a_job_at_once_get_the_same(db):
    job = await claimed(db)
    async with db.connection() as first, db.connection() as second:
        transaction = first.transaction()
        await transaction.start()
        held = await openings.open_held(first, job=job, counts={})
        task = asyncio.create_task(openings.open_held(second, job=job, counts={}))
        await blocked(db, task)
        await transaction.commit()
        assert (await task).job_id == held.job_id


async def test_a_held_job_does_not_take_the_name_of_another(db):
    job = await claimed(db)
    branch = await new_branch(db, name="run-2")
    async with db.connection() as conn:
        await register(conn, branch, 1, 1, name=f"{job.name}-held")
    held = await hold(db, job)
    assert held.name.startswith(f"{job.name}-held-")


async def test_the_operators_own_jobs_are_made_once_a_name(db):
    branch = await new_branch(db)

    async def make(name: str) -> jobs.JobRow:
        async with db.transaction() as conn:
            return await openings.open_made(
                conn, line=branch.line, namespace=NAMESPACE, name=name, origin="Import", detail="Digest changed."
            )

    made = await asyncio.gather(*(make("facts-import-1") for _ in range(5)), make("facts-import-2"))
    assert len({job.job_id for job in made}) == 2
    assert (made[0].origin, made[0].state, made[0].automatic) == ("Import", "validating", True)
    assert made[0].due_at is not None


async def test_a_job_knows_its_batches(db):
    job = await new_job(db)
    async with db.connection() as conn:
        found = await batches.of_range(
            conn, line=job.line, branch_id=job.branch_id, from_sequence=1, through_sequence=job.through_sequence
        )
    assert [batch.job_id for batch in found] == [job.job_id]
