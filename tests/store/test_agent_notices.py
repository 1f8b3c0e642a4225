"""Agents are told what became of their runs and findings: once each, by whatever is true by then."""

from __future__ import annotations

import pytest
from tests.store import telling
from tests.store.dying import DyingDatabase, KilledError
from tests.store.gating import complete
from tests.store.world import AGENTS, AUTOMATIC, TEAM, World, decisions

from anabranch.baselines import pinning
from anabranch.memory import outbox
from anabranch.model.crd import Pin, Restore
from anabranch.store import jobs


@pytest.fixture
async def world(db):
    world = World(db)
    state = await world.import_documents({"old": "old", "contested": "first", "known": "known"}, **AUTOMATIC)
    world.line = state.line.line
    return world


async def told(world):
    await telling.drain(world.db)
    assert await telling.left(world.db) == 0
    return await telling.kinds(world.db)


async def data(world, kind):
    (found,) = [data for _, told, data in await telling.events(world.db) if told == kind]
    return found


async def contest(world, branch="run"):
    """A run whose finding contradicts what another has published meanwhile; besides, one that goes through."""
    rival = await world.apply_branch("rival")
    mine = await world.apply_branch(branch)
    await world.submit(rival, 1, {"key": "contested", "content": "theirs", "base": 1})
    await world.work()
    await world.submit(
        mine,
        1,
        {"key": "contested", "content": "mine", "base": 1},
        {"key": "new", "content": "found"},
        {"key": "secret", "content": "mine alone", "visibility": "private"},
        {"key": "bare", "content": "heard", "sources": []},
    )
    await world.work()
    return mine


# ------------------------------------------------------------------------------------------------------ what is told


async def test_each_outcome_of_a_job_is_told_once_to_the_agent_of_its_branch(world):
    branch = await contest(world)

    assert await told(world) == [
        ("rival", "finding.published"),
        ("run", "finding.conflict"),
        ("run", "finding.published"),
        ("run", "finding.rejected"),
    ]
    conflict = await data(world, "finding.conflict")
    assert conflict["branch"] == {
        "namespace": AGENTS, "name": "run", "branchId": branch.branch_id, "runId": branch.run_id
    }  # fmt: skip
    assert conflict["baseline"] == {"namespace": TEAM, "name": "facts"}
    assert [(f["key"], f["reason"]) for f in conflict["findings"]] == [("contested", "BaseRevisionSuperseded")]
    rejected = await data(world, "finding.rejected")
    assert sorted((f["key"], f["reason"]) for f in rejected["findings"]) == [
        ("bare", "Unsupported"),
        ("secret", "ExportNotPermitted"),
    ]
    assert rejected["count"] == 2


async def test_a_publication_is_told_with_its_generation_and_the_first_keys_and_without_contents(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, *({"key": f"k{n:02}", "content": f"secret {n}"} for n in range(25)))
    await world.work()

    assert await told(world) == [("run", "finding.published")]
    published = await data(world, "finding.published")
    assert (published["generation"], published["count"]) == (2, 25)
    assert len(published["findings"]) == 20
    async with world.db.connection() as conn:
        row = await conn.fetchrow("SELECT * FROM agent_exchanges")
    assert row["takeaway"].startswith("Run run: 25 findings published in generation 2 of platform/facts: k00, k01")
    assert row["surface_pod_id"] == branch.branch_id
    assert "secret" not in str(published) + row["takeaway"]


async def test_a_held_jobs_outcome_is_told_to_the_branch_that_it_came_from(world):
    await contest(world)
    await told(world)
    (held,) = [job for job in await world.jobs() if job.origin == "Held"]
    (row,) = await world.candidates(held)
    await world.apply_job(
        held.name,
        origin="Held",
        branchRef={"namespace": AGENTS, "name": "run"},
        reviews=[{"reviewer": "ada", "decisions": decisions([row], "reject")}],
    )
    await world.work()

    again = await told(world)

    assert again.count(("run", "finding.rejected")) == 2
    assert again.count(("run", "finding.conflict")) == 1


async def test_a_conflict_is_told_once_however_often_its_job_is_looked_at(world):
    await contest(world)
    (held,) = [job for job in await world.jobs() if job.origin == "Held"]
    for _ in range(3):
        async with world.db.connection() as conn:
            await jobs.wake(conn, line=held.line, job_id=held.job_id)
        await world.work()

    assert (await told(world)).count(("run", "finding.conflict")) == 1


async def test_a_finding_that_comes_into_conflict_while_it_waits_is_told_then(db):
    world = World(db)
    await world.import_documents({"a": "first"})  # whatever comes is reviewed
    one, two = await world.apply_branch("one"), await world.apply_branch("two")
    await world.submit(one, 1, {"key": "a", "content": "ones", "base": 1})
    await world.submit(two, 1, {"key": "a", "content": "twos", "base": 1})
    await world.work()
    assert await told(world) == []
    job = next(job for job in await world.jobs() if job.branch_id == one.branch_id)
    await world.apply_job(
        job.name,
        branchRef={"namespace": AGENTS, "name": "one"},
        batches={"from": 1, "through": 1},
        reviews=[{"reviewer": "ada", "decisions": decisions(await world.candidates(job))}],
    )
    await world.work()

    assert await told(world) == [("one", "finding.published"), ("two", "finding.conflict")]


async def test_what_says_nothing_new_is_not_told(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "known", "content": "known", "base": 1, "sources": []})
    await world.work()

    assert await told(world) == []


async def test_an_import_is_told_to_nobody(world):
    await world.apply_branch("run")
    world.config_maps_of("facts", {"old": "newer", "contested": "first", "known": "known"})
    await world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}}, **AUTOMATIC)
    await world.work()

    assert await told(world) == []


async def test_the_end_of_a_run_is_told_once_whichever_batch_or_completion_comes_last(world, api_db):
    api = World(api_db)  # it is the API that closes a run
    first, last = await world.apply_branch("first"), await world.apply_branch("last")
    await world.submit(first, 1, {"key": "x", "content": 1})
    await complete(api, first, 1)
    await complete(api, first, 1)
    await complete(api, last, 1)
    assert await told(world) == [("first", "run.completed")]
    for _ in range(2):
        await api.submit(last, 1, {"key": "y", "content": 1})

    assert await told(world) == [("first", "run.completed"), ("last", "run.completed")]
    assert (await data_of(world, "last", "run.completed"))["batches"] == 1


async def data_of(world, agent, kind):
    (found,) = [data for who, told, data in await telling.events(world.db) if (who, told) == (agent, kind)]
    return found


# -------------------------------------------------------------------------------------------------- back and forth


async def grow(world):
    """Generation 2, made by a run that is over then."""
    branch = await world.apply_branch("begin")
    await world.submit(branch, 1, {"key": "a", "content": "second"})
    await complete(world, branch, 1)
    await world.work()
    await telling.drain(world.db)
    async with world.db.connection() as conn:
        await conn.execute("DELETE FROM agent_events")
        await conn.execute("DELETE FROM agent_exchanges")


async def test_a_rollback_is_told_to_the_agents_of_runs_that_are_going_on_and_its_end_is_not(world):
    await grow(world)
    await world.apply_branch("run", account="ada")
    await world.apply_branch("another", account="ada")
    await world.apply_branch("third", account="bob")
    pin = Pin(generation=1)
    for _ in range(2):
        await pinning.follow_pin(world.db, line=world.line, pin=pin)
    late = await world.apply_branch("late", account="eve")
    assert late.parent_generation == 1

    assert await told(world) == [("ada", "baseline.rollback"), ("bob", "baseline.rollback")]
    await pinning.follow_pin(world.db, line=world.line, pin=None)
    assert len(await told(world)) == 2
    (one, _, said), (other, _, same) = await telling.events(world.db)
    assert {one, other} == {"ada", "bob"}
    assert said == same == {
        "baseline": {"namespace": TEAM, "name": "facts"},
        "cause": "pin",
        "generation": 1,
        "baselineId": late.parent_baseline_id,
    }  # fmt: skip


async def test_a_restore_is_told_once_for_its_id(world):
    await grow(world)
    await world.apply_branch("run", account="ada")
    for _ in range(2):
        await pinning.follow_restore(world.db, line=world.line, restore=Restore(generation=1, id="back"))

    assert await told(world) == [("ada", "baseline.rollback")]
    found = await data(world, "baseline.rollback")
    assert (found["cause"], found["generation"], found["restoredGeneration"]) == ("restore", 3, 1)


async def test_a_rollback_is_told_to_many_in_pieces_and_whoever_dies_between_two_pieces(world, monkeypatch):
    monkeypatch.setattr(outbox, "RUNS_AT_ONCE", 2)
    await grow(world)
    for number in range(5):
        await world.apply_branch(f"run-{number}", account=f"agent-{number}")
    await pinning.follow_pin(world.db, line=world.line, pin=Pin(generation=1))

    pieces = 1
    while await outbox.drain(world.db):
        pieces += 1
        with pytest.raises(KilledError):  # having told the next piece, before that was noted
            await outbox.drain(DyingDatabase(world.db, at=2, before=False))
        assert await telling.left(world.db) == 1
        await telling.let_holds_run_out(world.db)

    assert pieces == 3
    assert await told(world) == [(f"agent-{number}", "baseline.rollback") for number in range(5)]


# ------------------------------------------------------------------------------------------------------ whoever dies


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_who_tells_may_be_killed_at_any_step_and_all_is_told_once(world, before):
    branch = await contest(world)
    await complete(world, branch, 1)
    await pinning.follow_pin(world.db, line=world.line, pin=Pin(generation=1))
    steps = 0
    while True:
        steps += 1
        try:
            await outbox.drain(DyingDatabase(world.db, at=steps, before=before))
        except KilledError:
            await telling.let_holds_run_out(world.db)
        else:
            break
        if await telling.left(world.db) == 0:
            break

    assert steps >= 3
    assert await told(world) == [
        ("rival", "baseline.rollback"),
        ("rival", "finding.published"),
        ("run", "finding.conflict"),
        ("run", "finding.published"),
        ("run", "finding.rejected"),
        ("run", "run.completed"),
    ]


async def test_what_cannot_be_told_keeps_nothing_else_back(world, monkeypatch):
    await contest(world)
    real = outbox.exchanges.append

    async def refuse(conn, entries):
        if any(entry.kind == "finding.conflict" for entry in entries):
            raise ValueError("no")
        return await real(conn, entries)

    monkeypatch.setattr(outbox.exchanges, "append", refuse)
    await telling.drain(world.db)
    assert await telling.kinds(world.db) == []
    await telling.let_holds_run_out(world.db)
    await telling.drain(world.db)

    assert await telling.kinds(world.db) == [
        ("rival", "finding.published"),
        ("run", "finding.published"),
        ("run", "finding.rejected"),
    ]
    assert await telling.left(world.db) == 1


async def test_a_notice_of_another_release_that_cannot_be_read_stays_and_keeps_nothing_else_back(world):
    branch = await contest(world)
    async with world.db.connection() as conn:
        await conn.execute(
            "INSERT INTO agent_outbox (line, outbox_id, kind, branch_id, details, due_at)"
            " VALUES ($1, 'later', 'finding.published', $2, '{}', '-infinity')",
            world.line,
            branch.branch_id,
        )
    await telling.drain(world.db)
    assert len(await telling.kinds(world.db)) == 4
    assert await telling.left(world.db) == 1


async def test_two_that_drain_at_once_share_nothing(world):
    await contest(world)
    async with world.db.transaction() as conn:
        first = await outbox.outbox.claim(conn, limit=2, hold=outbox._HOLD)
        async with world.db.connection() as other:
            second = await outbox.outbox.claim(other, limit=10, hold=outbox._HOLD)
    ids = [row.outbox_id for row in [*first, *second]]
    assert (len(first), len(ids)) == (2, len(set(ids)))
