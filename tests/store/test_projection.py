"""Which statuses lag behind, and what they show."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.store import building
from tests.store.branching import (
    NAMESPACE,
    candidate,
    claimed,
    digest,
    new_branch,
    new_job,
    open_automatic,
    receive,
    receive_all,
    register,
)

from anabranch.model.ids import new_line_id
from anabranch.store import branches, candidates, jobs, leases, projection, reviews, waiting


async def dirty(db, **values) -> list[projection.Dirty]:
    async with db.connection() as conn:
        return await projection.dirty(conn, limit=10, **values)


async def mark(db, rows) -> None:
    async with db.connection() as conn:
        await projection.mark(conn, rows)


async def born(db) -> jobs.JobRow:
    job = await new_job(db)
    async with db.connection() as conn:
        await jobs.set_uid(conn, line=job.line, job_id=job.job_id, uid="uid-of-job", observed_generation=1)
        return await jobs.get(conn, job.job_id)


async def test_all_kinds_lag_until_they_are_marked(db):
    job = await born(db)
    async with db.connection() as conn:
        await waiting.upsert(
            conn,
            namespace="agents",
            kind="Branch",
            name="later",
            uid="uid-later",
            observed_generation=1,
            condition="Reconciling",
            reason="BaselineUnavailable",
            message="",
            needs_namespace=NAMESPACE,
            needs_name="other",
            due_in=None,
        )
    found = await dirty(db)
    assert [(row.kind, row.name, row.id) for row in found] == [
        ("Baseline", "facts-run-1", job.line),
        ("Branch", "run-1", job.branch_id),
        ("ConsolidationJob", job.name, job.job_id),
        ("Branch", "later", None),
    ]
    assert (found[2].uid, found[2].version) == ("uid-of-job", job.version)
    await mark(db, found)
    assert await dirty(db) == []


async def test_a_change_between_the_read_and_the_mark_is_found_again(db):
    job = await born(db)
    found = await dirty(db)
    async with db.connection() as conn:
        held = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        await waiting.upsert(
            conn,
            namespace="n",
            kind="Branch",
            name="b",
            uid="u",
            observed_generation=1,
            condition="Stalled",
            reason="R",
            message="",
            needs_namespace="n",
            needs_name="b",
            due_in=timedelta(0),
        )
        await branches.set_phase(conn, line=job.line, branch_id=job.branch_id, phase="Stale")
        await leases.advance(conn, job=held, to_state="awaiting_review")
    await mark(db, found)
    assert [row.kind for row in await dirty(db)] == ["Baseline", "Branch", "ConsolidationJob", "Branch"]


async def test_an_older_mark_does_not_undo_a_newer_one(db):
    job = await born(db)
    older = await dirty(db)
    async with db.connection() as conn:
        await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
    newer = await dirty(db)
    await mark(db, newer)
    await mark(db, older)
    assert await dirty(db) == []


async def test_a_mark_does_not_wait_for_a_row_that_is_being_changed(db):
    job = await born(db)
    found = await dirty(db)
    async with db.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
        await asyncio.wait_for(mark(db, found), timeout=30)
        await transaction.commit()
    assert [row.kind for row in await dirty(db)] == ["ConsolidationJob"]


async def test_what_is_not_wanted_now_does_not_crowd_out_others(db):
    job = await born(db)
    unwanted = [row for row in await dirty(db) if row.kind != "Branch"]
    assert [row.kind for row in await dirty(db, exclude=unwanted)] == ["Branch"]
    async with db.connection() as conn:
        await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder="worker")
    kinds = [row.kind for row in await dirty(db, exclude=unwanted)]
    assert kinds == ["Branch", "ConsolidationJob"], "the job has changed again"


async def test_what_has_no_resource_has_no_status(db):
    job = await new_job(db)
    assert [row.kind for row in await dirty(db)] == ["Baseline", "Branch"], "its resource is not made yet"
    async with db.connection() as conn:
        await jobs.set_uid(conn, line=job.line, job_id=job.job_id, uid="u", observed_generation=1)
        await jobs.mark_deleted(conn, line=job.line, job_id=job.job_id)
        await branches.mark_deleted(conn, line=job.line, branch_id=job.branch_id)
    assert [row.kind for row in await dirty(db)] == ["Baseline"]


async def test_a_baselines_state_before_its_first_manifest(db):
    line = await building.new_line(db)
    async with db.connection() as conn:
        (state,) = await projection.baseline_status(conn, lines=[line, new_line_id()])
    assert (state.line.line, state.head.line) == (line, line)
    assert (state.current, state.previous, state.newest, state.history) == (None, None, None, ())
    assert (state.pending_batches, state.open_conflicts, state.oldest_conflict_at) == (0, 0, None)


async def test_a_baselines_state_tells_manifests_batches_and_conflicts(db):
    branch = await new_branch(db)
    for n in range(6):
        await building.publish_versions(db, branch.line, building.version(f"k{n}", {"n": n}))
    await building.move(db, branch.line, to=3, kind="rollback", pinned=3)
    await receive_all(db, branch, 1, 2, 4)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
        await register(conn, branch, 9, 10)
        await candidates.insert(
            conn,
            [
                candidate(job, 0, state="waiting", conflicting=True),
                candidate(job, 1, state="waiting"),
                candidate(job, 2, state="rejected", conflicting=True),
            ],
        )
        (state,) = await projection.baseline_status(conn, lines=[branch.line])
    assert state.current is not None
    assert (state.current.generation, state.previous.generation, state.newest.generation) == (3, 7, 7)
    assert [manifest.generation for manifest in state.history] == [7, 6, 5, 4, 3]
    assert state.history[4] == state.current
    assert state.current.records == 3
    assert state.pending_batches == 3, "two in a job and a free one; what is only reserved does not exist"
    assert (state.open_conflicts, state.oldest_conflict_at) == (1, job.created_at)
    assert (state.head.pinned_generation, state.line.name) == (3, "facts-run-1")


async def test_a_branchs_state_tells_how_far_its_batches_are_in(db):
    branch, other = await new_branch(db), await new_branch(db, name="run-2")
    await receive_all(db, branch, 1, 2, 5)
    async with db.connection() as conn:
        states = await projection.branch_status(conn, branch_ids=[branch.branch_id, other.branch_id])
    found = {state.branch.branch_id: state for state in states}
    assert found[branch.branch_id].contiguous_through == 2
    assert found[branch.branch_id].branch == branch
    assert found[other.branch_id].contiguous_through == 0


async def test_a_jobs_state_tells_where_its_candidates_went(db):
    job = await claimed(db)
    async with db.connection() as conn:
        rows = [
            candidate(job, n, state=state, conflicting=n == 1)
            for n, state in enumerate(("accepted", "rejected", "published", "waiting", *["accepted"] * 30))
        ]
        await candidates.insert(conn, rows)
        await leases.advance(conn, job=job, to_state="published", published_generation=1)
        (state,) = await projection.job_status(conn, job_ids=[job.job_id])
        manifest = await conn.fetchval("SELECT baseline_id FROM manifests")
    ids = [row.candidate_id for row in rows]
    assert (state.branch_namespace, state.branch_name) == ("agents", "run-1")
    assert state.accepted == (ids[0], ids[2], *ids[4:22])
    assert (state.rejected, state.conflicts) == ((ids[1],), (ids[1],))
    assert state.published_baseline_id == manifest
    assert state.job.state == "published"


async def test_reviews_taken_over_from_a_newer_resource_show_in_its_status(db):
    job = await born(db)
    await mark(db, await dirty(db))
    seen = reviews.Decision(
        candidate_id="c", reviewer="ada", content_hash=digest("x"), base_revision=0, action="accept"
    )
    async with db.connection() as conn:
        await reviews.sync_resource(conn, line=job.line, job_id=job.job_id, observed_generation=2, decisions=[seen])
        found = await jobs.get(conn, job.job_id)
    assert found.observed_generation == 2
    assert [row.kind for row in await dirty(db)] == ["ConsolidationJob"]


async def test_a_receipt_changes_no_status_row(db):
    branch = await new_branch(db)
    await mark(db, await dirty(db))
    async with db.connection() as conn:
        await receive(conn, branch, 1)
    assert await dirty(db) == []
