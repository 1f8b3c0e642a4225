"""A worker may be killed just before or after any durable step: nothing is lost, nothing published or told twice."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from tests.store import telling
from tests.store.dying import DyingDatabase, KilledError
from tests.store.world import AUTOMATIC, World, decisions

from anabranch.consolidation import schedule, work
from anabranch.store import leases, publications


async def claim(world):
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        return (await leases.claim(conn, holder="the one that dies", limit=1)).jobs


async def let_leases_run_out(world):
    async with world.db.connection() as conn:
        await conn.execute(
            "UPDATE jobs SET lease_deadline = now() - interval '1 s', due_at = now() - interval '1 s' "
            "WHERE holder IS NOT NULL"
        )


async def run_killed_at(world, *, at, before):
    """Work, be killed at the n-th use of the database, and let others take over; whether it came to that."""
    killed = False
    dying = replace(world.services, db=DyingDatabase(world.db, at=at, before=before))
    for job in await claim(world):
        try:
            await work.advance(dying, job)
        except KilledError:
            killed = True
            await let_leases_run_out(world)
            await world.work()
            with contextlib.suppress(leases.FencedError):
                await work.advance(world.services, job)  # it was only paused, and comes back
    await world.work()
    return killed


async def told_of(world, branch):
    """What kinds of events a run's agent has."""
    await telling.drain(world.db)
    return [kind for agent, kind in await telling.kinds(world.db) if agent == branch.agent_id]


async def submit_all_kinds(world, branch):
    await world.submit(
        branch,
        1,
        {"key": "new", "content": "found"},
        {"key": "new", "content": "found"},
        {"key": "old", "content": "better", "base": 1},
        {"key": "contested", "content": "mine", "base": 1},
        {"key": "secret", "content": "mine alone", "visibility": "private"},
        {"key": "known", "content": "known", "sources": []},
    )


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_worker_killed_at_any_step_of_a_job_changes_nothing_about_its_outcome(db, before):
    world = World(db)
    steps = 0
    while True:
        name = f"facts-{steps}"
        texts = {"old": "old", "contested": "first", "known": "known"}
        line = (await world.import_documents(texts, name=name, **AUTOMATIC)).line.line
        rival = await world.apply_branch(f"rival-{steps}", baseline=name)
        branch = await world.apply_branch(f"run-{steps}", baseline=name)
        await world.submit(rival, 1, {"key": "contested", "content": "theirs", "base": 1})
        await world.work()
        await submit_all_kinds(world, branch)

        killed = await run_killed_at(world, at=steps + 1, before=before)

        assert await world.contents(line) == {
            "new": '"found"', "old": '"better"', "contested": '"theirs"', "known": '"known"',
        }  # fmt: skip
        assert await world.events(line) == [
            ("published", "contested", 2),
            ("published", "new", 3),
            ("published", "old", 3),
        ]
        mine = [job for job in await world.jobs() if job.branch_id == branch.branch_id]
        assert sorted((job.origin, job.state) for job in mine) == [
            ("Branch", "published"),
            ("Held", "awaiting_review"),
        ]
        rows = [row for job in mine for row in await world.candidates(job)]
        assert sorted((row.key, row.state, row.reason) for row in rows) == [
            ("contested", "waiting", "BaseRevisionSuperseded"),
            ("known", "duplicate", "AlreadyKnown"),
            ("new", "duplicate", "ExactDuplicate"),
            ("new", "published", ""),
            ("old", "published", ""),
            ("secret", "rejected", "ExportNotPermitted"),
        ]
        await world.check_roots(line)
        assert await told_of(world, branch) == ["finding.conflict", "finding.published", "finding.rejected"]
        assert await told_of(world, rival) == ["finding.published"]
        if not killed:
            break
        steps += 1
    assert steps >= 8  # every use of the database that the job makes was one to die at


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_worker_killed_at_any_step_of_a_review_publishes_what_was_accepted_once(db, before):
    world = World(db)
    steps = 0
    while True:
        name = f"facts-{steps}"
        line = (await world.import_documents({"a": "first", "b": "first"}, name=name)).line.line
        branch = await world.apply_branch(f"run-{steps}", baseline=name)
        await world.submit(
            branch, 1, {"key": "a", "content": "second", "base": 1}, {"key": "b", "content": "second", "base": 1}
        )
        await world.work()
        (job,) = [job for job in await world.jobs() if job.line == line]
        accepted, rejected = await world.candidates(job)
        await world.apply_job(
            job.name,
            branchRef={"namespace": "agents", "name": branch.name},
            batches={"from": 1, "through": 1},
            reviews=[
                {"reviewer": "ada", "decisions": decisions([accepted])},
                {"reviewer": "bob", "decisions": decisions([rejected], "reject")},
            ],
        )

        killed = await run_killed_at(world, at=steps + 1, before=before)

        assert await world.contents(line) == {"a": '"second"', "b": '"first"'}
        assert await world.events(line) == [("published", "a", 2)]
        job = await world.job(job.name)
        assert (job.state, job.published_generation) == ("published", 2)
        assert [(row.key, row.state) for row in await world.candidates(job)] == [("a", "published"), ("b", "rejected")]
        assert await told_of(world, branch) == ["finding.published", "finding.rejected"]
        if not killed:
            break
        steps += 1
    assert steps >= 5


async def test_a_worker_that_was_taken_over_can_publish_nothing(db):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    (late,) = await claim(world)
    await let_leases_run_out(world)
    async with db.connection() as conn:
        (taker,) = (await leases.claim(conn, holder="another", limit=1)).jobs

    with pytest.raises(leases.FencedError):
        await work.advance(world.services, late)

    assert (await world.state(line)).head.head_generation == 1
    await work.advance(world.services, taker)
    assert await world.contents(line) == {"a": '"second"'}


async def test_a_job_that_published_cannot_do_so_again_whatever_its_row_says(db):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1})
    await world.work()
    async with db.connection() as conn:  # as no code of ours would
        await conn.execute(
            "UPDATE jobs SET state = 'publishing', finished_at = NULL, due_at = now() - interval '1 s'; "
            "UPDATE candidates SET state = 'accepted', key = 'b', canonical_revision = NULL"
        )
        (job,) = (await leases.claim(conn, holder="another", limit=1)).jobs

    with pytest.raises(publications.AlreadyPublishedError):
        await work.advance(world.services, job)

    assert (await world.state(line)).head.head_generation == 2
