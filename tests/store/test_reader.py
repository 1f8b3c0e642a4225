"""Records that are asked for together: one statement and one snapshot for all, and each with an answer of its own."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.model.errors import GoneError, NotFoundError, UnavailableError
from anabranch.model.ids import new_line_id
from anabranch.store import lines, pruning, reader, records
from anabranch.store.reader import Reader

SHARED = ("shared",)


@pytest.fixture
async def line(db):
    """Three generations; `hidden` is in the scope `null`, which Postgres must not take for none."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "gone": 1, "hidden": 1}, scopes={"hidden": "null"})
    await building.publish_versions(db, line, version("a", 2))
    await building.publish_versions(db, line, version("gone"), version("a", 3))
    return line


@pytest.fixture
def statements(monkeypatch):
    """How many records each statement was asked for."""
    given = []
    read_each = records.read_each

    async def counted(conn, wanted):
        given.append(len(wanted))
        return await read_each(conn, wanted)

    monkeypatch.setattr(reader.records, "read_each", counted)
    return given


async def prune(db, line, generation):
    """Remove a generation, and what only it showed."""
    async with db.transaction() as conn:
        await pruning.drop(conn, line=line, generations=[generation])
    async with db.transaction() as conn:
        for gap in await pruning.unswept(conn, line):
            await pruning.sweep_versions(conn, line=line, after=gap.after, through=gap.through)


def read(reading, line, key="a", generation=None, scopes=SHARED):
    return reading.read(line=line, generation=generation, key=key, scopes=scopes)


async def test_records_that_are_asked_for_at_once_are_read_as_they_are_one_by_one(db, api_db, line, statements):
    other = await building.new_line(db, name="other")
    await building.import_records(db, other, {"a": 9})
    asked = [
        (of, generation, key, scopes)
        for of, generation in ((line, 1), (line, 2), (line, 3), (line, None), (other, 1), (other, None))
        for key in ("a", "gone", "hidden", "absent")
        for scopes in (None, (), SHARED, ("null",), ("shared", "null"))
    ]
    reading = Reader(api_db)
    answers = await asyncio.gather(*(read(reading, of, key, at, scopes) for of, at, key, scopes in asked))
    async with api_db.connection() as conn:
        for (of, at, key, scopes), answer in zip(asked, answers, strict=True):
            expected = await records.read(conn, line=of, generation=at, key=key, scopes=scopes)
            assert answer == expected, (of == line, at, key, scopes)
    assert sum(1 for _, record in answers if record is not None) == 42
    assert sum(statements) == len(asked)
    assert max(statements) == 32


async def test_records_of_two_lines_never_share_a_statement(db, api_db, line, monkeypatch):
    other = await building.new_line(db, name="other")
    await building.import_records(db, other, {"a": 9})
    read_each, together = records.read_each, []

    async def noted(conn, wanted):
        together.append({place.line for place, _ in wanted})
        return await read_each(conn, wanted)

    monkeypatch.setattr(reader.records, "read_each", noted)
    reading = Reader(api_db)
    answers = await asyncio.gather(*(read(reading, of) for of in (line, other) * 10))
    assert [record.body for _, record in answers] == [b"3", b"9"] * 10
    assert {frozenset(lines) for lines in together} == {frozenset([line]), frozenset([other])}
    assert not reading._coalescer._queues


async def test_the_first_is_read_for_at_once_and_who_comes_meanwhile_together(api_db, line, monkeypatch):
    given, gate = [], asyncio.Event()
    read_each = records.read_each

    async def gated(conn, wanted):
        given.append([key for _, key in wanted])
        await gate.wait()
        return await read_each(conn, wanted)

    monkeypatch.setattr(reader.records, "read_each", gated)
    reading = Reader(api_db)
    tasks = []
    for key in ("a", "b", "c", "d", "e"):
        tasks.append(asyncio.create_task(read(reading, line, key)))
        await asyncio.sleep(0.02)
    assert given == [["a"], ["b"]]
    gate.set()
    await asyncio.gather(*tasks)
    assert given == [["a"], ["b"], ["c", "d", "e"]]


async def test_each_is_answered_or_refused_by_itself(db, api_db, line):
    deleted = await building.new_line(db, name="deleted", uid="uid-2")
    await building.import_records(db, deleted, {"a": 1})
    empty = await building.new_line(db, name="empty", uid="uid-3")
    async with db.connection() as conn:
        await lines.mark_deleted(conn, line=deleted, uid="uid-2")
    await prune(db, line, 1)
    reading = Reader(api_db)
    asked = [(line, 2), (line, 1), (line, 4), (new_line_id(), None), (deleted, 1), (empty, None), (line, 0), (line, 3)]
    answers = await asyncio.gather(*(read(reading, of, "a", at) for of, at in asked), return_exceptions=True)
    first, *refused, last = answers
    assert (first[1].body, last[1].body) == (b"2", b"3")
    assert [type(one) for one in refused] == [GoneError, *[NotFoundError] * 5]


async def test_what_cannot_be_answered_to_one_is_not_the_answer_to_the_others(api_db, line, monkeypatch):
    read_each = records.read_each

    async def choosy(conn, wanted):
        if any(key == "poison" for _, key in wanted):
            raise UnavailableError("Not now.", hint="Try again.")
        return await read_each(conn, wanted)

    monkeypatch.setattr(reader.records, "read_each", choosy)
    reading = Reader(api_db)
    keys = ("a", "poison", "absent", "a")
    first, poison, absent, again = await asyncio.gather(
        *(read(reading, line, key) for key in keys), return_exceptions=True
    )
    assert (first[1].body, again[1].body, absent) == (b"3", b"3", (3, None))
    assert isinstance(poison, UnavailableError)
    assert (await read(reading, line))[0] == 3


async def test_who_hangs_up_keeps_nobody_from_an_answer(api_db, line, statements):
    reading = Reader(api_db)
    tasks = [asyncio.create_task(read(reading, line)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    answers = await asyncio.gather(*tasks[1:])
    assert [record.body for _, record in answers] == [b"3", b"3"]
    assert statements == [2]


async def test_current_is_resolved_and_read_in_one_snapshot_while_others_publish_and_prune(db, api_db, line):
    """What is read of `current` is what that generation holds, though it is pruned two publications later."""
    reading, published = Reader(api_db), asyncio.Event()
    seen, old = set(), set()

    async def readers():
        while not published.is_set():
            answers = await asyncio.gather(*(read(reading, line) for _ in range(8)))
            assert all(record.body == b"%d" % generation for generation, record in answers)
            seen.update(generation for generation, _ in answers)

    async def of_the_first():
        while not published.is_set():
            try:
                old.add((await read(reading, line, generation=3))[1].body)
            except GoneError:
                old.add(None)

    async def publisher():
        for generation in range(4, 24):
            await building.publish_versions(db, line, version("a", generation))
            await prune(db, line, generation - 2)  # the previous one is always kept
        published.set()

    await asyncio.wait_for(asyncio.gather(readers(), of_the_first(), publisher()), 30)
    assert len(seen) > 3
    assert old <= {b"3", None}
    assert None in old
