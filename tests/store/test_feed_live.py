"""Streams of a line's feed, on a real Postgres: in order, once, within grants and bounds, and read once for all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.api.frames import Frames
from anabranch.client.sse import Parser
from anabranch.domain.cursor import Sealer
from anabranch.feed import audience, channel, follower, reel, waking
from anabranch.feed.cursor import Position, unseal
from anabranch.feed.ends import (
    EndingError,
    FollowersError,
    GrantsChangedError,
    GrantsUnverifiableError,
    SlowConsumerError,
)
from anabranch.feed.expiry import CursorExpiredError
from anabranch.feed.live import Live
from anabranch.model.errors import ForbiddenError, NotFoundError, UnauthenticatedError, UnavailableError
from anabranch.store import events, lines, restoring

SEALER = Sealer([b"sixteen bytes at least"])


class Grants:
    """What an identity may read; may be taken away, and may be unanswered."""

    def __init__(self, *scopes: str) -> None:
        self.scopes = set(scopes or ("shared", "team", "secret"))
        self.asked = []
        self.error = None
        self.silent = None

    async def readable(self, scopes: list[str]) -> list[str]:
        self.asked.append(scopes)
        if self.silent is not None:
            await self.silent.wait()
        if self.error is not None:
            raise self.error
        return [scope for scope in scopes if scope in self.scopes]


class Stream:
    """A follower whose client reads everything at once."""

    def __init__(self, line, live, follower):
        self.line, self.live, self.follower = line, live, follower
        self.items = []
        self.cursor = None
        self.pause = 0.0
        self.task = asyncio.create_task(self._read())

    async def _read(self):
        parser = Parser()
        while (body := await self.follower.take()) is not None:
            await asyncio.sleep(self.pause)
            for message in parser.feed(body):
                self.cursor = message.last_id
                self.items.append(json.loads(message.data)["data"] if message.data else "bookmark")
        self.follower.close()
        return self.follower.error

    @property
    def keys(self):
        return [item["key"] for item in self.items if item != "bookmark"]

    @property
    def place(self):
        return unseal(SEALER, self.line, self.cursor)

    async def until(self, look, within=60.0):
        await wait_for(lambda: look(self), within)

    async def ended(self, within=60.0):
        return await asyncio.wait_for(asyncio.shield(self.task), within)


async def wait_for(look, within=60.0):
    async with asyncio.timeout(within):
        while not look():  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.01)


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
async def live(api_db, ear):
    return Live(api_db, SEALER, ear)


@pytest.fixture
async def streams(live, line):
    """Opens streams of the line, and closes them."""
    opened = []

    async def open_stream(start=None, *, grants=None, key=None, who="ada", identify=None, begins=True):
        grants = grants or Grants()

        async def good():
            return None

        made = live.follow(
            line,
            start=start,
            key=key or grants,
            who=who,
            readable=grants.readable,
            identify=identify or good,
            wire=lambda: Frames(line, SEALER, source="/v1/namespaces/team/baselines/facts"),
        )
        try:
            if begins:
                await made.begin()
        except BaseException:
            made.close()
            raise
        opened.append(Stream(line, live, made))
        return opened[-1]

    yield open_stream
    for stream in opened:
        stream.follower.end(None)
        await stream.task
    await asyncio.sleep(0)
    assert len(live) == 0
    assert live._channels == {}


async def publish(db, line, *versions):
    await building.publish_versions(db, line, *versions)
    db.notify(waking.topic(line))


def watched(monkeypatch):
    """The places after which the feed was read."""
    reads, real = [], events.after

    async def after(conn, **where):
        reads.append(where["after_sequence"])
        return await real(conn, **where)

    monkeypatch.setattr(events, "after", after)
    return reads


async def test_a_stream_brings_what_was_missed_and_goes_on_with_what_comes_each_once_and_in_order(db, line, streams):
    await publish(db, line, version("a", 2), version("b", 1))
    stream = await streams()
    await stream.until(lambda s: s.keys == ["a", "b"] and s.items[-1] == "bookmark")
    await publish(db, line, version("c", 1), version("a"))
    await stream.until(lambda s: len(s.keys) == 4)
    assert stream.keys == ["a", "b", "c", "a"]
    assert [item["sequence"] for item in stream.items if item != "bookmark"] == [1, 2, 3, 4]
    assert stream.place == Position(1, 4)


async def test_moves_of_the_line_come_in_the_order_of_the_writes(db, line, streams):
    stream = await streams()
    await publish(db, line, version("a", 2), version("b", 1))
    await publish(db, line, version("b"))
    await building.move(db, line, to=2, kind="rollback", pinned=2)
    await building.move(db, line, to=3, kind="resumed", pinned=None)
    await restoring.restore(db, line=line, generation=2, restore_id="back")
    await publish(db, line, version("c", 1))
    db.notify(waking.topic(line))
    await stream.until(lambda s: len([item for item in s.items if item != "bookmark"]) == 7)
    kinds = [item["kind"] for item in stream.items if item != "bookmark"]
    assert kinds == ["published", "published", "tombstone", "rollback", "resumed", "restored", "published"]


async def test_all_followers_of_a_line_cost_one_read_a_look(db, line, streams, monkeypatch):
    await publish(db, line, version("a", 2))
    grants = Grants()
    everyone = [await streams(Position(1, 1), grants=grants, key="one") for _ in range(20)]
    reads = watched(monkeypatch)
    await publish(db, line, version("b", 1))
    await asyncio.gather(*(stream.until(lambda s: s.keys == ["b"]) for stream in everyone))
    assert len(reads) <= 3, "one that found it, and perhaps one after each notification and poll"
    assert len(grants.asked) <= 2, "all of one identity are asked about at once"


async def test_who_comes_back_after_a_moment_reads_nothing_from_the_store(db, line, streams, monkeypatch):
    first = await streams()
    await publish(db, line, version("b", 1), version("c", 1))
    await first.until(lambda s: s.keys == ["b", "c"])
    reads = watched(monkeypatch)
    again = await streams(Position(1, 1))
    await again.until(lambda s: s.keys == ["c"] and s.items[-1] == "bookmark")
    assert 1 not in reads


async def test_each_sees_its_scopes_and_the_others_cursors_move_all_the_same(db, line, streams, monkeypatch):
    monkeypatch.setattr(channel, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(channel, "POLL_SECONDS", 0.05)
    wide, narrow = await streams(), await streams(grants=Grants("shared"))
    await publish(db, line, version("x", 1, scope="secret"))
    await narrow.until(lambda s: s.place.sequence == 1)
    await publish(db, line, version("y", 1))
    await narrow.until(lambda s: s.keys == ["y"])
    await wide.until(lambda s: s.keys == ["x", "y"])


async def test_an_event_in_a_scope_that_is_new_to_the_line_waits_for_the_answer_about_it(db, line, streams):
    grants = Grants()
    stream = await streams(grants=grants)
    await publish(db, line, version("fresh", 1, scope="team"))
    await stream.until(lambda s: s.keys == ["fresh"])
    assert grants.asked[-1] == ["shared", "team"]


async def test_followers_that_join_while_much_is_published_miss_nothing_and_get_nothing_twice(
    db, line, streams, monkeypatch
):
    monkeypatch.setattr(reel, "PAGE", 3)
    chance = random.Random(6)
    written = 0

    async def write():
        nonlocal written
        for number in range(40):
            await publish(db, line, *(version(f"k{number}-{i}", number) for i in range(chance.randint(1, 4))))
        async with db.connection() as conn:
            written = (await lines.head(conn, line)).event_sequence

    async def join():
        made = []
        for _ in range(25):
            await asyncio.sleep(chance.random() * 0.02)
            async with db.connection() as conn:
                now = (await lines.head(conn, line)).event_sequence
            made.append((begin := chance.randint(0, now), await streams(Position(1, begin))))
        return made

    _, made = await asyncio.gather(write(), join())
    for begin, stream in made:
        await stream.until(lambda s, begin=begin: len(s.keys) >= written - begin)
        found = [item["sequence"] for item in stream.items if item != "bookmark"]
        assert found == list(range(begin + 1, written + 1))


async def test_what_is_published_while_a_followers_grants_are_asked_is_not_missed(db, line, streams):
    first = await streams()

    class Slow(Grants):
        async def readable(self, scopes):
            if not self.asked:
                await publish(db, line, version("meanwhile", 1))
                await first.until(lambda s: s.keys == ["meanwhile"])
            return await super().readable(scopes)

    late = await streams(Position(1, 0), grants=Slow())
    await late.until(lambda s: s.keys == ["meanwhile"])
    await publish(db, line, version("later", 1))
    await late.until(lambda s: s.keys == ["meanwhile", "later"])


async def test_many_events_at_once_end_no_stream_of_those_who_read(db, line, streams):
    stream = await streams()
    stream.pause = 0.05  # for each piece: longer than it takes to read it from the store
    await publish(db, line, *(version(f"many/{number:04}", 1) for number in range(2_000)))
    await stream.until(lambda s: len(s.keys) == 2_000)
    assert not stream.task.done()


async def test_who_does_not_read_is_let_go_and_the_others_go_on(db, line, streams, monkeypatch):
    monkeypatch.setattr(channel, "_SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(follower, "FOLLOWER_EVENTS", 10)
    reading = await streams()
    stuck = await streams()
    stuck.task.cancel()  # its client takes nothing any more
    with contextlib.suppress(asyncio.CancelledError):
        await stuck.task
    ends = []
    stuck.follower.on_end = lambda: ends.append(True)
    for number in range(5):
        await publish(db, line, version(f"a{number}", 1), version(f"b{number}", 1), version(f"c{number}", 1))
    await reading.until(lambda s: len(s.keys) == 15)
    assert isinstance(stuck.follower.error, SlowConsumerError)
    assert ends == [True]
    assert stuck.follower.is_idle, "what waited for it is forgotten"
    stuck.task = asyncio.create_task(stuck._read())


async def test_what_is_sent_at_once_never_overtakes_what_was_taken_before_it(db, line, streams):
    stream = await streams()
    stream.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stream.task
    sent, made = [], stream.follower
    made.write = lambda body: bool(sent.append(body)) or True
    assert b"bookmark" in await made.take()  # taken, and perhaps not sent yet
    await publish(db, line, version("first", 1))
    await wait_for(lambda: not made.is_idle)
    assert sent == []
    assert b"first" in await made.take()
    waiting = asyncio.create_task(made.take())
    await asyncio.sleep(0)
    await publish(db, line, version("second", 1))
    await wait_for(lambda: sent)
    assert b"second" in sent[0]
    assert not waiting.done()
    made.write = lambda _: False  # its client is not done with what came before
    await publish(db, line, version("third", 1))
    assert b"third" in await waiting
    stream.task = asyncio.create_task(stream._read())


async def test_bytes_are_bounded_as_events_are(db, line, streams, monkeypatch):
    monkeypatch.setattr(follower, "FOLLOWER_BYTES", 3_000)
    stuck = await streams(begins=False)
    stuck.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stuck.task
    await stuck.follower.begin()
    for number in range(4):
        await publish(db, line, version("k" * 500 + str(number), 1))
        await asyncio.sleep(0.1)
    assert isinstance(stuck.follower.error, SlowConsumerError)
    stuck.task = asyncio.create_task(stuck._read())


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(audience, "SURE_SECONDS", 0.3)
    monkeypatch.setattr(audience, "_AGAIN_SECONDS", 0.05)


async def test_a_grant_that_is_gone_ends_the_streams_of_its_holder_and_no_other(db, line, streams, quick):
    grants = Grants()
    one, two, other = await streams(grants=grants), await streams(grants=grants), await streams()
    grants.error = ForbiddenError("No more.", hint="Ask.")
    assert [type(await stream.ended()) for stream in (one, two)] == [ForbiddenError, ForbiddenError]
    await publish(db, line, version("later", 1))
    await other.until(lambda s: s.keys == ["later"])
    assert one.keys == []


async def test_a_grant_that_is_gone_ends_a_replay(db, line, streams, quick, monkeypatch):
    monkeypatch.setattr(reel, "PAGE", 1)
    await publish(db, line, *(version(f"k{number}", 1) for number in range(5)))
    grants = Grants()
    stream = await streams(Position(1, 0), grants=grants)
    stream.task.cancel()  # a client that is slow to read what it missed
    with contextlib.suppress(asyncio.CancelledError):
        await stream.task
    grants.error = NotFoundError("Nothing here.", hint="Ask.")
    await asyncio.sleep(0.5)
    stream.task = asyncio.create_task(stream._read())
    assert isinstance(await stream.ended(), NotFoundError)
    assert len(stream.keys) <= 1


async def test_a_scope_that_is_taken_away_is_seen_no_longer(db, line, streams, quick):
    grants = Grants("shared", "team")
    stream = await streams(grants=grants)
    await publish(db, line, version("before", 1, scope="team"))
    await stream.until(lambda s: s.keys == ["before"])
    grants.scopes = {"shared"}
    await asyncio.sleep(0.3)
    await publish(db, line, version("after", 1, scope="team"))
    await publish(db, line, version("shown", 1))
    await stream.until(lambda s: "shown" in s.keys)
    assert stream.keys == ["before", "shown"]


async def test_events_wait_while_nobody_says_whether_they_may_be_seen(db, line, streams, quick):
    grants = Grants()
    stream = await streams(grants=grants)
    grants.silent = asyncio.Event()
    await asyncio.sleep(0.5)
    await publish(db, line, version("held", 1))
    await asyncio.sleep(0.3)
    assert stream.keys == []
    grants.silent.set()
    await stream.until(lambda s: s.keys == ["held"])


async def test_what_waits_for_a_slow_client_is_not_given_once_its_scope_is_taken_away(db, line, streams, quick):
    grants = Grants("shared", "team")
    slow, idle = await streams(Position(1, 0), grants=grants), await streams(Position(1, 0), grants=grants)
    await slow.until(lambda s: s.items == ["bookmark"])
    slow.pause = 0.6
    await publish(db, line, version("before", 1))
    await idle.until(lambda s: s.keys == ["before"])
    await publish(db, line, version("waits", 1, scope="team"))
    await idle.until(lambda s: s.keys == ["before", "waits"])
    grants.scopes = {"shared"}
    assert isinstance(await slow.ended(), GrantsChangedError)
    assert slow.keys == ["before"]
    assert not idle.task.done()


async def test_a_stream_whose_grants_cannot_be_asked_ends_and_says_so(streams, quick):
    grants = Grants()
    stream = await streams(grants=grants)
    grants.error = UnavailableError("Away.", hint="Wait.")
    assert isinstance(await stream.ended(), GrantsUnverifiableError)


async def test_grants_are_asked_at_the_start_whatever_is_remembered(streams):
    grants = Grants()
    grants.error = ForbiddenError("No.", hint="Ask.")
    with pytest.raises(ForbiddenError):
        await streams(grants=grants)


async def test_a_token_that_is_not_good_any_more_ends_its_stream(streams, monkeypatch):
    monkeypatch.setattr(follower, "IDENTIFY_SECONDS", 0.0)
    monkeypatch.setattr(channel, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(channel, "POLL_SECONDS", 0.05)

    async def identify():
        raise UnauthenticatedError("Expired.", hint="Mint one.")

    key = Grants()
    expired, other = await streams(grants=key, identify=identify), await streams(grants=key)
    assert isinstance(await expired.ended(), UnauthenticatedError)
    assert not other.task.done()


async def test_silence_is_filled_so_that_both_ends_know_that_the_other_is_there(line, streams, monkeypatch):
    monkeypatch.setattr(channel, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(channel, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(channel, "BEAT_SECONDS", 0.05)
    stream = await streams()
    stream.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stream.task
    await stream.follower.take()
    assert await asyncio.wait_for(stream.follower.take(), 60) == b":\n\n"
    stream.task = asyncio.create_task(stream._read())


async def test_streams_end_when_the_process_does_and_no_new_ones_begin(streams, ear):
    stream = await streams()
    ear.end()
    assert isinstance(await stream.ended(), EndingError)
    with pytest.raises(EndingError):
        await streams()


async def test_a_process_takes_so_many_followers_and_no_more(streams, monkeypatch):
    monkeypatch.setattr("anabranch.feed.live.FOLLOWERS", 1)
    await streams()
    with pytest.raises(FollowersError):
        await streams()


async def test_one_name_leaves_places_to_others_whatever_token_it_shows(streams, monkeypatch):
    monkeypatch.setattr("anabranch.feed.live.FOLLOWERS_OF_ONE", 2)
    first = await streams(key="of one pod")
    await streams(key="of another")
    with pytest.raises(FollowersError, match="by your name"):
        await streams(key="of a third")
    await streams(who="bob")
    first.follower.end(None)
    await first.task
    await streams(key="of a third")


async def test_a_restore_from_backup_ends_the_streams_with_the_way_back(db, line, streams):
    stream = await streams()
    async with db.connection() as conn:
        await conn.execute("UPDATE line_heads SET epoch = 2 WHERE line = $1", line)
    error = await stream.ended()
    assert isinstance(error, CursorExpiredError)
    again = await streams(unseal(SEALER, line, error.extra["cursor"]))
    await publish(db, line, version("new", 1))
    await again.until(lambda s: s.keys == ["new"])


async def test_a_place_that_the_feed_does_not_reach_is_refused_before_the_stream_begins(db, line, streams):
    await publish(db, line, version("a", 2), version("b", 1))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM events WHERE line = $1 AND sequence <= 1", line)
        await conn.execute("UPDATE line_heads SET event_floor = 1 WHERE line = $1", line)
    for start in (Position(1, 0), Position(2, 1), Position(1, 9)):
        with pytest.raises(CursorExpiredError):
            await streams(start)
    stream = await streams()
    await stream.until(lambda s: s.keys == ["b"])


async def test_streams_of_a_deleted_baseline_end(db, line, streams, monkeypatch):
    monkeypatch.setattr(channel, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(channel, "POLL_SECONDS", 0.05)
    stream = await streams()
    async with db.connection() as conn:
        await lines.mark_deleted(conn, line=line, uid="uid-1")
    assert isinstance(await stream.ended(), NotFoundError)


async def test_a_store_that_is_away_for_a_moment_costs_only_time(db, line, streams, monkeypatch):
    monkeypatch.setattr(channel, "POLL_SECONDS", 0.05)
    stream = await streams()
    real, failures = events.after, []

    async def after(conn, **where):
        if len(failures) < 3:
            failures.append(1)
            raise UnavailableError("Postgres is away.", hint="Wait.")
        return await real(conn, **where)

    monkeypatch.setattr(events, "after", after)
    await publish(db, line, version("late", 1))
    await stream.until(lambda s: s.keys == ["late"])
    assert len(failures) == 3


async def test_a_defect_ends_the_streams_instead_of_leaving_them_without_news(db, line, streams, monkeypatch):
    stream = await streams()

    async def after(conn, **where):
        raise ZeroDivisionError

    monkeypatch.setattr(events, "after", after)
    await publish(db, line, version("x", 1))
    assert type(await stream.ended()) is UnavailableError
