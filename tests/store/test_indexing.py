"""The index is made after the fact: whoever dies or comes in between, each version ends up in it once."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.store import building, indexes, retaining
from tests.store.building import version
from tests.store.dying import DyingDatabase, KilledError
from tests.store.indexes import indexed, small_segments

from anabranch.search import indexing
from anabranch.store import indexing as store
from anabranch.store import restoring


@pytest.fixture
def small(monkeypatch):
    small_segments(monkeypatch, documents=8)


async def segments(db, line):
    async with db.connection() as conn:
        return await store.sizes(conn, line=line)


async def progress(db, line):
    async with db.connection() as conn:
        return await conn.fetchrow("SELECT * FROM search_progress WHERE line = $1", line)


async def publish(db, line, *names, content="some words"):
    await building.publish_versions(db, line, *(version(name, f"{content} {name}") for name in names))


async def test_a_large_line_is_walked_a_segment_at_a_time_and_new_generations_do_not_stop_the_walk(db, small):
    line = await building.new_line(db)
    names = [f"k{number:02}" for number in range(30)]
    await building.import_records(db, line, {name: f"text of {name}" for name in names})
    assert await indexing.turn(db)
    assert [one.documents for one in await segments(db, line)] == [8]
    assert ((await progress(db, line))["through"], (await progress(db, line))["target"]) == (0, 1)
    await publish(db, line, "k00", "k29", "new")
    assert await indexing.turn(db)
    async with db.connection() as conn:
        await indexes.check(conn, line)
    await indexed(db, line)
    assert sum(one.documents for one in await segments(db, line)) == 33


async def test_what_a_restore_brings_is_indexed_too_and_tombstones_are_not(db, small):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": "one" for number in range(20)})
    await building.publish_versions(db, line, *(version(f"k{number}") for number in range(20)))
    await indexed(db, line)
    await restoring.restore(db, line=line, generation=1, restore_id="back")
    await indexed(db, line)
    assert sum(one.documents for one in await segments(db, line)) == 40


async def test_a_line_that_is_published_to_all_the_time_has_few_segments(db, small):
    line = await building.new_line(db)
    await building.import_records(db, line, {})
    for number in range(60):
        await publish(db, line, f"k{number}")
        while await indexing.turn(db):
            pass
    await indexed(db, line)
    assert len(await segments(db, line)) < 16


def test_the_segments_that_are_put_together_are_of_one_scope_and_size():
    def sized(*sizes, scope="shared"):
        return [store.SegmentSize(number, scope, documents) for number, documents in enumerate(sizes)]

    assert indexing.crowded(sized(*[100] * 7, 1, 5_000)) == []
    assert indexing.crowded(sized(*[100] * 7) + sized(100, scope="team")) == []
    assert indexing.crowded(sized(*range(100, 800, 50))) == sized(*range(100, 500, 50))
    assert indexing.crowded(sized(*[30_000] * 20)) == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_whoever_is_killed_at_any_step_leaves_what_the_next_one_finishes(db, small, before, monkeypatch):
    monkeypatch.setattr(indexing, "_TOGETHER", 2)
    step, killed = 0, True
    while killed:
        step += 1
        line = await building.new_line(db, name=f"facts-{step}", uid=f"u{step}")
        await building.import_records(db, line, {f"k{number}": f"text {number}" for number in range(20)})
        await publish(db, line, "k3", "new")
        dying = DyingDatabase(db, at=step, before=before)
        try:
            while await indexing.turn(dying):
                pass
            killed = False
        except KilledError:
            async with db.connection() as conn:
                if await progress(db, line):
                    await indexes.check(conn, line)
        await indexed(db, line)
    assert step > 5


async def test_two_at_once_index_nothing_twice(db, small):
    lines = []
    for name in ("one", "two"):
        line = await building.new_line(db, name=name, uid=name)
        await building.import_records(db, line, {f"k{number}": f"text {number}" for number in range(30)})
        lines.append(line)

    async def work():
        for _ in range(20):
            await indexing.turn(db)

    await asyncio.gather(work(), work(), work())
    for line in lines:
        await indexed(db, line)
        assert sum(one.documents for one in await segments(db, line)) == 30


async def test_a_line_that_cannot_be_indexed_does_not_hold_up_the_others(db, monkeypatch):
    poisoned, sound = [await building.new_line(db, name=name, uid=name) for name in ("poisoned", "sound")]
    await building.import_records(db, poisoned, {"poison": "x"})
    await building.import_records(db, sound, {"a": "x"})
    words_of = indexing.words_of

    def fail(key, body):
        if key == "poison":
            raise RuntimeError(key)
        return words_of(key, body)

    monkeypatch.setattr(indexing, "words_of", fail)
    for _ in range(4):
        try:
            await indexing.turn(db)
        except RuntimeError as error:
            assert str(error) == "poison"  # noqa: PT017  (it may come at any of the turns)
    assert (await progress(db, sound))["through"] == 1
    monkeypatch.undo()
    await indexed(db, poisoned)


async def test_what_retention_removes_leaves_the_index(db, small, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": f"first {number}" for number in range(24)})
    await indexed(db, line)
    for content in ("second", "third", "fourth"):
        await publish(db, line, *(f"k{number}" for number in range(20)), content=content)
    await indexed(db, line)
    assert sum(one.documents for one in await segments(db, line)) == 84
    await retaining.retain(db, line)
    await indexed(db, line)
    assert sum(one.documents for one in await segments(db, line)) == 84  # they were counted less than an hour ago
    monkeypatch.setattr(indexing, "_COUNTED_FOR", indexing.timedelta())
    await indexed(db, line)
    left = 4 + 20 + 20  # of the first, of the previous and of the current generation
    assert sum(one.documents for one in await segments(db, line)) == left
    async with db.connection() as conn:
        assert not await conn.fetchval("SELECT bool_or(recount) FROM search_segments WHERE line = $1", line)


async def test_an_index_of_which_little_is_gone_is_left_as_it_is(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": f"first {number}" for number in range(24)})
    await indexed(db, line)
    (before,) = await segments(db, line)
    for content in ("second", "third"):
        await publish(db, line, "k1", "k2", content=content)
    await retaining.retain(db, line)
    monkeypatch.setattr(indexing, "_COUNTED_FOR", indexing.timedelta())
    await indexed(db, line)
    assert before in await segments(db, line)


async def test_contents_of_any_size_are_read_in_bounded_pieces(db, monkeypatch):
    line = await building.new_line(db)
    contents = {f"k{number}": f"{number} " + "long " * 200 * (number % 5) for number in range(50)}
    await building.import_records(db, line, contents)
    monkeypatch.setattr(indexing, "_AT_ONCE", 3_000)
    read = []
    get_many = indexing.contents.get_many

    async def counting(conn, **what):
        found = await get_many(conn, **what)
        read.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(indexing.contents, "get_many", counting)
    await indexed(db, line)
    assert max(read) <= 5_010
    assert sum(read) > 90_000


async def test_an_index_is_made_only_by_the_operator(api_db, db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await indexing.turn(api_db)
    assert await segments(db, line) == []
