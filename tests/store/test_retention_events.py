"""The feed is shortened from its beginning, together with its floor; archives go once they are imported."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.building import version
from tests.store.retaining import LONG, retain
from tests.store.world import World

from anabranch.baselines import retention as service
from anabranch.model.canonical import hash_text, sha256
from anabranch.store import archives, events, retention

DAY = timedelta(days=1)
KEEPING = {"age": LONG, "generations": 100, "completed_runs": LONG}


@pytest.fixture
async def line(db):
    """Ten events, the first six of them old."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    for number in range(10):
        await building.publish_versions(db, line, version("a", number))
    async with db.connection() as conn:
        await conn.execute("UPDATE events SET created_at = created_at - interval '8 days' WHERE sequence <= 6")
    return line


async def feed(db, line, *, after=0):
    async with db.connection() as conn:
        return await events.after(conn, line=line, after_sequence=after, limit=1_000, scopes=None)


async def test_the_floor_moves_with_the_events_that_go(db, line):
    await retain(db, line, **KEEPING, events=7 * DAY)
    page = await feed(db, line)
    assert (page.floor, page.watermark) == (6, 10)
    assert [event.sequence for event in page.events] == [7, 8, 9, 10]
    await retain(db, line, **KEEPING, events=7 * DAY)
    assert (await feed(db, line)).floor == 6


async def test_new_events_go_on_from_the_watermark_when_all_are_gone(db, line):
    await retain(db, line, **KEEPING)
    page = await feed(db, line)
    assert (page.floor, page.watermark, list(page.events)) == (10, 10, [])
    await building.publish_versions(db, line, version("a", "next"))
    assert [event.sequence for event in (await feed(db, line, after=10)).events] == [11]


async def test_they_go_some_at_a_time_and_each_time_with_the_floor(db, line):
    async with db.connection() as conn:
        before = await conn.fetchval("SELECT now() - interval '7 days'")
    floors = []
    for _ in range(4):
        async with db.transaction() as conn:
            await retention.prune_events(conn, line=line, before=before, limit=4)
        page = await feed(db, line)
        assert page.events[0].sequence == page.floor + 1
        floors.append(page.floor)
    assert floors == [4, 6, 6, 6]


async def test_an_event_behind_a_younger_one_stays_so_that_there_is_no_gap(db, line):
    """A clock that was set back has dated them so."""
    async with db.connection() as conn:
        await conn.execute("UPDATE events SET created_at = now() WHERE sequence = 3")
    await retain(db, line, **KEEPING, events=7 * DAY)
    page = await feed(db, line)
    assert (page.floor, [event.sequence for event in page.events]) == (2, list(range(3, 11)))


async def test_a_reader_never_sees_a_gap_above_the_floor(db, line, monkeypatch):
    monkeypatch.setattr(service, "_EVENTS", 1)
    done = asyncio.Event()

    async def read():
        seen = 0
        while not done.is_set():
            page = await feed(db, line)
            assert [event.sequence for event in page.events] == list(range(page.floor + 1, page.watermark + 1))
            seen += 1
        return seen

    async def publish_and_prune():
        for number in range(15):
            await building.publish_versions(db, line, version("a", f"more {number}"))
            await retain(db, line, **KEEPING)
        done.set()

    reads, _ = await asyncio.gather(read(), publish_and_prune())
    assert reads > 10


async def upload(db, line, body):
    async def chunks():
        yield body

    await archives.save(db, line=line, digest=sha256(body), uploaded_by="ada", chunks=chunks())
    return sha256(body)


async def known(db, line, *digests):
    async with db.connection() as conn:
        return [await archives.find(conn, line=line, digest=digest) is not None for digest in digests]


async def test_an_archive_goes_soon_after_its_import_and_one_that_nobody_imports_after_a_week(db, line):
    imported, other = await upload(db, line, b"imported"), await upload(db, line, b"other")
    async with db.connection() as conn:
        await conn.execute("UPDATE lines SET import_digest = $1", imported)
    await retain(db, line)
    assert await known(db, line, imported, other) == [True, True]
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=timedelta(hours=2))
    await retain(db, line)
    assert await known(db, line, imported, other) == [False, True]
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=7 * DAY)
    await retain(db, line)
    assert await known(db, line, imported, other) == [False, False]
    async with db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM archive_chunks") == 0


async def test_a_baseline_does_not_miss_an_archive_that_it_has_imported(db):
    world = World(db)
    line = (await world.import_documents({"a": "1"})).line.line
    digest = sha256(b"an archive")
    async with db.connection() as conn:
        await conn.execute("UPDATE lines SET import_digest = $1", digest)
    await world.apply_baseline(generation=2, **{"import": {"archive": {"digest": hash_text(digest)}}})
    assert await world.conditions(line) == {}
