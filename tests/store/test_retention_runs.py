"""What a run brought goes some time after its end, once all that it found is decided; what it published stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.branching import (
    expire_leases,
    fill_namespace,
    fork,
    line_with_records,
    open_automatic,
    receive,
    receive_all,
    register,
)
from tests.store.retaining import LONG, NOW, retain
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World, decisions

from anabranch.branches import read as branch_reads
from anabranch.consolidation import read as job_reads
from anabranch.consolidation import receipt, showing
from anabranch.identity import Caller
from anabranch.model.errors import ReclaimedError
from anabranch.store import (
    batches,
    branches,
    candidates,
    checkpoints,
    completions,
    evidence,
    followers,
    jobs,
    leases,
    presence,
    private,
    reclaiming,
    reviews,
)

DAY = timedelta(days=1)
KEEPING_GENERATIONS = {"age": LONG, "generations": 100, "events": LONG}


@pytest.fixture
async def world(db):
    return World(db)


async def retain_runs(world, line, **promised):
    await retain(world.db, line, **{**KEEPING_GENERATIONS, **promised})


async def a_run(world, name="run", *, line_name="facts"):
    """A run with something in every table, that has published, and is complete; its line, branch and jobs."""
    line = (await world.import_documents({"a": "first", "b": "first"}, name=line_name, **AUTOMATIC)).line.line
    branch = await world.apply_branch(name, baseline=line_name)
    await world.submit(branch, 1, {"key": "c", "content": "found"})
    await world.work()
    await say_signs_of_life(world, branch)
    await building.publish_versions(world.db, line, building.version("b", "meanwhile"))
    await world.submit(branch, 2, {"key": "b", "content": "against it", "base": 1}, {"key": "d", "content": "found"})
    await world.work()
    await fill_namespace(world.db, branch)
    async with world.db.connection() as conn:
        await private.put(
            conn, line=line, branch_id=branch.branch_id, key="own", scope="shared", visibility="private",
            content_hash=building.digest(1), body=b"1", base_revision=0, expected=None,
        )  # fmt: skip
        completion = await completions.submit(
            conn, line=line, branch_id=branch.branch_id, run_id=branch.run_id, content_hash=b"c" * 32, body=b"{}",
            last_submitted_sequence=2,
        )  # fmt: skip
        assert completion.closed_at
    return line, branch


async def say_signs_of_life(world, branch):
    """What an agent says of a run that goes on, and what it was based on before."""
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with world.db.connection() as conn:
        assert await presence.renew(conn, leaving=False, task=None, observed=None, **where)
        assert await followers.save(conn, epoch=1, sequence=1, cursor="c", **where)
        await checkpoints.add(conn, checkpoint_id="one", session_id="s", content_hash=b"c" * 32, body=b"{}", **where)
        await conn.execute("INSERT INTO rebases VALUES ($1, $2, 1, 1, 'bl', 'root', 2, 0)", *where.values())


async def decide(world, line):
    """Reject whatever waits for a review."""
    for job in await world.jobs():
        if job.line == line and job.state == "awaiting_review":
            async with world.db.connection() as conn:
                await reviews.append(
                    conn,
                    line=line,
                    job_id=job.job_id,
                    decisions=[
                        reviews.Decision(
                            candidate_id=row.candidate_id,
                            reviewer="ada",
                            content_hash=row.content_hash,
                            base_revision=row.canonical_revision or 0,
                            action="reject",
                        )
                        for row in await world.candidates(job)
                    ],
                )
                await jobs.wake(conn, line=line, job_id=job.job_id)
    await world.work()


async def left(world, line):
    """Rows of a line by table, those that are there."""
    tables = (
        "branches", "batches", "evidence", "private_records", "completions", "jobs", "candidates", "reviews",
        "transitions", "publications", "presence", "followers", "checkpoints", "rebases",
        "kv_namespaces", "kv_records", "kv_checkpoints",
    )  # fmt: skip
    async with world.db.connection() as conn:
        found = {table: await conn.fetchval(f"SELECT count(*) FROM {table} WHERE line = $1", line) for table in tables}
    return {table: count for table, count in found.items() if count}


async def delete_resources(world, line):
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET deleted_at = coalesce(deleted_at, now()) WHERE line = $1", line)
        await conn.execute("UPDATE jobs SET deleted_at = coalesce(deleted_at, now()) WHERE line = $1", line)


async def test_of_a_run_that_is_over_the_row_stays_while_its_resource_does_and_then_nothing(world):
    line, branch = await a_run(world)
    await decide(world, line)
    contents = await world.contents(line)
    async with world.db.connection() as conn:  # the resources of its jobs are there
        await conn.execute("UPDATE jobs SET uid = 'uid-of-' || name WHERE line = $1", line)

    await retain_runs(world, line)
    # The publications go with their manifests, or with their jobs.
    assert await left(world, line) == {"branches": 1, "jobs": 3, "publications": 2}
    assert await world.contents(line) == contents
    # The Branch that is still there is not forked again.
    assert (await world.apply_branch("run")).branch_id == branch.branch_id
    assert len(await world.jobs()) == 3

    await delete_resources(world, line)
    await retain_runs(world, line)
    assert await left(world, line) == {}
    assert await world.contents(line) == contents


async def test_a_run_is_kept_for_its_time_after_its_end(world):
    line, _ = await a_run(world)
    await decide(world, line)
    before = await left(world, line)
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=29 * DAY)
    await retain_runs(world, line, completed_runs=30 * DAY)
    assert await left(world, line) == before
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=2 * DAY)
    await retain_runs(world, line, completed_runs=30 * DAY)
    assert "batches" not in await left(world, line)


async def test_a_run_whose_finding_waits_for_a_review_is_not_over(world):
    line, _ = await a_run(world)
    before = await left(world, line)
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=400 * DAY)
    await retain_runs(world, line)
    assert await left(world, line) == before

    await decide(world, line)
    # Its time begins when the last of its findings is decided.
    await retain_runs(world, line, completed_runs=30 * DAY)
    assert (await left(world, line))["batches"] == 2
    await retain_runs(world, line)
    assert "batches" not in await left(world, line)


@pytest.mark.parametrize("phase", ["Active", "Stale"])
async def test_a_live_run_keeps_everything_however_old_it_is(world, phase):
    line, _ = await a_run(world)
    await decide(world, line)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = $1, finished_at = NULL", phase)
        await retaining.set_back(conn, line, by=400 * DAY)
    before = await left(world, line)
    await retain_runs(world, line)
    assert await left(world, line) == before


async def test_a_run_that_was_reclaimed_is_gone_for_its_agent_and_its_reviewers(world):
    line, branch = await a_run(world)
    await decide(world, line)
    (published, *_) = [job for job in await world.jobs() if job.published_generation]
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET uid = name WHERE line = $1", line)
    await retain_runs(world, line, transitions=LONG)

    async with world.db.connection() as conn:
        again = await branches.get(conn, branch.branch_id)
        job = await jobs.get(conn, published.job_id)
    assert (again.kept, again.phase, job.kept, job.state) == ("row", "Completed", "log", "published")
    with pytest.raises(ReclaimedError, match="removed its candidates"):
        await showing.candidate_page(
            world.db, job, caller=Caller("ada"), branch_id=None, readable=None, after="", limit=10
        )
    assert await job_reads.transition_page(world.db, job, after=0, limit=100)
    # What is told of it is what was told before.
    (described,) = await job_reads.describe(world.db, [job])
    assert (described.counts, described.published_baseline_id is None) == (published.counts, False)
    async with world.db.connection() as conn:
        assert await branches.contiguous_through(conn, line=line, branch_id=branch.branch_id) == 2

    await retain_runs(world, line)
    async with world.db.connection() as conn:
        job = await jobs.get(conn, published.job_id)
    with pytest.raises(ReclaimedError, match="removed its log"):
        await job_reads.transition_page(world.db, job, after=0, limit=100)


async def test_a_job_keeps_its_log_for_the_time_of_transitions_and_never_less_than_its_run(world):
    line, _ = await a_run(world)
    await decide(world, line)
    await delete_resources(world, line)
    await retain_runs(world, line, transitions=90 * DAY)
    assert (await left(world, line)).keys() == {"branches", "jobs", "transitions", "publications"}
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=91 * DAY)
    await retain_runs(world, line, transitions=90 * DAY)
    assert await left(world, line) == {}


async def test_a_publication_is_told_of_after_its_manifest_is_pruned(world):
    line, branch = await a_run(world)
    await decide(world, line)
    (before,) = [await receipt.acknowledgement(world.db, branch=branch, sequence=1)]
    for number in range(3):
        await building.publish_versions(world.db, line, building.version("z", number))
    await retain(world.db, line, completed_runs=LONG, transitions=LONG)
    assert before.generation not in await retaining.generations(world.db, line)
    assert await receipt.acknowledgement(world.db, branch=branch, sequence=1) == before
    (job,) = [job for job in await world.jobs() if job.published_generation == before.generation]
    (described,) = await job_reads.describe(world.db, [job])
    assert described.published_baseline_id == before.published_baseline_id


async def test_the_parent_of_a_completed_run_may_go_before_the_run(world):
    line, branch = await a_run(world)
    for number in range(3):
        await building.publish_versions(world.db, line, building.version("z", number))
    await retain(world.db, line, completed_runs=LONG, transitions=LONG)
    assert branch.parent_generation not in await retaining.generations(world.db, line)
    described = await branch_reads.page(world.db, namespace=AGENTS, after="", limit=10)
    assert [row.parent_baseline_id for row in described] == [branch.parent_baseline_id]


async def test_a_batch_that_no_job_has_taken_up_yet_keeps_its_run(world):
    line = await line_with_records(world.db)
    async with world.db.connection() as conn:
        branch = await fork(conn, line)
    await receive_all(world.db, branch, 1, 2)
    async with world.db.connection() as conn:
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Denied")
        await retaining.set_back(conn, line, by=400 * DAY)
    await retain_runs(world, line)
    assert (await left(world, line))["batches"] == 2
    async with world.db.connection() as conn:  # it is taken up all the same, whatever became of the run
        assert await open_automatic(conn, branch) is not None


async def test_a_batch_behind_a_gap_that_nobody_can_fill_does_not_keep_its_run(world):
    line = await line_with_records(world.db)
    async with world.db.connection() as conn:
        branch = await fork(conn, line)
    await receive_all(world.db, branch, 1, 3)
    async with world.db.connection() as conn:
        job = await open_automatic(conn, branch)
        held = await leases.claim_one(conn, line=line, job_id=job.job_id, holder="w")
        await leases.advance(conn, job=held, to_state="published", reason="NothingToPublish")
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Expired")
        await conn.execute("UPDATE jobs SET deleted_at = now()")
        await conn.execute("UPDATE branches SET deleted_at = now()")
        await retaining.set_back(conn, line, by=DAY)
    await retain_runs(world, line)
    assert await left(world, line) == {}


async def test_a_job_that_is_held_by_a_dead_worker_keeps_its_run_and_a_failed_one_does_not(world):
    line = await line_with_records(world.db)
    async with world.db.connection() as conn:
        branch = await fork(conn, line)
    await receive_all(world.db, branch, 1)
    async with world.db.connection() as conn:
        job = await open_automatic(conn, branch)
        held = await leases.claim_one(conn, line=line, job_id=job.job_id, holder="w")
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Expired")
    await expire_leases(world.db)
    await retain_runs(world, line)
    assert (await left(world, line))["batches"] == 1

    async with world.db.connection() as conn:
        await leases.fail(conn, job=held, error="It cannot be.", retry_in=None)
        await conn.execute("UPDATE jobs SET uid = 'u'")
    await retain_runs(world, line)
    assert "batches" not in await left(world, line)
    # There is nothing left to try again with.
    async with world.db.connection() as conn:
        await jobs.save_spec(
            conn, line=line, job_id=job.job_id, observed_generation=2, lease_seconds=30, retry_limit=99
        )
        assert (await jobs.get(conn, job.job_id)).failed


async def test_a_range_that_a_person_reserved_keeps_its_run_until_the_job_is_deleted(world):
    line = await line_with_records(world.db)
    async with world.db.connection() as conn:
        branch = await fork(conn, line)
    await receive_all(world.db, branch, 1)
    async with world.db.connection() as conn:
        job = await register(conn, branch, 1, 5)
        await branches.set_phase(conn, line=line, branch_id=branch.branch_id, phase="Expired")
    await retain_runs(world, line)
    assert (await left(world, line))["batches"] == 1
    async with world.db.connection() as conn:
        await jobs.mark_deleted(conn, line=line, job_id=job.job_id)
    await retain_runs(world, line)
    assert (await left(world, line))["batches"] == 1  # now it can go into an automatic job


async def test_a_receipt_that_came_between_the_look_and_the_removal_keeps_its_run(world):
    line = await line_with_records(world.db)
    async with world.db.connection() as conn:
        branch = await fork(conn, line)
        await conn.execute("UPDATE branches SET deleted_at = now() - interval '1 hour'")
        before = await conn.fetchval("SELECT now()")
        assert await reclaiming.ended_runs(conn, line=line, before=before, limit=10) == [branch.branch_id]
        async with conn.transaction():  # as a receipt leaves it that began before the deletion
            await conn.execute("UPDATE branches SET deleted_at = NULL")
            await receive(conn, branch, 1)
            await conn.execute("UPDATE branches SET deleted_at = now() - interval '1 hour'")
    async with world.db.transaction() as conn:
        await reclaiming.leave(conn, line=line, branch_id=branch.branch_id, before=before)
        assert (await branches.get(conn, branch.branch_id)).kept == "whole"


async def test_a_branch_that_was_taken_for_deleted_too_long_has_ended(world):
    line, branch = await a_run(world)
    await decide(world, line)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = 'Active', finished_at = NULL, deleted_at = now()")
        await conn.execute("UPDATE jobs SET uid = name WHERE line = $1", line)
    await retain_runs(world, line)
    # Its parent is kept, its data is not.
    assert branch.parent_generation in await retaining.generations(world.db, line)
    again = await world.apply_branch("run")
    assert (again.branch_id, again.phase, again.kept) == (branch.branch_id, "Expired", "row")


async def test_a_large_run_goes_in_pieces(world, monkeypatch):
    monkeypatch.setattr(reclaiming, "_ROWS", 3)
    monkeypatch.setattr(reclaiming, "_BODIES", 2)
    line, branch = await a_run(world)
    for sequence in range(5):
        async with world.db.connection() as conn:
            await evidence.put(
                conn, line=line, branch_id=branch.branch_id, digest=bytes([sequence]) * 32, media_type="text/plain",
                body=b"1",
            )  # fmt: skip
    await decide(world, line)
    await delete_resources(world, line)
    async with world.db.transaction() as conn:
        await reclaiming.leave(
            conn, line=line, branch_id=branch.branch_id, before=await conn.fetchval("SELECT now() + interval '1 day'")
        )
    pieces = 0
    more = True
    while more:
        async with world.db.transaction() as conn:
            (run,) = await reclaiming.leaving(conn, line=line, limit=10)
            more = await reclaiming.empty_run(conn, line=line, run=run)
        pieces += 1
    assert pieces >= 3
    await retain_runs(world, line)
    assert await left(world, line) == {}


async def test_what_a_changed_source_said_is_remembered_without_its_candidates(world):
    """Three imports: what the second one proposed is what the third one is compared with, decided or removed."""
    line = (await world.import_documents({"a": "1", "b": "1", "c": "1"})).line.line
    spec = {"import": {"configMap": {"name": "facts"}}}
    world.config_maps_of("facts", {"a": "2", "b": "1", "d": "1"})
    await world.apply_baseline(generation=2, **spec)
    await world.work()
    await decide(world, line)  # all of it rejected
    await delete_resources(world, line)
    for number in range(3):
        await building.publish_versions(world.db, line, building.version("b", f"an agent's {number}"))
    await retain(world.db, line)
    async with world.db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM candidates") == 0
        assert await conn.fetchval("SELECT count(*) FROM jobs") == 0

    world.config_maps_of("facts", {"a": "2", "b": "1", "d": "2"})
    await world.apply_baseline(generation=3, **spec)
    await world.work()
    # `a` and `c` are as the source proposed before, and it has not touched `b`, whose first version is gone.
    assert {key: len(found) for key, found in (await world.outcomes()).items()} == {"d": 1}

    world.config_maps_of("facts", {"a": "2", "b": "3", "d": "2"})
    await world.apply_baseline(generation=4, **spec)
    await world.work()
    (job,) = [job for job in await world.jobs() if job.state == "awaiting_review" and "b" in await keys(world, job)]
    (row,) = await world.candidates(job)
    assert row.conflicting  # the source and an agent have both changed it
    assert (row.base_revision, row.op) == (1, "put")


async def keys(world, job):
    return [row.key for row in await world.candidates(job)]


async def test_a_later_word_of_the_source_is_not_overruled_by_an_earlier_one_that_is_removed_later(world):
    line = (await world.import_documents({"a": "1"})).line.line
    spec = {"import": {"configMap": {"name": "facts"}}}
    for generation, text in ((2, "2"), (3, "3")):
        world.config_maps_of("facts", {"a": text})
        await world.apply_baseline(generation=generation, **spec)
        await world.work()
    first, second = sorted(
        [job for job in await world.jobs() if job.state == "awaiting_review"], key=lambda job: job.created_at
    )
    for job in (second, first):
        async with world.db.connection() as conn:
            await conn.execute(
                "UPDATE jobs SET finished_at = now(), deleted_at = now(), state = 'published' WHERE job_id = $1",
                job.job_id,
            )
        await retain_runs(world, line)
    async with world.db.connection() as conn:
        (said,) = await candidates.import_changes(conn, line=line)
    assert said.content_hash == building.digest("3")


async def test_an_import_that_a_split_off_job_still_speaks_of_keeps_its_row(world):
    line = (await world.import_documents({"a": "1", "b": "1"})).line.line
    world.config_maps_of("facts", {"a": "2", "b": "2"})
    await world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}})
    await world.work()
    (job,) = [job for job in await world.jobs() if job.state == "awaiting_review"]
    rows = await world.candidates(job)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE candidates SET job_id = 'split-off' WHERE candidate_id = $1", rows[0].candidate_id)
        await conn.execute("UPDATE jobs SET finished_at = now(), deleted_at = now(), state = 'published'")
    await retain_runs(world, line)
    async with world.db.connection() as conn:
        assert await conn.fetchval("SELECT kept FROM jobs WHERE job_id = $1", job.job_id) == "row"
        # What was said of both is known: of one by its candidate, of the other by its note.
        assert [said.key for said in await candidates.import_changes(conn, line=line)] == ["a", "b"]
        await conn.execute("DELETE FROM candidates")
    await retain_runs(world, line)
    assert await left(world, line) == {}


async def test_batches_of_a_reclaimed_run_are_not_taken_for_new_ones(world):
    """An agent that sends an old batch again is told that the run is over; nothing is received twice."""
    line, branch = await a_run(world)
    await decide(world, line)
    await retain_runs(world, line)
    async with world.db.connection() as conn:
        found = await batches.page(conn, line=line, branch_id=branch.branch_id, limit=10)
        assert found == []
        with pytest.raises(ReclaimedError):
            await receive(conn, branch, 1)


async def test_reviews_on_resources_of_a_reclaimed_job_change_nothing(world):
    line, branch = await a_run(world)
    (held,) = [job for job in await world.jobs() if job.state == "awaiting_review"]
    rows = await world.candidates(held)
    await decide(world, line)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET uid = 'uid-of-' || name WHERE line = $1", line)
    await retain_runs(world, line, transitions=NOW)
    again = await world.apply_job(
        held.name,
        origin="Held",
        generation=9,
        branchRef={"namespace": AGENTS, "name": "run"},
        reviews=[{"reviewer": "ada", "decisions": decisions(rows)}],
    )
    await world.work()
    assert (again.job_id, again.state) == (held.job_id, "published")
    assert again.namespace == TEAM
    assert (await world.contents(line))["b"] == '"meanwhile"'
    assert branch.line == line
