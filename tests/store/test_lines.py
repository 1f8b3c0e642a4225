"""Which line a Baseline stands for, and what becomes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import building

from anabranch.model.errors import NotFoundError, TooLargeError
from anabranch.model.ids import new_line_id
from anabranch.store import lines


async def adopt(db, *, uid="uid-1", namespace_uid="ns-1", name="facts"):
    async with db.transaction() as conn:
        return await lines.adopt_or_create(conn, namespace="team", namespace_uid=namespace_uid, name=name, uid=uid)


async def find(db, name="facts"):
    async with db.connection() as conn:
        return await lines.find(conn, namespace="team", name=name)


async def get(db, line):
    async with db.connection() as conn:
        return await lines.get(conn, line)


async def test_a_new_baseline_gets_a_line_without_manifests(db):
    state = await adopt(db)
    assert state == await find(db)
    assert (state.head.head_generation, state.head.current_generation, state.head.revision) == (0, 0, 0)
    assert not state.head.paused


async def test_reconciling_again_is_the_same_line_and_nothing_new_for_status(db):
    first = await adopt(db)
    assert await adopt(db) == first


async def test_several_that_adopt_at_once_get_one_line(db):
    states = await asyncio.gather(*(adopt(db) for _ in range(5)))
    assert len({state.line.line for state in states}) == 1


async def test_a_namesake_in_the_same_namespace_takes_the_line_up_again(db):
    first = await adopt(db)
    async with db.transaction() as conn:
        await lines.save_spec(conn, line=first.line.line, observed_generation=7, policy={}, suspended=False)
        assert await lines.mark_deleted(conn, line=first.line.line, uid="uid-1")
    assert await find(db) is None

    again = await adopt(db, uid="uid-2")
    assert again.line.line == first.line.line
    assert (again.line.uid, again.line.deleted_at, again.line.observed_generation) == ("uid-2", None, 0)


async def test_a_namespace_that_was_made_again_has_other_lines(db):
    first = await adopt(db)
    second = await adopt(db, namespace_uid="ns-2")
    assert second.line.line != first.line.line
    assert (await find(db)).line.line == second.line.line
    assert (await get(db, first.line.line)).line.deleted_at is not None


async def test_a_deletion_that_comes_late_does_not_hit_the_successor(db):
    state = await adopt(db)
    await adopt(db, uid="uid-2")
    async with db.connection() as conn:
        assert not await lines.mark_deleted(conn, line=state.line.line, uid="uid-1")
    assert await find(db) is not None


async def test_a_namespace_lists_its_lines_by_name(db):
    await adopt(db, name="b")
    await adopt(db, name="a", uid="uid-2")
    async with db.connection() as conn:
        assert [state.line.name for state in await lines.list_by_namespace(conn, "team")] == ["a", "b"]
        assert await lines.list_by_namespace(conn, "other") == []


async def test_the_spec_is_kept_and_an_older_one_changes_nothing(db):
    line = (await adopt(db)).line.line

    async def save(observed_generation, mode, suspended):
        async with db.transaction() as conn:
            await lines.save_spec(
                conn, line=line, observed_generation=observed_generation, policy={"mode": mode}, suspended=suspended
            )
        return await get(db, line)

    state = await save(2, "Automatic", suspended=True)
    assert (state.line.observed_generation, state.line.policy) == (2, {"mode": "Automatic"})
    assert state.head.suspended
    assert state.head.paused
    assert (await save(2, "Automatic", suspended=True)).line.version == state.line.version
    assert (await save(1, "Manual", suspended=True)).line.policy == {"mode": "Automatic"}


async def test_only_new_conditions_are_something_new_for_status(db):
    before = (await adopt(db)).line
    conditions = [{"type": "Stalled", "reason": "PinTargetUnknown", "message": "There is no generation 9."}]
    async with db.connection() as conn:
        assert await lines.set_conditions(conn, line=before.line, conditions=conditions)
        assert not await lines.set_conditions(conn, line=before.line, conditions=conditions)
    after = (await get(db, before.line)).line
    assert (after.conditions, after.version) == (conditions, before.version + 1)


async def test_a_line_has_32_scopes_at_most(db):
    line = (await adopt(db)).line.line
    async with db.transaction() as conn:
        await lines.add_scopes(conn, line=line, scopes=[f"scope-{number:02}" for number in range(32)])
        await lines.add_scopes(conn, line=line, scopes=["scope-00"])

    async def one_more(conn):
        await lines.add_scopes(conn, line=line, scopes=["one-more"])

    with pytest.raises(TooLargeError, match="33 scopes; 32"):
        await db.run(one_more)
    async with db.connection() as conn:
        assert len(await lines.scopes(conn, line)) == 32


async def test_a_due_line_is_given_to_one_and_settled_unless_asked_for_again(db):
    line = (await adopt(db)).line.line
    hold = timedelta(minutes=1)
    async with db.connection() as conn:
        assert await lines.claim_due(conn, limit=10, hold=hold) == []
        await lines.set_due(conn, line=line, delay=timedelta(0))
        [claimed] = await lines.claim_due(conn, limit=10, hold=hold)
        assert claimed.line == line
        assert await lines.claim_due(conn, limit=10, hold=hold) == []

        await lines.set_due(conn, line=line, delay=timedelta(0))  # asked for again meanwhile
        await lines.settle(conn, line=line, due_at=claimed.due_at)
        [claimed] = await lines.claim_due(conn, limit=10, hold=hold)
        await lines.settle(conn, line=line, due_at=claimed.due_at)
    assert (await get(db, line)).line.due_at is None


async def test_a_claim_whose_taker_dies_is_due_again(db):
    line = (await adopt(db)).line.line
    async with db.connection() as conn:
        await lines.set_due(conn, line=line, delay=timedelta(0))
        assert await lines.claim_due(conn, limit=1, hold=timedelta(0))
        assert await lines.claim_due(conn, limit=1, hold=timedelta(0))


async def test_the_api_may_wake_a_line_and_no_more(db, api_db):
    line = (await adopt(db)).line.line
    async with api_db.connection() as conn:
        await lines.set_due(conn, line=line, delay=timedelta(0))
    async with db.connection() as conn:
        assert [row.line for row in await lines.claim_due(conn, limit=1, hold=timedelta(0))] == [line]


async def test_an_unknown_line_is_not_found(db):
    async with db.transaction() as conn:
        for ask in (lines.get, lines.head, lines.lock_head):
            with pytest.raises(NotFoundError):
                await ask(conn, new_line_id())


async def test_a_held_head_stops_no_reader_and_no_foreign_key(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    async with db.transaction() as conn:
        await lines.lock_head(conn, line)
        async with asyncio.timeout(30), db.connection() as other:
            assert (await lines.head(other, line)).head_generation == 1
            await other.execute(
                "INSERT INTO jobs (line, job_id, namespace, name, automatic, origin) "
                "VALUES ($1, 'j', 'n', 'j', true, 'Import')",
                line,
            )
