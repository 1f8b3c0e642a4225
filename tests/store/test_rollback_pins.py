"""A pin and its end: each once, in order with what is published around them, whoever publishes at that moment."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store.branching import blocked
from tests.store.world import AUTOMATIC, World

from anabranch.baselines import pinning
from anabranch.consolidation import publishing, schedule, work
from anabranch.store import branches, leases, lines, manifests, projection, pruning

FROM_MAP = {"import": {"configMap": {"name": "facts"}}}


@pytest.fixture
async def world(db):
    """A line with the generations 1 to 3."""
    world = World(db)
    world.line = (await world.import_documents({"a": "first", "b": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("begin")
    for sequence, text in ((1, "second"), (2, "third")):
        await world.submit(branch, sequence, {"key": "a", "content": text, "base": sequence})
        await world.work()
    return world


async def apply(world, generation=2, **spec):
    return await world.apply_baseline(generation=generation, **FROM_MAP, **AUTOMATIC, **spec)


async def kinds(world):
    """What the feed tells, from the first pin on; `World.events` has seen to it that there is no gap."""
    return [kind for kind, _, _ in await world.events(world.line)][2:]


async def id_of(world, generation):
    async with world.db.connection() as conn:
        return (await manifests.get(conn, line=world.line, generation=generation)).baseline_id


async def claimed(world, name="run", *, key="b", content="an agent's", base=1):
    branch = await world.apply_branch(name)
    await world.submit(branch, 1, {"key": key, "content": content, "base": base})
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        (job,) = (await leases.claim(conn, holder=world.holder, limit=1)).jobs
    return job


async def at_once(world, job):
    async with world.db.connection() as conn:
        await leases.release(conn, job=job, due_in=timedelta())


# ---------------------------------------------------------------------------------------------- again, and by two ways


async def test_one_manifest_by_its_number_and_by_its_id_is_one_pin(world):
    by_number = await apply(world, 2, pin={"generation": 2})
    by_id = await apply(world, 3, pin={"baselineId": await id_of(world, 2)})
    assert by_number.head == by_id.head
    assert await kinds(world) == ["rollback"]


async def test_a_pin_is_made_once_however_many_operators_see_it_and_how_often(world):
    await asyncio.gather(*(apply(world, 2, pin={"generation": 1}) for _ in range(4)))
    await apply(world, 2, pin={"generation": 1})
    assert await kinds(world) == ["rollback"]
    await asyncio.gather(*(apply(world, 3) for _ in range(4)))
    state = await apply(world, 3)
    assert await kinds(world) == ["rollback", "resumed"]
    assert (state.head.current_generation, state.head.previous_generation) == (3, 1)


async def test_pinned_resumed_and_pinned_again_are_events_of_their_own(world):
    for generation, pin in enumerate(({"generation": 1}, None, {"generation": 1}, {"generation": 2}, None), start=2):
        await apply(world, generation, **({"pin": pin} if pin else {}))
    assert await kinds(world) == ["rollback", "resumed", "rollback", "rollback", "resumed"]


async def test_an_operator_that_comes_back_with_an_old_spec_changes_nothing(world):
    before = await apply(world, 3, pin={"generation": 1}, suspend=True)
    assert await apply(world, 2) == before
    assert await kinds(world) == ["rollback"]


@pytest.mark.parametrize("late", [2, 3], ids=["the old spec ends last", "the new spec ends last"])
async def test_two_operators_with_different_specs_at_once_end_with_the_newer_one(world, monkeypatch, late):
    """Each has undone a part of the other's; whoever ends last sees that, and has it looked at once more."""
    pin, entered, go_on = pinning.follow_pin, asyncio.Event(), asyncio.Event()

    async def wait(db, **what):
        told = await pin(db, **what)
        if not entered.is_set():
            entered.set()
            await go_on.wait()
        return told

    monkeypatch.setattr(pinning, "follow_pin", wait)
    specs = {2: {}, 3: {"pin": {"generation": 1}, "suspend": True}}
    slow = asyncio.create_task(apply(world, late, **specs[late]))
    await entered.wait()
    await apply(world, 5 - late, **specs[5 - late])
    go_on.set()
    state = await slow
    assert state.line.observed_generation == 3

    async with world.db.connection() as conn:
        (due,) = await lines.claim_due(conn, limit=10, hold=timedelta(minutes=1))
    assert due.line == world.line
    state = await apply(world, 3, **specs[3])
    assert (state.head.pinned_generation, state.head.suspended) == (1, True)
    assert await world.conditions(world.line) == {"ConsolidationPaused": "Pinned"}


async def test_what_an_old_spec_met_is_not_told_as_an_answer_to_the_new_one(world, monkeypatch):
    pin, entered, go_on = pinning.follow_pin, asyncio.Event(), asyncio.Event()

    async def wait(db, **what):
        told = await pin(db, **what)
        if not entered.is_set():
            entered.set()
            await go_on.wait()
        return told

    monkeypatch.setattr(pinning, "follow_pin", wait)
    slow = asyncio.create_task(apply(world, 2))
    await entered.wait()
    await apply(world, 3, pin={"generation": 9})
    go_on.set()
    await slow
    assert await world.conditions(world.line) == {"Stalled": "PinTargetUnknown"}


# -------------------------------------------------------------------------------------------------- unknown and pruned


@pytest.fixture
async def pruned(world):
    """Generation 1 is not kept any more."""
    name = await id_of(world, 1)
    await world.apply_branch("begin", generation=2)
    async with world.db.connection() as conn:
        await branches.set_phase(
            conn,
            line=world.line,
            branch_id=(await branches.by_name(conn, namespace="agents", name="begin")).branch_id,
            phase="Expired",
        )
    async with world.db.transaction() as conn:
        assert await pruning.drop(conn, line=world.line, generations=[1]) == [1]
    return name


async def test_a_pruned_target_is_told_from_an_unknown_one_by_either_name(world, pruned):
    head = (await apply(world, 2, pin={"generation": 2})).head
    targets = (
        ({"generation": 1}, "PinTargetPruned"),
        ({"baselineId": pruned}, "PinTargetPruned"),
        ({"generation": 9}, "PinTargetUnknown"),
        ({"baselineId": pruned[:-1] + ("0" if pruned[-1] != "0" else "1")}, "PinTargetUnknown"),
    )
    for generation, (pin, reason) in enumerate(targets, start=3):
        state = await apply(world, generation, pin=pin)
        assert (await world.conditions(world.line))["Stalled"] == reason
        assert (state.head, state.line.observed_generation) == (head, generation)
    assert await kinds(world) == ["rollback"]

    # Mended, it is as if nothing had been.
    await apply(world, 9, pin={"generation": 3})
    assert await world.conditions(world.line) == {"ConsolidationPaused": "Pinned"}
    assert await kinds(world) == ["rollback", "rollback"]


async def test_a_target_that_cannot_be_had_pauses_nothing(world):
    await apply(world, 2, pin={"generation": 9})
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": "second", "base": 1})
    await world.work()
    assert (await world.contents(world.line))["b"] == '"second"'


# ---------------------------------------------------------------------------------------------- while a job publishes


async def test_a_pin_that_comes_before_the_publications_lock_holds_the_job_up(world, monkeypatch):
    job = await claimed(world)
    prepare = publishing.publish.prepare

    async def pin_first(conn, **what):
        prepared = await prepare(conn, **what)
        await apply(world, 2, pin={"generation": 1})
        return prepared

    with monkeypatch.context() as patched:
        patched.setattr(publishing.publish, "prepare", pin_first)
        await work.advance(world.services, job)

    held = await world.job(job.name)
    assert (held.state, held.attempt, held.holder) == ("publishing", 0, None)
    assert (await world.contents(world.line))["b"] == '"first"'
    await world.work()
    assert (await world.job(job.name)).state == "publishing"  # due, and given to nobody while the pin holds

    await apply(world, 3)
    await world.work()
    assert (await world.job(job.name)).state == "published"
    assert (await world.contents(world.line))["b"] == '"an agent\'s"'
    assert await kinds(world) == ["rollback", "resumed", "published"]
    await world.check_roots(world.line)


async def test_a_pin_that_comes_after_it_waits_for_the_publication_and_withdraws_it(world, monkeypatch):
    job = await claimed(world)
    record = publishing.publications.record
    pins = []

    async def pin_meanwhile(conn, **what):
        pins.append(asyncio.create_task(apply(world, 2, pin={"generation": 3})))
        await blocked(world.db, pins[0])
        await record(conn, **what)

    monkeypatch.setattr(publishing.publications, "record", pin_meanwhile)
    await work.advance(world.services, job)
    state = await pins[0]

    assert (state.head.head_generation, state.head.current_generation) == (4, 3)
    assert (state.head.previous_generation, state.head.pinned_generation) == (4, 3)
    assert (await world.job(job.name)).published_generation == 4
    assert await kinds(world) == ["published", "rollback"]
    assert (await world.contents(world.line))["b"] == '"first"'


async def test_a_worker_that_dies_under_a_pin_loses_nothing(world):
    job = await claimed(world)
    await apply(world, 2, pin={"generation": 1})
    async with world.db.connection() as conn:
        await conn.execute("UPDATE jobs SET lease_deadline = now() - interval '1 s', due_at = now() - interval '1 s'")
    await world.work()
    assert (await world.job(job.name)).fence == job.fence  # reclaimed when the line goes on, not before
    await apply(world, 3)
    await world.work()
    assert (await world.job(job.name)).state == "published"


# ---------------------------------------------------------------------------------------------- what goes on under it


async def test_findings_are_received_under_a_pin_and_published_in_order_after_it(world):
    await apply(world, 2, pin={"generation": 1})
    branch = await world.apply_branch("under-the-pin")
    for sequence, text in ((1, "one"), (2, "two")):
        receipt = await world.submit(branch, sequence, {"key": f"new-{text}", "content": text})
        assert receipt.ack == "receipt"
    await world.work()
    assert await kinds(world) == ["rollback"]

    await apply(world, 3)
    await world.work()
    events = (await world.events(world.line))[2:]
    assert [(kind, key) for kind, key, _ in events] == [
        ("rollback", None),
        ("resumed", None),
        ("published", "new-one"),
        ("published", "new-two"),
    ]


async def lagging(world):
    """The kinds of resources whose status is behind; then all are written."""
    async with world.db.connection() as conn:
        found = await projection.dirty(conn, limit=100)
        await projection.mark(conn, found)
    return sorted({row.kind for row in found})


@pytest.mark.parametrize("paused", [{"pin": {"generation": 1}}, {"suspend": True}], ids=["pinned", "suspended"])
async def test_findings_that_come_while_consolidation_is_paused_are_shown_each_once(world, paused):
    await apply(world, 2, **paused)
    branch = await world.apply_branch("run")
    await lagging(world)
    assert await schedule.tell_paused(world.db) is False
    assert await lagging(world) == []

    for sequence in (1, 3, 2):  # the last one fills a gap
        await world.submit(branch, sequence, {"key": f"k{sequence}", "content": sequence})
        assert await lagging(world) == []
        await schedule.tell_paused(world.db)
        assert await lagging(world) == ["Baseline", "Branch"]
        await schedule.tell_paused(world.db)
        assert await lagging(world) == []
    async with world.db.connection() as conn:
        (shown,) = await projection.branch_status(conn, branch_ids=[branch.branch_id])
        (line,) = await projection.baseline_status(conn, lines=[world.line])
    assert (shown.contiguous_through, line.pending_batches) == (3, 3)


async def test_what_is_not_paused_shows_by_its_jobs_alone(world):
    branch = await world.apply_branch("run")
    await lagging(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await schedule.tell_paused(world.db)
    assert await lagging(world) == []


async def test_branches_forked_before_during_and_after_stand_where_they_were_forked(world):
    before = await world.apply_branch("before")
    await apply(world, 2, pin={"generation": 1})
    during = await world.apply_branch("during")
    named = await world.apply_branch("named", baselineRef={"namespace": "platform", "name": "facts", "generation": 3})
    await apply(world, 3)
    after = await world.apply_branch("after")
    found = [branch.parent_generation for branch in (before, during, named, after)]
    assert found == [3, 1, 3, 3]

    # Whoever saw the pinned generation only contradicts what came later; the others go on.
    for branch, base in ((during, 1), (after, 3)):
        await world.submit(branch, 1, {"key": "a", "content": branch.name, "base": base})
    await world.work()
    rows = {row.branch_id: row for job in await world.jobs() for row in await world.candidates(job)}
    assert {name: rows[branch.branch_id].conflicting for name, branch in (("during", during), ("after", after))} == {
        "during": True,
        "after": False,
    }


async def test_a_pin_and_a_suspension_are_apart(world):
    await apply(world, 2, pin={"generation": 1}, suspend=True)
    state = await apply(world, 3, suspend=True)
    assert (state.head.current_generation, state.head.suspended, state.head.paused) == (3, True, True)
    state = await apply(world, 4)
    assert not state.head.paused
    assert await kinds(world) == ["rollback", "resumed"]


async def test_a_pin_outlives_its_baseline_and_goes_when_the_namesake_has_none(world):
    await apply(world, 2, pin={"generation": 1})
    async with world.db.connection() as conn:
        await lines.mark_deleted(conn, line=world.line, uid="uid-of-facts")
    state = await world.apply_baseline(uid="made again", pin={"generation": 1}, **FROM_MAP, **AUTOMATIC)
    assert state.head.pinned_generation == 1
    assert await kinds(world) == ["rollback"]
    state = await world.apply_baseline(uid="made again", generation=2, **FROM_MAP, **AUTOMATIC)
    assert state.head.current_generation == 3
    assert await kinds(world) == ["rollback", "resumed"]
