"""How far runs follow the feed: what is saved, what moves, and what statuses show of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.world import AUTOMATIC, World

from anabranch.branches import following, read
from anabranch.domain.cursor import InvalidCursorError, Sealer
from anabranch.feed.cursor import Position, seal
from anabranch.feed.expiry import CursorExpiredError
from anabranch.model.errors import ConflictError
from anabranch.store import followers, lines, projection

SEALER = Sealer([b"k" * 32])


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first"}, **AUTOMATIC)
    return found


async def publish(world, *keys):
    """A generation for each key, with one event."""
    branch = await world.apply_branch("writer")
    async with world.db.connection() as conn:
        before = (await conn.fetchval("SELECT count(*) FROM batches")) or 0
    for number, key in enumerate(keys, before + 1):
        await world.submit(branch, number, {"key": key, "content": number})
        await world.work()


def cursor(branch, sequence, *, epoch=1):
    return seal(SEALER, branch.line, Position(epoch, sequence))


async def save(world, branch, sequence, *, epoch=1):
    return await following.save(world.db, SEALER, branch=branch, cursor=cursor(branch, sequence, epoch=epoch))


async def saved(world, branch):
    async with world.db.connection() as conn:
        return await followers.get(conn, line=branch.line, branch_id=branch.branch_id)


async def status(world, branch):
    async with world.db.connection() as conn:
        (state,) = await projection.branch_status(conn, branch_ids=[branch.branch_id])
    return state.feed_cursor, state.feed_lag


async def test_a_run_begins_at_its_parent_and_goes_on_from_what_it_saved(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l")
    first = await following.place(world.db, SEALER, branch=branch)
    assert (first.sequence, first.watermark, first.saved_at) == (0, 2, None)

    told = await save(world, branch, 1)
    assert (told.sequence, told.watermark, told.cursor) == (1, 2, cursor(branch, 1))
    assert told == await following.place(world.db, SEALER, branch=branch)
    assert told.saved_at is not None
    (manifest,) = await read.describe(world.db, [branch], SEALER)
    assert manifest.shared_feed_cursor == told.cursor


async def test_a_place_only_moves_on_and_the_same_again_changes_nothing(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l", "m")
    await save(world, branch, 2)
    before = await saved(world, branch)
    assert (await save(world, branch, 1)).sequence == 2
    assert (await save(world, branch, 2)).sequence == 2
    assert await saved(world, branch) == before
    assert (await save(world, branch, 3)).sequence == 3


async def test_of_places_that_are_saved_at_once_the_furthest_stays(world):
    branch = await world.apply_branch("run")
    await publish(world, *"klmnop")
    await asyncio.gather(*(save(world, branch, sequence) for sequence in (3, 6, 1, 5, 2, 4)))
    assert (await saved(world, branch)).sequence == 6


async def test_after_a_restore_from_backup_a_place_of_before_is_refused_and_counts_for_nothing(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l")
    await save(world, branch, 2)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE line_heads SET epoch = 2, event_sequence = 1")
    with pytest.raises(CursorExpiredError) as caught:
        await save(world, branch, 2)
    assert caught.value.extra["watermark"] == 1
    assert (await following.place(world.db, SEALER, branch=branch)).sequence == 0
    assert (await save(world, branch, 1, epoch=2)).sequence == 1, "lower, and of the epoch that counts"


async def test_a_place_that_the_feed_does_not_reach_is_refused_with_the_way_back(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l", "m")
    async with world.db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE sequence <= 2")
        await conn.execute("UPDATE line_heads SET event_floor = 2")
    for sequence in (1, 4):
        with pytest.raises(CursorExpiredError) as caught:
            await save(world, branch, sequence)
        assert caught.value.extra["cursor"] == cursor(branch, 3)
        assert caught.value.extra["snapshot"]["generation"] == 4
    assert (await save(world, branch, 3)).sequence == 3


async def test_only_a_cursor_of_this_lines_feed_is_one(world):
    branch = await world.apply_branch("run")
    for text in ("made up", SEALER.seal("feed another", [1, 0])):
        with pytest.raises(InvalidCursorError):
            await following.save(world.db, SEALER, branch=branch, cursor=text)


async def test_a_run_that_is_over_or_does_not_follow_saves_no_place(world):
    off = await world.apply_branch("off", follow="Off")
    with pytest.raises(ConflictError, match="Off"):
        await save(world, off, 0)
    over = await world.apply_branch("over")
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = 'Completed' WHERE name = 'over'")
    with pytest.raises(ConflictError, match="Completed"):  # the row that the caller has says Active still
        await save(world, over, 0)
    assert await saved(world, over) is None


async def test_a_status_shows_a_place_at_once_and_further_ones_half_a_minute_later(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l", "m")
    await save(world, branch, 1)
    await following.show(world.db)
    assert await status(world, branch) == (cursor(branch, 1), 2)

    await save(world, branch, 2)
    await save(world, branch, 3)
    assert not await following.show(world.db)
    assert await status(world, branch) == (cursor(branch, 1), 2), "as it was shown, until it is shown anew"
    async with world.db.connection() as conn:
        waits = await conn.fetchval("SELECT due_at - shown_at FROM followers")
        assert waits == followers.SHOWN_EVERY
        await conn.execute("UPDATE followers SET due_at = now()")
    await following.show(world.db)
    assert await status(world, branch) == (cursor(branch, 3), 0)


async def test_only_a_place_that_is_shown_writes_to_the_branch(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l")

    async def version():
        async with world.db.connection() as conn:
            return await conn.fetchval("SELECT version FROM branches WHERE name = 'run'")

    await following.show(world.db)
    before = await version()
    await save(world, branch, 1)
    assert await version() == before
    await following.show(world.db)
    assert await version() == before + 1
    await save(world, branch, 2)
    await following.show(world.db)
    assert await version() == before + 1


async def test_the_generation_that_was_current_at_a_place_is_kept_with_it(world):
    branch = await world.apply_branch("run")
    await publish(world, "k", "l")  # generations 2 and 3
    assert (await saved_at(world, branch, 1)).generation == 2
    await world.apply_baseline("facts", generation=2, pin={"generation": 1}, **pinned(world))
    async with world.db.connection() as conn:
        head = await lines.head(conn, branch.line)
    assert (head.current_generation, head.event_sequence) == (1, 3)
    assert (await saved_at(world, branch, 2)).generation == 3
    assert (await saved_at(world, branch, 3)).generation == 1


def pinned(world):
    return {"import": {"configMap": {"name": "facts"}}, **AUTOMATIC}


async def saved_at(world, branch, sequence):
    await save(world, branch, sequence)
    return await saved(world, branch)
