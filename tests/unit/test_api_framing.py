"""Requests that two programs on their way could read apart: each is refused, with nothing answered behind it."""

import asyncio
import json
import re

import pytest
import uvicorn
from fastapi import FastAPI, Request
from uvicorn.server import ServerState

from anabranch.api import problems, protocol
from anabranch.api.parser import RequestParser

HOST = b"PUT /a HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
PUT = HOST + b"Content-Length: 4\r\n\r\nabcd"
UPGRADE = HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
CHUNKED = HOST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
async def heard():
    """What an application was asked, and where."""
    app, asked = FastAPI(), []
    problems.install(app)

    @app.api_route("/{path:path}", methods=["GET", "PUT"])
    async def answer(request: Request, path: str):
        asked.append((path, await request.body()))
        return path

    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none")
    config.load()
    connections = lambda: protocol.Protocol(config=config, server_state=ServerState(), app_state={})  # noqa: E731
    server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname(), asked


async def said(heard, *pieces):
    """All that comes back for some pieces, each sent once the one before has been looked at, while it is heard."""
    (address, asked), answer = heard, b""
    asked.clear()
    reader, writer = await asyncio.open_connection(*address)

    async def listen():
        nonlocal answer
        while more := await reader.read(65_536):
            answer += more

    listening = asyncio.create_task(listen())
    for piece in pieces:
        if not listening.done():
            writer.write(piece)
            await asyncio.wait({listening}, timeout=0.05)
    if not listening.done():
        writer.write_eof()
    async with asyncio.timeout(30):
        await listening
    writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)], answer, asked


@pytest.mark.parametrize(
    "request_",
    [
        # Two hosts or tokens, or none, of which each program may take another.
        b"GET /a HTTP/1.1\r\n\r\n",
        HOST + b"Host: y\r\n\r\n",
        HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        HOST + b"Origin: https://x\r\nOrigin: https://y\r\n\r\n",
        HOST + b"Last-Event-ID: a\r\nlast-event-id: b\r\n\r\n",
        # Ends that one program sees, and another does not.
        HOST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        HOST + b"Content-Length: 4, 4\r\n\r\nabcd",
        HOST + b"Content-Length: +4\r\n\r\nabcd",
        HOST + b"Content-Length: 0x4\r\n\r\nabcd",
        HOST + b"Content-Length: 0_4\r\n\r\nabcd",
        HOST + b"Content-Length: 4 4\r\n\r\nabcd",
        HOST + b"Content-Length: \r\n\r\nabcd",
        HOST + b"Content-Length : 4\r\n\r\nabcd",
        HOST + b"Content-Length:\r\n 4\r\n\r\nabcd",
        HOST + b"Content-Length: 99999999999999999999999\r\n\r\nabcd",
        HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding: identity\r\n\r\nabcd",
        HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"PUT /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        UPGRADE + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        UPGRADE + b"Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd",
        UPGRADE + b"Content-Length: +4\r\n\r\nabcd",
        UPGRADE + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        # Lines that end where one program says, and not another.
        b"GET /a HTTP/1.1\nHost: x\n\n",
        HOST + b"X-A: b\rX-B: c\r\n\r\n",
        HOST + b"X-A: b\0c\r\n\r\n",
        HOST + b"X-A: b\r\n c\r\n\r\n",
        HOST + b": b\r\n\r\n",
        HOST + b"X-\xe9: b\r\n\r\n",
        # Other protocols.
        b"GET /a\r\n\r\n",
        b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET /a HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda request: ascii(request)[2:80],
)
async def test_a_head_that_can_be_read_in_two_ways_is_refused_and_its_connection_ends(heard, request_):
    statuses, answer, asked = await said(heard, request_, SMUGGLED)
    assert (statuses, asked) == ([400], [])
    assert b"\r\nconnection: close" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "MalformedRequest"


@pytest.mark.parametrize(
    "chunks",
    [
        b"0x4\r\nabcd\r\n0\r\n\r\n",
        b"4\nabcd\n0\n\n",
        b"4 \r\nabcd\r\n0\r\n\r\n",
        b"-4\r\nabcd\r\n0\r\n\r\n",
        b"4;a\nb\r\nabcd\r\n0\r\n\r\n",
        b"4\r\nabcdXX0\r\n\r\n",
        b"fffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
        b"4\r\nabcd\r\n0\r\nContent-Length: 3\r\n\r\n",
    ],
    ids=ascii,
)
async def test_a_body_whose_chunks_are_ambiguous_is_not_taken(heard, chunks):
    statuses, _, asked = await said(heard, CHUNKED, chunks, SMUGGLED)
    assert 200 not in statuses
    assert [path for path, body in asked if path == "smuggled" or body] == []


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        (b"\r\n", b""),
        (b"Content-Length: 0\r\n\r\n", b""),
        (b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, SMUGGLED),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nX-T: 1\r\n\r\n", b"abcd"),
    ],
    ids=["no body", "an empty one", "a body", "chunks"],
)
@pytest.mark.parametrize(
    "behind", [SMUGGLED, PUT, UPGRADE + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\xff"], ids=ascii
)
async def test_who_asks_for_another_protocol_is_answered_in_this_one_and_nothing_behind_it_is(
    heard, rest, body, behind
):
    for pieces in ((PUT + UPGRADE + rest + behind,), (PUT + UPGRADE + rest[:-1], rest[-1:], behind)):
        statuses, answer, asked = await said(heard, *pieces)
        assert (statuses, asked) == ([200, 200], [("a", b"abcd"), ("a", body)])
        assert b"\r\nconnection: close" in answer.lower()


@pytest.mark.parametrize("other", [(b"h2c", b"websocket"), (b"/1.1", b"/1.0")], ids=ascii)
async def test_whatever_protocol_is_asked_for_in_whatever_version_the_body_is_read(heard, other):
    statuses, _, asked = await said(heard, UPGRADE.replace(*other) + b"Content-Length: 4\r\n\r\nabcd" + SMUGGLED)
    assert (statuses, asked) == ([200], [("a", b"abcd")])


@pytest.mark.parametrize(
    "body",
    [
        b"0x4\r\nabcd\r\n0\r\n\r\n",
        b"4\r\nabcdXX0\r\n\r\n",
        b"4\r\nabcd\r\n0\r\nContent-Length: 3\r\n\r\n",
        SMUGGLED,
    ],
    ids=ascii,
)
async def test_a_body_beside_another_protocol_is_read_as_strictly(heard, body):
    statuses, _, asked = await said(heard, UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n", body, SMUGGLED)
    assert 200 not in statuses
    assert [path for path, taken in asked if path == "smuggled" or taken] == []


async def test_a_body_beside_another_protocol_is_asked_for_where_its_sender_waits_for_that(heard):
    statuses, _, asked = await said(heard, UPGRADE + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n", b"abcd")
    assert (statuses, asked) == ([100, 200], [("a", b"abcd")])


class Told:
    """What a parser tells of a body."""

    def __init__(self):
        self.body, self.ends, self.headers = b"", 0, []
        self.parser = RequestParser(self)
        self.feed = self.parser.feed_data

    def on_header(self, name, value):
        self.headers.append((name.lower(), value))

    def on_headers_complete(self):
        self.parser.stay(self.headers, on_body=self.take, on_end=self.end)

    def take(self, piece):
        assert self.ends == 0
        self.body += piece

    def end(self):
        self.ends += 1


@pytest.mark.parametrize(
    "request_",
    [
        UPGRADE + b"Content-Length: 4\r\n\r\nabcd",
        UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nX-T: 1\r\n\r\n",
    ],
    ids=["length", "chunks"],
)
def test_a_body_beside_another_protocol_is_whole_wherever_the_network_cuts_it(request_):
    whole = request_ + SMUGGLED
    for first in range(1, len(request_)):
        for second in {first + 1, len(request_) - 1, len(request_), len(whole)}:
            told = Told()
            for piece in (whole[:first], whole[first:second], whole[second:]):
                told.feed(piece)
            assert (told.body, told.ends) == (b"abcd", 1), (first, second)


async def test_who_ends_the_connection_is_answered_and_nothing_behind_it_is(heard):
    last = PUT.replace(b"Content", b"Connection: close\r\nContent")
    for behind in (SMUGGLED, b"\0\xff"):
        statuses, _, asked = await said(heard, last + behind)
        assert (statuses, asked) == ([200], [("a", b"abcd")])


async def test_requests_that_mean_one_thing_are_answered_in_turn(heard):
    chunks = CHUNKED + b"4;ext=1\r\nefgh\r\n0\r\n\r\n"
    statuses, _, asked = await said(heard, PUT + chunks + SMUGGLED)
    assert statuses == [200, 200, 200]
    assert asked == [("a", b"abcd"), ("a", b"efgh"), ("smuggled", b"")]
