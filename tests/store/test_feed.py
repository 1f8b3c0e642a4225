"""A poll of the feed: it waits, wakes, forgets nothing of what its follower may see, and shows nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.pace import allowed
from tests.store import building
from tests.store.building import version

from anabranch.domain.cursor import Sealer
from anabranch.feed import waking
from anabranch.feed.cursor import Position, unseal
from anabranch.feed.expiry import CursorExpiredError
from anabranch.feed.poll import Feed
from anabranch.model.errors import ForbiddenError, GoneError
from anabranch.store import lines

SEALER = Sealer([b"sixteen bytes at least"])
ALL = {"shared", "team", "secret"}


def reads(*scopes: str):
    async def readable(asked: list[str]) -> list[str]:
        return [scope for scope in asked if scope in scopes]

    return readable


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    return line


@pytest.fixture
async def ear(api_db):
    async with waking.Waking(api_db) as ear:
        yield ear


@pytest.fixture
def feed(api_db, ear):
    return Feed(api_db, SEALER, ear)


async def poll(feed, line, start=None, *, wait=0.0, readable=None, limit=100):
    return await feed.poll(line, start=start, limit=limit, wait=wait, readable=readable or reads(*ALL))


def place(line, page) -> Position:
    return unseal(SEALER, line, page.cursor)


def keys(page) -> list[str]:
    return [event.key for event in page.events]


async def publish(db, line, *versions):
    await building.publish_versions(db, line, *versions)
    db.notify(waking.topic(line))


async def test_a_cursor_leads_from_poll_to_poll_without_gap_or_repetition(db, feed, line):
    await publish(db, line, version("a", 2), version("b", 1), version("c", 1))
    first = await poll(feed, line, limit=2)
    rest = await poll(feed, line, place(line, first))
    assert keys(first) + keys(rest) == ["a", "b", "c"]
    assert keys(await poll(feed, line, place(line, rest))) == []
    event = first.events[0]
    assert (event.kind, event.sequence, event.revision, event.generation) == ("published", 1, "2", 2)


async def test_a_poll_that_finds_nothing_waits_and_is_woken_by_a_publication(db, feed, line, monkeypatch):
    monkeypatch.setattr("anabranch.feed.poll.POLL_SECONDS", 60.0)  # so that nothing but the notification wakes it
    waiting = asyncio.create_task(poll(feed, line, wait=20.0))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    started = time.monotonic()
    await publish(db, line, version("late", 1))
    assert keys(await waiting) == ["late"]
    assert time.monotonic() - started < allowed(5)


async def test_a_lost_notification_costs_no_more_than_a_second(db, feed, line):
    waiting = asyncio.create_task(poll(feed, line, wait=20.0))
    await asyncio.sleep(0.3)
    started = time.monotonic()
    await building.publish_versions(db, line, version("quiet", 1))
    assert keys(await waiting) == ["quiet"]
    assert time.monotonic() - started < allowed(4)


async def test_a_poll_ends_when_its_time_is_over(feed, line):
    started = time.monotonic()
    page = await poll(feed, line, wait=0.4)
    assert page.events == ()
    assert 0.3 < time.monotonic() - started < allowed(5)


async def test_followers_are_let_go_when_the_process_ends(feed, ear, line):
    waiting = asyncio.create_task(poll(feed, line, wait=30.0))
    await asyncio.sleep(0.2)
    ear.end()
    page = await asyncio.wait_for(waiting, 20)
    assert page.events == ()


async def test_a_hidden_event_moves_the_cursor_and_shows_nothing(db, feed, line):
    await publish(db, line, version("x", 1, scope="secret"))
    page = await poll(feed, line, readable=reads("shared"))
    assert page.events == ()
    assert (page.watermark, place(line, page).sequence) == (1, 1)


async def test_an_event_in_a_scope_that_is_new_to_the_line_is_not_passed_over(db, feed, line, monkeypatch):
    """The scope comes between the moment that grants are asked and the moment that events are read."""
    asked = []

    async def readable(scopes: list[str]) -> list[str]:
        asked.append(list(scopes))
        if len(asked) == 1:
            await building.publish_versions(db, line, version("fresh", 1, scope="team"))
        return scopes

    page = await poll(feed, line, readable=readable)
    assert keys(page) == ["fresh"]
    assert asked == [["shared"], ["shared", "team"]]


async def test_a_grant_that_is_revoked_while_a_poll_waits_ends_it(db, feed, line):
    revoked = False

    async def readable(scopes: list[str]) -> list[str]:
        if revoked:
            raise ForbiddenError("No more.", hint="Ask.")
        return scopes

    waiting = asyncio.create_task(poll(feed, line, wait=20.0, readable=readable))
    await asyncio.sleep(0.2)
    revoked = True
    await publish(db, line, version("after the end", 1))
    with pytest.raises(ForbiddenError):
        await waiting


async def test_a_place_before_the_floor_is_gone_and_the_answer_leads_back(db, feed, line):
    await publish(db, line, version("a", 2), version("b", 1))
    await publish(db, line, version("c", 1))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1 AND sequence <= 2", line)
        await conn.execute("UPDATE line_heads SET event_floor = 2 WHERE line = $1", line)
    assert keys(await poll(feed, line)) == ["c"], "without a place it begins at the floor"
    assert keys(await poll(feed, line, Position(1, 2))) == ["c"]
    with pytest.raises(CursorExpiredError) as caught:
        await poll(feed, line, Position(1, 1))
    extra = caught.value.extra
    assert isinstance(caught.value, GoneError)
    assert (extra["floor"], extra["watermark"], extra["snapshot"]["generation"]) == (2, 3, 3)
    await publish(db, line, version("d", 1))
    assert keys(await poll(feed, line, unseal(SEALER, line, extra["cursor"]))) == ["d"]


async def test_after_a_rollback_the_snapshot_of_a_lost_follower_is_what_is_current(db, feed, line):
    """Its cursor is behind the rollback, and not behind the older manifest: that place may be gone for good."""
    await publish(db, line, version("a", 2))
    await building.move(db, line, to=1, kind="rollback", pinned=1)
    async with db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1", line)
        await conn.execute("UPDATE line_heads SET event_floor = 2 WHERE line = $1", line)
    with pytest.raises(CursorExpiredError) as caught:
        await poll(feed, line, Position(1, 0))
    assert (caught.value.extra["snapshot"]["generation"], caught.value.extra["head"]["generation"]) == (1, 2)
    assert (await poll(feed, line, unseal(SEALER, line, caught.value.extra["cursor"]))).events == ()


@pytest.mark.parametrize("start", [Position(2, 0), Position(0, 1), Position(1, 99)])
async def test_a_place_of_another_epoch_or_beyond_the_end_is_gone(db, feed, line, start):
    await publish(db, line, version("a", 2))
    with pytest.raises(CursorExpiredError):
        await poll(feed, line, start)


async def test_a_follower_can_begin_behind_a_manifest(db, feed, line):
    await publish(db, line, version("a", 2))
    await publish(db, line, version("b", 1))
    assert keys(await poll(feed, line, await feed.start_after(line, 2))) == ["b"]
    assert keys(await poll(feed, line, await feed.start_after(line, "1"))) == ["a", "b"]
    async with db.connection() as conn:
        assert (await feed.start_after(line, "head")).epoch == (await lines.head(conn, line)).epoch
