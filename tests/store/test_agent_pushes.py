"""Streams of an agent's events: claimed within a window, shared with every other taker, ended with the grant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from datetime import timedelta

import pytest
from tests.store.chatting import raw, told
from tests.store.served import serving
from tests.store.world import AGENTS

from anabranch.api import frames
from anabranch.client.sse import Parser
from anabranch.feed import audience
from anabranch.feed.ends import EndingError, FollowersError, GrantsUnverifiableError
from anabranch.identity import grants
from anabranch.memory import delivery, pushing
from anabranch.model.errors import ForbiddenError, NotFoundError, UnauthenticatedError, UnavailableError
from anabranch.model.memory import AgentKey

ADA = AgentKey(namespace=AGENTS, agent_id="ada", instance="default")
MINUTES = timedelta(minutes=10)


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


class Stream:
    """A stream whose client reads everything at once."""

    def __init__(self, push):
        self.push = push
        self.events = []
        self.beats = 0
        self.task = asyncio.create_task(self._read())

    async def _read(self):
        parser = Parser()
        while (body := await self.push.take()) is not None:
            self.beats += body.startswith(b":")
            self.events += [json.loads(message.data) for message in parser.feed(body) if message.data]
        self.push.close()
        return self.push.error

    async def until(self, look, within=60.0):
        async with asyncio.timeout(within):
            while not look(self):  # noqa: ASYNC110  (nothing tells it)
                await asyncio.sleep(0.01)

    async def ended(self, within=60.0):
        return await asyncio.wait_for(asyncio.shield(self.task), within)


class Answers:
    """What is said of a grant: nothing, for as long as there is no answer."""

    def __init__(self):
        self.error = None
        self.silent = False
        self.asked = 0

    async def still(self):
        self.asked += 1
        if self.silent:
            raise UnavailableError("The API server is away.")
        if self.error is not None:
            raise self.error


@pytest.fixture
async def streams(served):
    """Opens streams of ada's events, and closes them."""
    opened = []

    async def open_stream(answers=None, *, window=10, visibility=MINUTES, identify=None, who=ADA):
        async def good():
            return None

        push = served.parts.pushes.push(
            who,
            key=object() if answers is None else answers,
            still=(answers or Answers()).still,
            identify=identify or good,
            window=window,
            visibility=visibility,
            frame=frames.agent_event,
        )
        try:
            await push.begin()
        except BaseException:
            push.close()
            raise
        opened.append(Stream(push))
        return opened[-1]

    yield open_stream
    for stream in opened:
        stream.push.end(None)
        await stream.ended()
    assert len(served.parts.pushes) == 0


async def test_events_come_as_they_happen_and_those_that_waited_come_first(served, streams, monkeypatch):
    monkeypatch.setattr(pushing, "LOOK_SECONDS", 3_600.0)  # so that nothing but the notice wakes it
    await told(served, count=2)
    stream = await streams()
    await stream.until(lambda s: len(s.events) == 2)
    await told(served)
    await stream.until(lambda s: len(s.events) == 3)
    assert len({event["claimid"] for event in stream.events}) == 3
    digests = [len(event["data"]["memoryDigest"]["entries"]) for event in stream.events]
    assert digests == [2, 0, 3], "what nobody has acknowledged is told again, once in all that is claimed together"
    assert await delivery.claim(served.parts.stores.default.db, ADA, limit=10, visibility=MINUTES) == []


async def test_no_more_are_out_than_the_window_and_each_that_is_settled_makes_room(served, streams, monkeypatch):
    monkeypatch.setattr(pushing, "LOOK_SECONDS", 3_600.0)  # so that nothing but the notice wakes it
    stream = await streams(window=2)
    await told(served, "ada", count=5)
    await stream.until(lambda s: len(s.events) == 2)
    await asyncio.sleep(0.3)
    assert len(stream.events) == 2
    ada = await served.client("ada")
    first, second = stream.events
    await ada.ack_event(AGENTS, "ada", first["id"], first["claimid"])
    await stream.until(lambda s: len(s.events) == 3)
    await ada.fail_event(AGENTS, "ada", second["id"], second["claimid"], error="so")
    await stream.until(lambda s: len(s.events) == 4)
    assert [event["attempts"] for event in stream.events] == [1, 1, 1, 1]


async def test_what_is_past_its_deadline_makes_room_and_comes_again(served, streams, monkeypatch):
    monkeypatch.setattr(pushing, "LOOK_SECONDS", 0.05)
    await told(served, "ada")
    stream = await streams(window=1, visibility=timedelta(seconds=0.2))
    await stream.until(lambda s: len(s.events) == 3)
    assert [event["attempts"] for event in stream.events] == [1, 2, 3]
    assert len({event["claimid"] for event in stream.events}) == 3
    client = await served.client("ada")
    async with asyncio.timeout(60):
        while [one.status async for one in client.queued_events(AGENTS, "ada")] != ["failed"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    assert len(stream.events) == 3


async def test_streams_and_polls_of_one_instance_never_share_an_event(served, streams):
    opened = [await streams(window=100) for _ in range(3)]
    polled = []

    async def poll():
        while True:
            polled.extend(await delivery.claim(served.parts.stores.default.db, ADA, limit=3, visibility=MINUTES))
            await asyncio.sleep(0.01)

    polling = asyncio.create_task(poll())
    await told(served, "ada", count=30)
    got = lambda: [event["id"] for stream in opened for event in stream.events] + [event.id for event in polled]  # noqa: E731
    await opened[0].until(lambda _: len(got()) >= 30)
    await asyncio.sleep(0.2)
    polling.cancel()
    assert len(got()) == len(set(got())) == 30


async def test_another_instances_events_do_not_come(served, streams):
    night = await streams(who=AgentKey(namespace=AGENTS, agent_id="ada", instance="night"))
    await told(served, "ada", "ada/night")
    await night.until(lambda s: s.events)
    await asyncio.sleep(0.2)
    assert [event["source"].rpartition("/")[2] for event in night.events] == ["night"]


async def test_a_grant_that_is_gone_ends_the_stream_and_nothing_is_claimed_after_it(served, streams, monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.1)
    answers = Answers()
    stream = await streams(answers)
    answers.error = ForbiddenError("No.", hint="")
    assert await stream.ended() is answers.error
    await told(served, "ada")
    assert [
        event.attempts
        for event in await delivery.claim(served.parts.stores.default.db, ADA, limit=10, visibility=MINUTES)
    ] == [1]


async def test_while_it_is_unsure_nothing_is_claimed_and_the_stream_ends_if_it_stays_so(served, streams, monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(audience, "SURE_SECONDS", 0.3)
    monkeypatch.setattr(audience, "_AGAIN_SECONDS", 0.6)
    answers = Answers()
    stream = await streams(answers)
    answers.silent = True
    async with asyncio.timeout(30):
        while stream.push.audience.is_sure():  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.01)
    await told(served, "ada")
    assert isinstance(await stream.ended(), GrantsUnverifiableError)
    assert stream.events == []
    assert [
        event.attempts
        for event in await delivery.claim(served.parts.stores.default.db, ADA, limit=10, visibility=MINUTES)
    ] == [1]


async def test_what_was_claimed_waits_for_the_answer_whether_it_may_be_sent(served, streams, monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 60.0)
    claim = delivery.claim

    async def slow(*arguments, **options):
        found = await claim(*arguments, **options)
        if found:
            stream.push.audience._sure_until = 0.0  # it took long
        return found

    monkeypatch.setattr(delivery, "claim", slow)
    answers = Answers()
    stream = await streams(answers)
    await told(served, "ada")
    await asyncio.sleep(0.5)
    assert stream.events == []
    await stream.push.audience.learn(())
    await stream.until(lambda s: len(s.events) == 1)


async def test_streams_of_one_identity_ask_once(served, streams, monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.2)
    answers, began = Answers(), time.monotonic()
    for _ in range(5):
        await streams(answers)
    await asyncio.sleep(1.0)
    async with asyncio.timeout(60):
        while answers.asked < 2:  # noqa: ASYNC110  (nothing tells it)
            await asyncio.sleep(0.01)
    assert answers.asked <= 3 + (time.monotonic() - began) / 0.2


async def test_a_token_that_is_not_good_any_more_ends_its_stream(streams, monkeypatch):
    monkeypatch.setattr(pushing, "IDENTIFY_SECONDS", 0.1)
    errors = [UnavailableError("Away."), UnauthenticatedError("It ran out.")]

    async def identify():
        raise errors.pop(0)

    stream = await streams(identify=identify)
    assert isinstance(await stream.ended(), UnauthenticatedError)


async def test_a_stream_says_that_it_lives(streams, monkeypatch):
    monkeypatch.setattr(pushing, "BEAT_SECONDS", 0.1)
    stream = await streams()
    await stream.until(lambda s: s.beats >= 3)
    assert stream.events == []


async def test_a_process_that_ends_lets_its_streams_go_and_begins_none(served, streams):
    stream = await streams()
    served.parts.stores.default.waking.end()
    assert isinstance(await stream.ended(), EndingError)
    with pytest.raises(EndingError):
        await streams()


async def test_one_instance_has_so_many_streams_and_the_next_one_gets_its_place_when_one_leaves(streams, monkeypatch):
    monkeypatch.setattr(pushing, "STREAMS_OF_ONE", 2)
    first, _ = await streams(), await streams()
    with pytest.raises(FollowersError):
        await streams()
    await streams(who=AgentKey(namespace=AGENTS, agent_id="bob", instance="default"))
    first.push.end(None)
    await first.ended()
    await streams()


async def test_a_stream_goes_on_when_the_store_was_away(served, streams, monkeypatch):
    monkeypatch.setattr(pushing, "LOOK_SECONDS", 0.05)
    claim, away = delivery.claim, [True]

    async def failing(*arguments, **options):
        if away:
            raise UnavailableError("Postgres is away.")
        return await claim(*arguments, **options)

    monkeypatch.setattr(delivery, "claim", failing)
    stream = await streams()
    await told(served, "ada")
    await asyncio.sleep(0.2)
    away.clear()
    await stream.until(lambda s: len(s.events) == 1)


async def test_a_stream_that_may_not_begin_is_a_problem_and_takes_no_place(served):
    events, ada = f"/v1/namespaces/{AGENTS}/agents/ada/default/events", await served.client("ada")
    headers = {"Accept": "text/event-stream"}
    for params in ({"status": "acked"}, {"limit": 3}, {"window": 0}):
        assert (await raw(ada, "GET", events, headers=headers, params=params)).status_code == 422
    assert (await raw(ada, "GET", events, params={"window": 3})).status_code == 422
    served.world.permissions.deny(grants.OWN_MEMORY)
    assert (await raw(ada, "GET", events, headers=headers)).status_code == 403
    assert len(served.parts.pushes) == 0


async def test_a_client_streams_over_http_until_its_grant_is_gone(served, monkeypatch):
    monkeypatch.setattr(audience, "ASK_SECONDS", 0.2)
    client = await served.client("ada")
    await told(served, "fleet", count=2)
    async with contextlib.aclosing(client.agent_events(AGENTS, "fleet")) as events:
        found = [await anext(events), await anext(events)]
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0.3)
        served.world.permissions.deny(grants.USE_AGENT_ID)
        with pytest.raises(NotFoundError):
            await asyncio.wait_for(waiting, 60)
    assert [event.attempts for event in found] == [1, 1]
    assert len(served.parts.pushes) == 0
