"""What waits is counted as it is, by one statement, and told by no process that does not know it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import telling
from tests.store.branching import expire_leases, new_branch, new_job, open_automatic, receive_all
from tests.store.world import AUTOMATIC, World

from anabranch.controllers import backlog as controllers
from anabranch.controllers.backlog import Backlog
from anabranch.memory import delivery
from anabranch.model.errors import UnavailableError
from anabranch.model.memory import AgentKey
from anabranch.store import backlog, leases, migrate
from anabranch.telemetry.of_operator import OPERATOR_SHOWN


async def look(db):
    async with db.connection() as conn:
        return await backlog.look(conn)


def told(name, **labels):
    return OPERATOR_SHOWN.registry.get_sample_value(f"anabranch_{name}", labels)


async def test_of_an_empty_database_every_number_is_there_and_nothing_waits(db):
    found = await look(db)
    assert set(found["due"]) == set(found["due_age"]) == {"jobs", "visits", "waiting", "retention", "notices"}
    assert set(found["lagging"]) == {"Baseline", "Branch", "ConsolidationJob"}
    assert found["schema"] == {migrate.head(): 1}
    assert not any(value for what, kinds in found.items() if what != "schema" for value in kinds.values())


async def test_jobs_that_are_due_are_counted_until_they_are_taken_and_again_when_the_lease_runs_out(db):
    first = await new_job(db)
    await new_job(db, name="other")
    async with db.connection() as conn:
        await conn.execute("UPDATE jobs SET due_at = now() - interval '90 s' WHERE job_id = $1", first.job_id)
    found = await look(db)
    assert found["due"]["jobs"] == 2
    assert found["due_age"]["jobs"] == pytest.approx(90, abs=5)
    assert found["jobs"] == {"received": 2}
    reclaims, claims = told("job_lease_reclaims_total"), told("job_claims_total")
    async with db.connection() as conn:
        await leases.claim(conn, holder="worker", limit=10)
    assert (await look(db))["due"]["jobs"] == 0
    assert told("job_lease_reclaims_total") == reclaims
    await expire_leases(db)
    assert (await look(db))["due"]["jobs"] == 2
    async with db.connection() as conn:
        assert len((await leases.claim(conn, holder="another", limit=10)).jobs) == 2
    assert told("job_lease_reclaims_total") == reclaims + 2
    assert told("job_claims_total") == claims + 4


async def test_a_paused_lines_jobs_are_not_due_but_open(db):
    job = await new_job(db)
    async with db.connection() as conn:
        await conn.execute("UPDATE line_heads SET suspended = true WHERE line = $1", job.line)
    found = await look(db)
    assert (found["due"]["jobs"], found["jobs"]) == (0, {"received": 1})


async def test_batches_are_pending_from_their_receipt_until_their_job_is_done(db):
    branch = await new_branch(db)
    await receive_all(db, branch, 1, 2)
    found = await look(db)
    assert (found["unassigned"], found["pending"]) == ({"": 2}, {"": 2})
    async with db.connection() as conn:
        await open_automatic(conn, branch)
    found = await look(db)
    assert (found["unassigned"], found["pending"]) == ({"": 0}, {"": 2})
    async with db.connection() as conn:
        await conn.execute("UPDATE jobs SET finished_at = now(), due_at = NULL")
    assert (await look(db))["pending"] == {"": 0}


async def test_a_publication_is_measured_and_a_conflict_is_told_until_it_is_settled(db):
    world = World(db)
    await world.import_documents({"a": "one"}, **AUTOMATIC)
    build, docs = await world.apply_branch("build"), await world.apply_branch("docs")
    names = (
        "publication_duration_seconds",
        "publication_lock_seconds",
        "publication_jobs",
        "batch_publication_seconds",
    )
    before = {name: told(f"{name}_count") for name in names}
    await world.submit(build, 1, {"key": "a", "content": "two", "base": 1})
    await world.work()
    assert {name: told(f"{name}_count") for name in names} == {name: count + 1 for name, count in before.items()}
    assert 0 < told("publication_lock_seconds_sum") < told("publication_duration_seconds_sum")
    assert (await look(db))["conflicts"] == {"": 0}
    await world.submit(docs, 1, {"key": "a", "content": "three", "base": 1})
    await world.work()
    async with db.connection() as conn:
        await conn.execute("UPDATE jobs SET created_at = now() - interval '1 h' WHERE state = 'awaiting_review'")
    found = await look(db)
    assert (found["conflicts"], found["candidates"]) == ({"": 1}, {"": 1})
    assert found["conflict_age"][""] == pytest.approx(3600, abs=60)
    assert found["jobs_age"]["awaiting_review"] == found["conflict_age"][""]


async def test_statuses_that_lag_are_counted_by_kind(db):
    await new_job(db)
    found = await look(db)
    assert found["lagging"] == {"Baseline": 1, "Branch": 1, "ConsolidationJob": 0}, "the job has no resource yet"


async def test_the_leader_tells_what_it_has_read_and_nothing_once_it_cannot_or_stops(db, monkeypatch):
    await new_job(db)
    monkeypatch.setattr(controllers, "PAUSE_SECONDS", 0.01)
    reading = asyncio.create_task(Backlog(db).run())
    try:
        await until(lambda: told("queue_due", queue="jobs") == 1)
        assert told("schema_info", schema=migrate.head()) == 1
        with monkeypatch.context() as away:
            away.setattr(backlog, "look", _is_away)
            await until(lambda: told("queue_due", queue="jobs") is None)
        await until(lambda: told("queue_due", queue="jobs") == 1)
    finally:
        reading.cancel()
    await asyncio.wait({reading})
    assert told("queue_due", queue="jobs") is None


async def _is_away(_conn):
    raise UnavailableError("It is away.", hint="Wait.")


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  (nothing tells when)
            await asyncio.sleep(0.01)


async def test_notices_are_due_until_they_are_told_and_events_open_until_they_are_acknowledged(db):
    world = World(db)
    await world.import_documents({"a": "first"}, **AUTOMATIC)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": "found"})
    await world.work()
    async with db.connection() as conn:
        await conn.execute(
            "UPDATE agent_outbox SET created_at = now() - interval '90 s', due_at = now() + interval '1 h'"
        )
    found = await look(db)
    assert (found["due"]["notices"], found["agent_events"]) == (1, {"pending": 0, "claimed": 0})
    assert found["due_age"]["notices"] == pytest.approx(90, abs=5)  # it was taken up in vain, and is still to be told
    await telling.let_holds_run_out(db)
    await telling.drain(db)
    who = AgentKey(namespace=branch.namespace, agent_id=branch.agent_id, instance=branch.agent_instance)
    found = await look(db)
    assert (found["due"]["notices"], found["agent_events"]) == (0, {"pending": 1, "claimed": 0})
    (event,) = await delivery.claim(db, who, limit=10, visibility=timedelta(minutes=10))
    assert (await look(db))["agent_events"] == {"pending": 0, "claimed": 1}
    await delivery.ack(db, who, event_id=event.id, claim_id=event.claimid)
    assert (await look(db))["agent_events"] == {"pending": 0, "claimed": 0}
