"""Jobs of one line that are ready together share a generation, a transaction, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from tests.store.dying import DyingDatabase
from tests.store.test_consolidation_crashes import let_leases_run_out
from tests.store.world import AUTOMATIC, World, decisions

from anabranch.consolidation import planning, publishing, schedule, work
from anabranch.consolidation.gathering import Gathering
from anabranch.identity import grants
from anabranch.model.errors import UnavailableError
from anabranch.store import jobs, leases, lines, manifests, publications, publish, reviews

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}


class KilledProcessError(BaseException):
    """What stands for kill -9: nothing in the process goes on after it."""


@pytest.fixture
async def world(db):
    """A line with generation 1, where findings need no review."""
    world = World(db)
    world.line = (await world.import_documents({"a": "first", "b": "first"}, **AUTOMATIC)).line.line
    return world


async def ready(world, *findings, policy=AUTOMATIC):
    """A job in `publishing` for each finding (or list of them), of a run of its own, all held by one worker."""
    await world.apply_baseline(generation=2, suspend=False, **FROM_MAP, **policy)
    branches = []
    for number, changes in enumerate(findings, 1):
        branch = await world.apply_branch(f"run-{number}")
        await world.submit(branch, 1, *(changes if isinstance(changes, list) else [changes]))
        branches.append(branch)
    await schedule.make_jobs(world.db)
    return await held(world, branches)


async def held(world, branches):
    """The runs' jobs, each as far as the step that publishes it."""
    async with world.db.connection() as conn:
        claimed = {job.branch_id: job for job in (await leases.claim(conn, holder=world.holder, limit=50)).jobs}
    found = []
    for branch in branches:
        job = claimed[branch.branch_id]
        while job.state != "publishing":
            job = await work._STEPS[job.state](world.services, job)
        found.append(job)
    return found


async def publish_all(world, found, *, services=None):
    """Let the jobs' workers publish at once; their outcomes in the jobs' order."""
    services = services or world.services
    return await asyncio.gather(*(publishing.publish_accepted(services, job) for job in found), return_exceptions=True)


async def by_generation(world):
    """Which jobs each generation has published, by the number of the run."""
    runs = {}
    for job in await world.jobs():
        async with world.db.connection() as conn:
            generation = await publications.of_job(conn, line=job.line, job_id=job.job_id)
        assert generation == job.published_generation
        if generation is not None:
            runs.setdefault(generation, []).append(int(job.name.split("-")[1]))
    return {generation: sorted(numbers) for generation, numbers in runs.items()}


async def fence_off(world, job):
    """Somebody else takes the job, whose worker does not know yet."""
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET lease_deadline = now(), due_at = now() WHERE job_id = $1", job.job_id)
        (taken,) = (await leases.claim(conn, holder="another", limit=1)).jobs
    return taken


async def test_jobs_that_are_ready_together_share_one_generation(world):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(6)))

    assert await publish_all(world, found) == [None] * 6

    # The first is alone, for nobody waits for company; the others gather while it is written.
    assert await by_generation(world) == {2: [1], 3: [2, 3, 4, 5, 6]}
    assert await world.events(world.line) == [
        ("published", "k-0", 2),
        *(("published", f"k-{number}", 3) for number in range(1, 6)),
    ]
    assert {job.state for job in await world.jobs()} == {"published"}
    async with world.db.connection() as conn:
        third = await manifests.get(conn, line=world.line, generation=3)
    assert third.origin == {"kind": "publication", "job_ids": [job.job_id for job in found[1:]]}
    assert await world.check_roots(world.line) == 3


async def together(world, found):
    """Publish some jobs in one group; their outcomes."""
    outcomes = {}
    await publishing.publish_together(world.services, found, outcomes)
    return [outcomes.get(job.job_id, "not yet") for job in found]


async def test_a_job_of_a_group_says_what_it_published_and_no_more(world):
    found = await ready(world, {"key": "k", "content": 1}, [{"key": "l", "content": 1}, {"key": "m", "content": 1}])

    await together(world, found)

    for job, count in zip(found, (1, 2), strict=True):
        async with world.db.connection() as conn:
            log = await jobs.transitions(conn, line=job.line, job_id=job.job_id, limit=20)
        assert log[-1].detail == f"{count} records in generation 2"
        assert (await world.job(job.name)).counts["accepted"] == count


async def test_a_later_job_for_the_same_key_is_not_taken_along_and_goes_back_to_review(world):
    found = await ready(
        world,
        {"key": "k", "content": "mine"},
        {"key": "other", "content": 1},
        [{"key": "k", "content": "theirs"}, {"key": "l", "content": 1}],
    )

    assert await together(world, found) == [None, None, "not yet"]
    assert (await world.job(found[2].name)).state == "publishing"
    assert await publish_all(world, found[2:]) == [None]

    assert await world.outcomes() == {
        "k": [("published", ""), ("waiting", "KeyExists")],
        "l": [("published", "")],
        "other": [("published", "")],
    }
    assert (await world.contents(world.line))["k"] == '"mine"'
    assert await world.check_roots(world.line) == 3


async def test_a_job_whose_lease_was_lost_falls_out_and_the_others_are_published(world):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(4)))
    taken = await fence_off(world, found[1])

    outcomes = await publish_all(world, found)

    assert [type(outcome) for outcome in outcomes] == [type(None), leases.FencedError, type(None), type(None)]
    assert await by_generation(world) == {2: [1], 3: [3, 4]}
    await work.advance(world.another_operator(), taken)
    assert (await by_generation(world))[4] == [2]
    assert [key for _, key, _ in await world.events(world.line)] == ["k-0", "k-2", "k-3", "k-1"]


async def test_a_lease_that_is_lost_just_before_the_lock_counts(world, monkeypatch):
    found = await ready(world, {"key": "k", "content": 1}, {"key": "l", "content": 1})
    lock_head = lines.lock_head

    async def taken_over_first(conn, line):
        monkeypatch.setattr(lines, "lock_head", lock_head)
        await fence_off(world, found[0])
        return await lock_head(conn, line)

    monkeypatch.setattr(lines, "lock_head", taken_over_first)
    first, second = await together(world, found)

    assert (type(first), second) == (leases.FencedError, None)
    assert await by_generation(world) == {2: [2]}
    assert await world.events(world.line) == [("published", "l", 2)]


async def test_a_job_whose_authors_grant_was_revoked_falls_out_and_the_others_are_published(world):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(3)))
    world.permissions.deny(grants.SCOPE_WRITE, name="shared", account="run-2")

    assert await together(world, found) == [None, None, None]

    assert await by_generation(world) == {2: [1, 3]}
    assert (await world.outcomes())["k-1"] == [("rejected", "GrantRevoked")]
    assert (await world.job(found[1].name)).reason == "NothingToPublish"


async def test_a_job_whose_grants_cannot_be_asked_keeps_its_state_and_the_others_are_published(world):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(3)))
    ask = world.permissions.allowed

    async def away_for_one(caller, *args, **kwargs):
        if caller.service_account == ("agents", "run-2"):
            raise UnavailableError("The API server does not answer.")
        return await ask(caller, *args, **kwargs)

    world.permissions.allowed = away_for_one
    first, second, third = await together(world, found)

    assert (first, type(second), third) == (None, UnavailableError, None)
    assert await by_generation(world) == {2: [1, 3]}
    assert (await world.job(found[1].name)).state == "publishing"


@pytest.mark.parametrize("fault", ["content", "published"])
async def test_a_job_that_cannot_be_published_fails_alone(world, fault):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(4)))
    async with world.db.connection() as conn:  # as no code of ours would
        if fault == "content":
            (row,) = await world.candidates(found[2])
            await conn.execute("DELETE FROM contents WHERE content_hash = $1", row.content_hash)
        else:
            await publications.record(conn, line=world.line, job_id=found[2].job_id, generation=1)

    outcomes = await publish_all(world, found)

    assert [outcome is None for outcome in outcomes] == [True, True, False, True]
    expected = UnavailableError if fault == "content" else publications.AlreadyPublishedError
    assert isinstance(outcomes[2], expected)
    assert {job.state for job in await world.jobs() if job.job_id != found[2].job_id} == {"published"}
    assert set(await world.contents(world.line)) == {"a", "b", "k-0", "k-1", "k-3"}
    await world.check_roots(world.line)


async def reviewed(world, *, reviewer="ada"):
    """Two jobs whose findings a reviewer has accepted."""
    found = await ready_for_review(world)
    for job in found:
        await decide(world, job, {reviewer: "accept"}, generation=1)
    return found


async def ready_for_review(world):
    for number in (1, 2):
        branch = await world.apply_branch(f"run-{number}")
        await world.submit(branch, 1, {"key": f"k-{number}", "content": number})
    await world.work()
    return await world.jobs()


async def decide(world, job, actions, *, generation):
    rows = await world.candidates(job)
    await world.apply_job(
        job.name,
        generation=generation,
        branchRef={"namespace": "agents", "name": f"run-{job.name.split('-')[1]}"},
        batches={"from": 1, "through": 1},
        reviews=[{"reviewer": reviewer, "decisions": decisions(rows, action)} for reviewer, action in actions.items()],
    )


@pytest.fixture
async def accepted(db):
    """Two jobs in `publishing`, accepted by a reviewer, and held."""
    world = World(db)
    world.line = (await world.import_documents({"a": "first", "b": "first"})).line.line
    await reviewed(world)
    async with db.connection() as conn:
        claimed = (await leases.claim(conn, holder=world.holder, limit=10)).jobs
    found = [
        await work._STEPS["awaiting_review"](world.services, job) for job in sorted(claimed, key=lambda job: job.name)
    ]
    assert [job.state for job in found] == ["publishing", "publishing"]
    return world, found


@pytest.mark.parametrize("late", ["before the plan", "while it is made", "before the lock"])
@pytest.mark.parametrize(
    ("actions", "outcome", "state"),
    [
        ({}, ("waiting", "ReviewWithdrawn"), "awaiting_review"),
        ({"ada": "reject"}, ("rejected", "RejectedByReview"), "published"),
        ({"ada": "accept", "bob": "reject"}, ("rejected", "RejectedByReview"), "published"),
    ],
    ids=["taken back", "turned round", "rejected by another"],
)
async def test_a_review_that_changes_before_publication_counts(accepted, monkeypatch, actions, outcome, state, late):
    world, found = accepted
    prepare, latest = publish.prepare, reviews.latest
    changed = []

    async def change():
        if not changed:
            changed.append(await decide(world, found[0], actions, generation=2))

    async def changed_before_the_lock(conn, **what):
        await change()
        return await prepare(conn, **what)

    async def changed_once_read(conn, **what):
        read = await latest(conn, **what)
        await change()
        return read

    if late == "before the lock":
        monkeypatch.setattr(publish, "prepare", changed_before_the_lock)
    elif late == "while it is made":
        monkeypatch.setattr(reviews, "latest", changed_once_read)
    else:
        await change()
    assert await together(world, found) == [None, None]

    assert await by_generation(world) == {2: [2]}
    job = await world.job(found[0].name)
    assert [(row.state, row.reason) for row in await world.candidates(job)] == [outcome]
    assert (job.state, job.published_generation) == (state, None)
    if state == "awaiting_review":
        await decide(world, job, {"ada": "accept"}, generation=3)
        await world.work()
        assert (await world.job(job.name)).published_generation == 3


async def test_a_review_that_comes_after_the_check_waits_for_the_publication(accepted, monkeypatch):
    world, found = accepted
    record = publications.record
    late = []

    async def rejected_meanwhile(conn, **what):
        if not late:
            late.append(asyncio.create_task(decide(world, found[0], {"ada": "reject"}, generation=2)))
            await asyncio.sleep(0.2)
            assert not late[0].done()
        await record(conn, **what)

    monkeypatch.setattr(publications, "record", rejected_meanwhile)
    assert await together(world, found) == [None, None]
    await late[0]

    assert await by_generation(world) == {2: [1, 2]}
    assert (await world.job(found[0].name)).state == "published"


async def test_a_further_acceptance_while_publishing_changes_nothing(accepted):
    world, found = accepted
    await decide(world, found[0], {"ada": "accept", "bob": "accept"}, generation=2)

    assert await together(world, found) == [None, None]

    assert await by_generation(world) == {2: [1, 2]}


async def test_a_line_that_is_paused_lets_go_of_all_of_them(world):
    found = await ready(world, {"key": "k", "content": 1}, {"key": "l", "content": 1})
    await world.apply_baseline(generation=3, suspend=True, **FROM_MAP, **AUTOMATIC)

    assert await together(world, found) == [None, None]

    assert [(job.state, job.holder) for job in await world.jobs()] == [("publishing", None)] * 2
    await world.apply_baseline(generation=4, **FROM_MAP, **AUTOMATIC)
    await world.work()
    assert {job.state for job in await world.jobs()} == {"published"}


async def test_a_group_has_so_many_changes_at_most_and_a_large_job_goes_alone(world, monkeypatch):
    monkeypatch.setattr(planning, "GROUP_CHANGES", 3)
    many = [{"key": f"many-{number}", "content": number} for number in range(5)]
    found = await ready(world, many, *({"key": f"k-{number}", "content": number} for number in range(4)))

    assert await together(world, found) == [None, *["not yet"] * 4]
    assert await together(world, found[1:]) == [None, None, None, "not yet"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_process_killed_at_any_use_of_the_database_publishes_each_job_of_a_group_once(db, before):
    world = World(db)
    steps = 0
    while True:
        name = f"facts-{steps}"
        line = (await world.import_documents({"a": "first"}, name=name, **AUTOMATIC)).line.line
        branches = []
        for number in range(3):
            branch = await world.apply_branch(f"run-{steps}-{number}", baseline=name)
            await world.submit(branch, 1, {"key": f"k-{number}", "content": number})
            branches.append(branch)
        await schedule.make_jobs(world.db)
        found = await held(world, branches)
        dying = replace(
            world.services,
            db=DyingDatabase(db, at=steps + 1, before=before, error=KilledProcessError),
            gathering=Gathering(),
        )

        killed = False
        try:
            await publishing.publish_together(dying, found, {})
        except KilledProcessError:
            killed = True
        async with db.connection() as conn:
            published = await conn.fetchval("SELECT count(*) FROM publications WHERE line = $1", line)
        assert published in {0, 3}  # together or not at all
        await let_leases_run_out(world)
        await asyncio.gather(world.work(), world.work(services=world.another_operator()))
        for job in found:  # the dead one was only paused, and comes back
            with contextlib.suppress(leases.FencedError):
                await work.advance(world.another_operator(), job)

        mine = [job for job in await world.jobs() if job.line == line]
        assert {job.state for job in mine} == {"published"}
        assert sorted(key for _, key, _ in await world.events(line)) == ["k-0", "k-1", "k-2"]
        assert sorted(await world.contents(line)) == ["a", "k-0", "k-1", "k-2"]
        await world.check_roots(line)
        if not killed:
            break
        steps += 1
    assert steps >= 4


async def test_two_operators_that_publish_groups_of_the_same_jobs_publish_each_once(world):
    found = await ready(world, *({"key": f"k-{number}", "content": number} for number in range(8)))
    other = world.another_operator()
    await let_leases_run_out(world)
    async with world.db.connection() as conn:
        theirs = {job.job_id: job for job in (await leases.claim(conn, holder="another", limit=4)).jobs}
    mine = [job for job in found if job.job_id not in theirs]

    outcomes = await asyncio.gather(
        publish_all(world, found),  # which does not know yet that half of them are gone
        publish_all(world, list(theirs.values()), services=other),
    )

    lost = [outcome for outcome in outcomes[0] if outcome is not None]
    assert [type(outcome) for outcome in lost] == [leases.FencedError] * 4
    assert outcomes[1] == [None] * 4
    assert len(mine) == 4
    assert sorted(key for _, key, _ in await world.events(world.line)) == [f"k-{number}" for number in range(8)]
    assert sorted(number for numbers in (await by_generation(world)).values() for number in numbers) == list(
        range(1, 9)
    )
    await world.check_roots(world.line)
