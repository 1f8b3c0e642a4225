"""Retention as a Baseline's spec has it: in its turn, once a promise is over, and told to whoever comes too late."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.world import AUTOMATIC, TEAM, World

from anabranch.baselines import retention
from anabranch.domain.cursor import Sealer
from anabranch.feed.cursor import unseal
from anabranch.feed.expiry import CursorExpiredError
from anabranch.feed.poll import Feed
from anabranch.feed.waking import Waking
from anabranch.model.errors import GoneError
from anabranch.store import lines, manifests
from anabranch.store import retention as turns

SHORT = {"generations": 1, "age": "1s", "events": "1s", "completedRuns": "1s", "tombstones": "1s", "transitions": "1s"}


@pytest.fixture
async def world(db):
    return World(db)


async def publish(world, line, count):
    for number in range(count):
        await building.publish_versions(world.db, line, building.version(f"k{number}", number))


async def let_time_pass(world, line):
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(seconds=2))
        await conn.execute("UPDATE lines SET retain_at = now() WHERE line = $1", line)


async def due_in(world, line):
    async with world.db.connection() as conn:
        return await conn.fetchval("SELECT retain_at - now() FROM lines WHERE line = $1", line)


async def test_a_turn_goes_by_the_promises_of_the_spec(world):
    line = (await world.import_documents({"a": "1"}, retention={**SHORT, "generations": 3})).line.line
    await publish(world, line, 5)
    await let_time_pass(world, line)
    assert await retention.turn(world.db)
    assert await retaining.generations(world.db, line) == [4, 5, 6]
    assert not await retention.turn(world.db)


async def test_a_line_without_a_word_of_retention_keeps_fifty_generations_and_a_month(world):
    line = (await world.import_documents({"a": "1"})).line.line
    await publish(world, line, 60)
    await let_time_pass(world, line)
    await retention.turn(world.db)
    assert len(await retaining.generations(world.db, line)) == 61
    async with world.db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(days=30))
    await let_time_pass(world, line)
    await retention.turn(world.db)
    assert await retaining.generations(world.db, line) == list(range(12, 62))


async def test_other_promises_act_at_once_and_other_words_do_not(world):
    line = (await world.import_documents({"a": "1"})).line.line
    await retention.turn(world.db)
    assert await due_in(world, line) > timedelta(minutes=9)
    spec = {"import": {"configMap": {"name": "facts"}}}
    await world.apply_baseline(generation=2, **spec, review={"minReviewers": 2})
    assert await due_in(world, line) > timedelta(minutes=9)
    await world.apply_baseline(generation=3, **spec, retention={"age": "50s"})
    assert await due_in(world, line) <= timedelta()
    await retention.turn(world.db)
    assert timedelta(seconds=4) < await due_in(world, line) <= timedelta(seconds=5)


async def test_promises_that_change_during_a_turn_are_gone_by_in_the_next_one_at_once(world):
    line = (await world.import_documents({"a": "1"})).line.line
    async with world.db.connection() as conn:
        claim = await turns.claim(conn, hold=timedelta(minutes=10))
        await world.apply_baseline(generation=2, retention={"age": "50s"})
        await turns.settle(conn, claim=claim, pause=timedelta(minutes=10))
    assert await due_in(world, line) <= timedelta()


async def test_one_process_has_a_line_at_a_time_and_each_line_has_its_turn(world):
    made = {(await world.import_documents({"a": "1"}, name=f"facts-{number}")).line.line for number in range(4)}
    taken = []

    async def take():
        async with world.db.connection() as conn:
            while claim := await turns.claim(conn, hold=timedelta(minutes=10)):
                taken.append(claim.line)

    await asyncio.gather(take(), take())
    assert sorted(taken) == sorted(made)


async def test_the_line_of_a_process_that_died_comes_up_again(world):
    line = (await world.import_documents({"a": "1"})).line.line
    async with world.db.connection() as conn:
        assert (await turns.claim(conn, hold=timedelta(minutes=10))).line == line
    assert timedelta(minutes=9) < await due_in(world, line) <= timedelta(minutes=10)
    assert not await retention.turn(world.db)
    await let_time_pass(world, line)
    assert await retention.turn(world.db)


async def test_a_line_with_more_to_do_than_a_turn_does_comes_up_again_at_once(world, monkeypatch):
    monkeypatch.setattr(retention, "_GENERATIONS", 2)
    line = (await world.import_documents({"a": "1"}, retention=SHORT)).line.line
    await publish(world, line, 6)
    await let_time_pass(world, line)
    left = []
    while await retention.turn(world.db):
        left.append(len(await retaining.generations(world.db, line)))
    assert left == [5, 3, 2]  # the last turn removed less than it may, so it was the last


async def test_nothing_is_removed_from_a_line_whose_baseline_is_deleted(world):
    line = (await world.import_documents({"a": "1"}, retention=SHORT)).line.line
    await publish(world, line, 4)
    async with world.db.connection() as conn:
        await lines.mark_deleted(conn, line=line, uid="uid-of-facts")
    await let_time_pass(world, line)
    assert not await retention.turn(world.db)
    assert len(await retaining.generations(world.db, line)) == 5


@pytest.mark.parametrize("by", ["generation", "baselineId"])
async def test_a_pin_to_a_generation_that_was_pruned_stalls_and_moves_nothing(world, by):
    spec = {"import": {"configMap": {"name": "facts"}}, "retention": SHORT}
    line = (await world.import_documents({"a": "1"}, **spec)).line.line
    await publish(world, line, 3)
    async with world.db.connection() as conn:
        gone = await manifests.resolve(conn, line=line, ref=2)
    await let_time_pass(world, line)
    await retention.turn(world.db)

    await world.apply_baseline(generation=2, **spec, pin={by: 2 if by == "generation" else gone.baseline_id})
    assert (await world.conditions(line))["Stalled"] == "PinTargetPruned"
    assert (await world.state(line)).head.current_generation == 4

    await world.apply_baseline(generation=3, **spec, restore={"generation": 2, "id": "back"})
    assert (await world.conditions(line))["Stalled"] == "RestoreTargetPruned"


async def test_a_branch_whose_generation_was_pruned_before_it_forked_never_will(world):
    line = (await world.import_documents({"a": "1"}, retention=SHORT)).line.line
    await publish(world, line, 3)
    await let_time_pass(world, line)
    await retention.turn(world.db)
    ref = {"namespace": TEAM, "name": "facts"}
    assert await world.apply_branch("late", baselineRef={**ref, "generation": 2}) is None
    assert await world.waits("Branch", "late") == "GenerationPruned"
    assert await world.apply_branch("early", baselineRef={**ref, "generation": 9}) is None
    assert await world.waits("Branch", "early") == "GenerationUnavailable"


async def test_a_finding_that_cites_a_pruned_revision_is_unsupported(world):
    line = (await world.import_documents({"a": "1"}, **AUTOMATIC, retention=SHORT)).line.line
    await building.publish_versions(world.db, line, building.version("a", "2"))
    await publish(world, line, 2)
    await let_time_pass(world, line)
    await retention.turn(world.db)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "b", "content": 1, "sources": ["record:a@1"]})
    await world.submit(branch, 2, {"key": "c", "content": 1, "sources": ["record:a@2"]})
    await world.work()
    outcomes = await world.outcomes()
    assert outcomes["b"] == [("rejected", "Unsupported")]
    assert outcomes["c"] == [("published", "")]


async def test_a_follower_behind_the_floor_is_given_a_snapshot_and_one_at_it_goes_on(world, db, api_db):
    line = (await world.import_documents({"a": "1"}, retention={**SHORT, "generations": 50})).line.line
    await publish(world, line, 5)
    sealer, waking = Sealer([b"0123456789abcdef"]), Waking(api_db)
    feed = Feed(api_db, sealer, waking)

    async def poll(start):
        async def readable(scopes):
            return scopes

        return await feed.poll(line, start=start, limit=2, wait=0, readable=readable)

    first = await poll(None)
    third = await poll(unseal(sealer, line, first.cursor))
    async with db.connection() as conn:
        await conn.execute("UPDATE events SET created_at = now() - interval '1 hour' WHERE sequence <= 4")
        await conn.execute("UPDATE lines SET retain_at = now()")
    await retention.turn(world.db)

    with pytest.raises(CursorExpiredError) as error:
        await poll(unseal(sealer, line, first.cursor))
    assert (error.value.extra["floor"], error.value.extra["watermark"]) == (4, 5)
    assert error.value.extra["snapshot"]["generation"] == 6
    assert (await poll(unseal(sealer, line, error.value.extra["cursor"]))).events == ()

    assert [event.sequence for event in (await poll(unseal(sealer, line, third.cursor))).events] == [5]
    assert [event.sequence for event in (await poll(None)).events] == [5]
    with pytest.raises(CursorExpiredError):
        await poll(await feed.start_after(line, 3))
    assert [event.sequence for event in (await poll(await feed.start_after(line, 5))).events] == [5]


async def test_a_follower_may_not_begin_behind_a_manifest_that_was_pruned(world, api_db):
    line = (await world.import_documents({"a": "1"}, retention=SHORT)).line.line
    await publish(world, line, 3)
    await let_time_pass(world, line)
    await retention.turn(world.db)
    feed = Feed(api_db, Sealer([b"0123456789abcdef"]), Waking(api_db))
    with pytest.raises(GoneError, match="Generation 2 was removed"):
        await feed.start_after(line, 2)
