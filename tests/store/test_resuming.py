"""What a new process finds and need not reconcile: what Postgres has as it is, asked of many at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World

from anabranch.controllers.resuming import Resuming
from anabranch.store import branches, drift, waiting


@pytest.fixture
async def world(db):
    world = World(db)
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    return world


def seen(branch, *, generation=1, **changes):
    """A Branch as the API server has it."""
    metadata = {"namespace": branch.namespace, "name": branch.name, "uid": branch.uid, "generation": generation}
    status = {"observedGeneration": generation, "branchId": branch.branch_id}
    return {"metadata": metadata | changes.pop("metadata", {}), "spec": {}, "status": status | changes}


async def test_thousands_that_are_as_they_were_left_cost_one_question(world, monkeypatch):
    asked = []
    unchanged = drift.unchanged

    async def counted(conn, **about):
        asked.append(len(about["sightings"]))
        return await unchanged(conn, **about)

    monkeypatch.setattr(drift, "unchanged", counted)
    runs = [await world.apply_branch(f"run-{number}") for number in range(20)]
    resuming = Resuming(world.db)
    assert all(await asyncio.gather(*(resuming.is_settled("Branch", seen(run)) for run in runs)))
    assert asked == [20]


async def test_a_branch_that_postgres_has_otherwise_is_reconciled(world):
    run = await world.apply_branch("run")
    other = await world.apply_branch("other")
    resuming = Resuming(world.db)
    assert await resuming.is_settled("Branch", seen(run))
    assert not await resuming.is_settled("Branch", seen(run, generation=2))
    assert not await resuming.is_settled("Branch", seen(run, metadata={"uid": "another"}))
    assert not await resuming.is_settled("Branch", seen(run, branchId=other.branch_id))
    assert not await resuming.is_settled("Branch", seen(run, branchId="nonsense"))
    assert not await resuming.is_settled("Branch", seen(run, branchId=None))
    assert not await resuming.is_settled("Branch", seen(run, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))


async def test_a_branch_that_was_taken_for_deleted_or_waits_is_reconciled(world):
    gone, waits = await world.apply_branch("gone"), await world.apply_branch("waits")
    async with world.db.connection() as conn:
        await branches.mark_deleted(conn, line=gone.line, branch_id=gone.branch_id)
        await waiting.upsert(
            conn,
            namespace=AGENTS,
            kind="Branch",
            name="waits",
            uid=waits.uid,
            observed_generation=1,
            condition="Stalled",
            reason="InvalidSpec",
            message="Not understood.",
            needs_namespace=AGENTS,
            needs_name="waits",
            due_in=None,
        )
    resuming = Resuming(world.db)
    assert not await resuming.is_settled("Branch", seen(gone))
    assert not await resuming.is_settled("Branch", seen(waits))


async def test_a_job_is_passed_over_unless_reviews_depend_on_the_guard_and_a_baseline_never(world):
    await world.apply_branch("run")
    origin = {"branchRef": {"namespace": AGENTS, "name": "run"}, "batches": {"from": 1, "through": 1}}
    job = await world.apply_job("job", **origin)
    body = {
        "metadata": {"namespace": TEAM, "name": "job", "uid": job.uid, "generation": 1},
        "spec": origin,
        "status": {"observedGeneration": 1, "jobId": job.job_id},
    }
    resuming = Resuming(world.db)
    assert await resuming.is_settled("ConsolidationJob", body)
    reviewed = {**body, "spec": {**origin, "reviews": [{"reviewer": "ann", "decisions": []}]}}
    assert not await resuming.is_settled("ConsolidationJob", reviewed)
    assert not await resuming.is_settled("Baseline", {"metadata": body["metadata"], "status": {"lineId": job.line}})
