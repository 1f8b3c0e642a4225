"""The client that follows: over real sockets, from break to break, by stream and by poll."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

import pytest

from anabranch.client import AnabranchClient, streams
from anabranch.model.cloudevents import envelope
from anabranch.model.errors import (
    AnabranchError,
    ForbiddenError,
    GoneError,
    UnauthenticatedError,
    UnavailableError,
)
from anabranch.model.objects import SharedEvent

HANG = "hang"
"""Says nothing more, and does not hang up."""

RESET = "reset"


def event(sequence: int) -> SharedEvent:
    return SharedEvent(
        event_id=f"ev_{sequence}",
        sequence=sequence,
        kind="published",
        scope="shared",
        key=f"k{sequence}",
        revision="1",
        content_hash=None,
        origin_branch=None,
        generation=2,
        published_baseline_id="bl_x",
        created_at="2026-01-01T00:00:00Z",
    )


def told(sequence: int) -> bytes:
    value = json.dumps({**envelope(event(sequence), source="/b").model_dump(mode="json"), "newer": "member"})
    return f"id: c{sequence}\nevent: x\ndata: {value}\n\n".encode()


def bookmark(sequence: int) -> bytes:
    return f"id: c{sequence}\nevent: bookmark\n\n".encode()


def end(status: int, code: str, **extra) -> bytes:
    problem = {"type": f"/problems/{code}", "status": status, "code": code, "detail": "So.", "hint": "", **extra}
    return f"event: end\ndata: {json.dumps(problem)}\n\n".encode()


@dataclass
class Feed:
    """A server that answers each request with the next answer: pieces of a stream, a page, or a problem."""

    answers: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    port: int = 0

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, IndexError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                request, *fields = head.strip().split("\r\n")
                headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in fields)}
                self.asked.append((request.split()[1].partition("?")[2], headers.get("last-event-id")))
                answer = self.answers.pop(0)
                if isinstance(answer, list):
                    await self.stream(writer, answer)
                    break
                status, value = answer
                kind = "application/json" if status == 200 else "application/problem+json"
                body = json.dumps(value).encode()
                writer.write(
                    f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
        writer.close()

    async def stream(self, writer, pieces):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n")
        for piece in pieces:
            if piece is HANG:
                await asyncio.sleep(30)
            elif piece is RESET:
                await asyncio.sleep(0.05)
                writer.transport.abort()
            else:
                writer.write(piece)
                await writer.drain()


@pytest.fixture
async def feed():
    feed = Feed()
    server = await asyncio.start_server(feed.serve, "127.0.0.1")
    feed.port = server.sockets[0].getsockname()[1]
    yield feed
    server.close()


@pytest.fixture
async def client(feed, monkeypatch):
    monkeypatch.setattr(streams, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr("anabranch.client.transport._FIRST_PAUSE", 0.01)
    async with AnabranchClient(f"http://127.0.0.1:{feed.port}", token="t") as client:
        yield client


async def first(client, count, **options):
    """The first that come: sequences of events, and cursors of bookmarks."""
    found = []
    async with contextlib.aclosing(client.follow("ns", "b", **options)) as items:
        async for item in items:
            found.append(item.event.sequence if item.event else item.cursor)
            if len(found) == count:
                break
    return found


def problem(status, code):
    return status, {"type": f"/problems/{code}", "status": status, "code": code, "detail": "So.", "hint": ""}


async def test_after_every_break_it_goes_on_behind_the_last_event_that_was_whole(feed, client):
    feed.answers = [
        [told(1), told(2)[:40]],
        [told(2), RESET],
        problem(503, "Unavailable"),
        [told(3), end(503, "SlowConsumer")],
        [bookmark(5), end(503, "Ending")],
        [told(6)],
    ]
    assert await first(client, 5, generation=7) == [1, 2, 3, "c5", 6]
    assert feed.asked == [("generation=7", None), ("", "c1"), ("", "c2"), ("", "c2"), ("", "c3"), ("", "c5")]


async def test_a_stream_that_falls_silent_is_opened_again(feed, client, monkeypatch):
    monkeypatch.setattr(streams, "IDLE_SECONDS", 1.0)
    feed.answers = [[told(1), HANG], [told(2)]]
    assert await first(client, 2) == [1, 2]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([told(1), end(403, "Forbidden", grant="baselines/events:watch")], ForbiddenError),
        ([told(1), end(410, "CursorExpired", cursor="c9")], GoneError),
        (problem(410, "CursorExpired"), GoneError),
        ([told(1), b"data: no event\n\n"], AnabranchError),
    ],
)
async def test_what_passes_by_itself_is_waited_for_and_what_does_not_is_raised(feed, client, answer, kind):
    feed.answers = [answer]
    with pytest.raises(kind) as caught:
        await first(client, 2)
    if kind is not AnabranchError:
        assert caught.value.code in {"Forbidden", "CursorExpired"}


async def test_a_token_that_ran_out_is_read_anew_once(feed, client):
    feed.answers = [
        [told(1), end(401, "Unauthenticated")],
        [told(2), end(401, "Unauthenticated")],
        problem(401, "Unauthenticated"),
    ]
    with pytest.raises(UnauthenticatedError):
        await first(client, 3)
    assert [place for _, place in feed.asked] == [None, "c1", "c2"]


async def test_an_api_that_stays_away_is_given_up_after_the_patience(feed, client):
    feed.answers = [[told(1)]]
    began = asyncio.get_running_loop().time()
    with pytest.raises(UnavailableError):
        await first(client, 2, patience=0.2)
    assert asyncio.get_running_loop().time() - began < 10


def page(*sequences, cursor):
    events = [event(sequence).model_dump(mode="json") for sequence in sequences]
    return 200, {"events": events, "cursor": cursor, "watermark": 9, "floor": 0}


async def test_an_api_without_streams_is_polled(feed, client):
    feed.answers = [page(1, 2, cursor="c2"), page(1, 2, cursor="c2"), page(cursor="c3"), page(4, cursor="c4")]
    found = []
    async with contextlib.aclosing(client.follow("ns", "b", after="c0")) as items:
        async for item in items:
            found.append((item.event.sequence if item.event else None, item.cursor))
            if len(found) == 4:
                break
    assert found == [(1, None), (2, "c2"), (None, "c3"), (4, "c4")], "one cursor leads behind the whole page"
    assert [query for query, _ in feed.asked][1:] == [
        "after=c0&wait=25.0",
        "after=c2&wait=25.0",
        "after=c3&wait=25.0",
    ]


async def test_where_something_in_between_gathers_the_stream_up_it_is_polled(feed, client, monkeypatch):
    monkeypatch.setattr(streams, "FIRST_SECONDS", 0.2)
    feed.answers = [[HANG], [HANG], page(1, cursor="c1")]
    assert await first(client, 1) == [1]
    assert feed.asked[-1][0] == "", "without a cursor it waits for nothing"
