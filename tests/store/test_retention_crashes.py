"""Retention may be killed just before or after any transaction: what is kept is whole, and the next turn goes on."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building, retaining
from tests.store.building import version
from tests.store.retaining import LONG, NOW
from tests.store.test_consolidation_crashes import DyingDatabase, KilledError
from tests.store.world import AUTOMATIC, World

from anabranch.baselines import retention
from anabranch.store import private

pytestmark = pytest.mark.long

EVERYTHING = retaining.promising(tombstones=NOW)

LEFT = """
    SELECT (SELECT count(*) FROM branches WHERE line = $1) AS branches,
           (SELECT count(*) FROM jobs WHERE line = $1) AS jobs,
           (SELECT count(*) FROM batches WHERE line = $1) AS batches,
           (SELECT count(*) FROM evidence WHERE line = $1) AS evidence,
           (SELECT count(*) FROM private_records WHERE line = $1) AS private_records,
           (SELECT count(*) FROM candidates WHERE line = $1) AS candidates,
           (SELECT count(*) FROM transitions WHERE line = $1) AS transitions,
           (SELECT count(*) FROM publications WHERE line = $1) AS publications,
           (SELECT count(*) FROM events WHERE line = $1) AS events,
           (SELECT count(*) FROM record_versions WHERE line = $1 AND tombstone) AS tombstones
"""


@pytest.fixture
async def world(db):
    return World(db)


async def a_past(world, name):
    """A line with something for each step to remove, and its contents."""
    line = (await world.import_documents({"a": "1", "b": "1", "c": "1"}, name=name, **AUTOMATIC)).line.line
    branch = await world.apply_branch(f"run-{name}", baseline=name)
    await world.submit(branch, 1, {"key": "a", "content": "2", "base": 1}, {"key": "d", "content": "1"})
    await world.submit(branch, 2, {"key": "e", "content": "1"})
    await world.work()
    async with world.db.connection() as conn:
        await private.put(
            conn, line=line, branch_id=branch.branch_id, key="own", scope="shared", visibility="private",
            content_hash=building.digest(1), body=b"1", base_revision=0, expected=None,
        )  # fmt: skip
        await conn.execute(
            "UPDATE branches SET phase = 'Completed', finished_at = now(), deleted_at = now() WHERE line = $1", line
        )
        await conn.execute("UPDATE jobs SET deleted_at = now() WHERE line = $1", line)
    await building.publish_versions(world.db, line, version("b"), version("e", "2"))
    await building.publish_versions(world.db, line, version("e", "3"))
    # Of `b` nothing but the mark is left, so that it can go too.
    await retaining.retain(world.db, line, events=LONG, completed_runs=LONG, transitions=LONG)
    await building.publish_versions(world.db, line, version("e", "4"), version("a", "3"))
    return line, await building.snapshot(world.db, line)


async def retain(db, line):
    while await retention.retain(db, line=line, policy=EVERYTHING):
        pass


async def end(world, line):
    """Remove the rest, in some rounds: a deleted record goes, then its mark, and each time another manifest is kept."""
    for number in "567":
        await building.publish_versions(world.db, line, version("e", number))
        await retain(world.db, line)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_whoever_is_killed_at_any_step_leaves_a_whole_line_and_the_next_turn_goes_on(world, before):
    steps, killed = 0, True
    while killed:
        steps += 1
        line, contents = await a_past(world, f"facts-{steps}")
        killed = False
        try:
            await retain(DyingDatabase(world.db, at=steps, before=before), line)
        except KilledError:
            killed = True
        assert await building.snapshot(world.db, line) == contents
        await retaining.check(world.db, line)

        await end(world, line)
        assert await building.snapshot(world.db, line) == contents | {"e": "7"}
        await retaining.check(world.db, line)
        assert await retaining.rubbish(world.db, line) == {}
        async with world.db.connection() as conn:
            left = dict(await conn.fetchrow(LEFT, line))
        assert left == dict.fromkeys(left, 0)
    assert steps > 20  # every use of the database that a turn makes was one to die at


async def test_two_turns_at_once_remove_what_one_does(world):
    line, contents = await a_past(world, "facts")
    await asyncio.gather(*(retain(world.db, line) for _ in range(3)))
    assert await building.snapshot(world.db, line) == contents
    await end(world, line)
    await retaining.check(world.db, line)
    assert await retaining.rubbish(world.db, line) == {}
