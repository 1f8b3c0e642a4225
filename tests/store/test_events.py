"""The feed: by pages, within scopes, and with the floor and watermark of the same moment."""

from __future__ import annotations

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.model.errors import NotFoundError
from anabranch.model.ids import new_line_id
from anabranch.store import events


@pytest.fixture
async def line(db):
    """Five events: shared, team, rollback, resumed, shared."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    await building.publish_versions(db, line, version("a", 2), version("b", 2, scope="team"))
    await building.move(db, line, to=1, kind="rollback", pinned=1)
    await building.move(db, line, to=2, kind="resumed", pinned=None)
    await building.publish_versions(db, line, version("a"))
    return line


async def after(db, line, sequence=0, *, limit=100, scopes=None):
    async with db.connection() as conn:
        return await events.after(conn, line=line, after_sequence=sequence, limit=limit, scopes=scopes)


def sequences(page):
    return [event.sequence for event in page.events]


async def test_the_feed_is_read_from_any_place(db, line):
    assert sequences(await after(db, line)) == [1, 2, 3, 4, 5]
    assert sequences(await after(db, line, 3)) == [4, 5]
    page = await after(db, line, 5)
    assert (sequences(page), page.next_sequence, page.watermark) == ([], 5, 5)


async def test_pages_go_on_where_the_one_before_ended(db, line):
    read, place = [], 0
    while page := (await after(db, line, place, limit=2)).events:
        read += [event.kind for event in page]
        place = page[-1].sequence
    assert read == ["published", "published", "rollback", "resumed", "tombstone"]


async def test_a_reader_sees_its_scopes_and_what_concerns_the_line(db, line):
    assert sequences(await after(db, line, scopes=["team"])) == [2, 3, 4]
    assert sequences(await after(db, line, scopes=[])) == [3, 4]


async def test_a_filtered_reader_still_moves_on(db, line):
    """What it may not see must not be read again for ever."""
    page = await after(db, line, 4, scopes=["team"])
    assert (page.events, page.next_sequence) == ([], 5)
    assert (await after(db, line, 0, scopes=["team"], limit=1)).next_sequence == 2


async def test_the_floor_says_what_was_pruned(db, line):
    async with db.transaction() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1 AND sequence <= 2", line)
        await conn.execute("UPDATE line_heads SET event_floor = 2 WHERE line = $1", line)
    page = await after(db, line)
    assert (page.floor, page.watermark, page.epoch) == (2, 5, 1)
    assert sequences(page) == [3, 4, 5]


async def test_a_reader_of_another_epoch_is_not_led_on(db, line):
    page = await after(db, line, 99)
    assert (page.events, page.watermark, page.next_sequence) == ([], 5, 99)


async def test_a_line_without_events_has_an_empty_feed(db):
    page = await after(db, await building.new_line(db, name="empty"))
    assert (page.events, page.watermark, page.floor, page.next_sequence) == ([], 0, 0, 0)


async def test_an_unknown_line_is_not_found(db):
    with pytest.raises(NotFoundError):
        await after(db, new_line_id())
