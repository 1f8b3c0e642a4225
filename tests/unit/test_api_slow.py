"""Requests that take their time: a slow head or body is answered with a problem, and holds no connection."""

import asyncio
import contextlib
import json
import re
from typing import Annotated

import pytest
import uvicorn
from fastapi import Depends, FastAPI
from uvicorn.server import ServerState

from anabranch.api import bodies, problems, protocol

HEAD = b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


@pytest.fixture
async def address(monkeypatch):
    """An application that reads bodies, on a port of its own; everything that takes seconds takes tenths."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "IDLE_SECONDS", 1.5)
    monkeypatch.setattr(bodies, "PAUSE_SECONDS", 0.3)
    monkeypatch.setattr(bodies, "LEAST_RATE", 1 << 20)
    app = FastAPI()
    problems.install(app)

    @app.put("/body")
    async def put(body: Annotated[bytes, Depends(bodies.RawBody(limit=1 << 20, what="body"))]):
        return len(body)

    @app.put("/unread")
    async def unread():
        return "answered"

    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=protocol.IDLE_SECONDS)
    config.load()
    connections = lambda: protocol.Protocol(config=config, server_state=ServerState(), app_state={})  # noqa: E731
    server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()


async def said(address, *pieces, every=0.0):
    """All that comes back for some bytes, sent one after the other, until the other side closes."""
    reader, writer = await asyncio.open_connection(*address)

    async def write():
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(every)

    writing = asyncio.create_task(write())
    answer = b""
    try:
        async with asyncio.timeout(30):  # whoever is not let go waits for ever
            while piece := await reader.read(65_536):
                answer += piece
    except ConnectionError:
        pass  # it closed while we were still sending
    finally:
        writing.cancel()
        writer.close()
    return answer


def problem(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), answer
    assert b"\r\nconnection: close" in head.lower()
    assert b"application/problem+json" in head
    found = json.loads(body)
    assert (found["code"], found["status"]) == ("TooSlow", 408)
    assert found["hint"]
    return found["detail"]


@pytest.mark.parametrize(
    "pieces", [[b"GET /"], [b"GET /", *[b"x"] * 100], [b"GET / HTTP/1.1\r\n", *[b"X-A: b\r\n"] * 100]]
)
async def test_a_head_that_does_not_end_is_answered_in_time(address, pieces):
    assert "The head of the request did not come within" in problem(await said(address, *pieces, every=0.05))


async def test_a_body_that_pauses_is_answered_in_time(address):
    assert "The body paused" in problem(await said(address, HEAD, b"x" * 10, every=0.01))


async def test_a_body_that_trickles_is_answered_in_time(address, monkeypatch):
    monkeypatch.setattr(bodies, "PAUSE_SECONDS", 1.0)  # so that a machine that pauses is not taken for the client
    detail = problem(await said(address, HEAD, *[b"x"] * 100, every=0.05))
    assert 1 < int(re.search(r"(\d+) bytes arrived", detail)[1]) < 50


async def test_a_connection_without_a_request_is_closed(address):
    assert await said(address) == b""
    assert await said(address, *[b"\r\n"] * 20, every=0.1) == b""


async def test_what_trickles_in_after_the_answer_does_not_hold_the_connection(address):
    answer = await said(address, HEAD.replace(b"body", b"unread"), *[b"x"] * 60, every=0.05)
    assert answer.endswith(b'"answered"')


async def test_a_body_in_time_is_read_and_the_connection_serves_again(address, monkeypatch):
    """All of it takes longer than any one of its parts may, and each part much less: the machine may pause, too."""
    for module, name in ((protocol, "HEAD_SECONDS"), (bodies, "PAUSE_SECONDS")):
        monkeypatch.setattr(module, name, 1.5)
    request = [HEAD, b"x" * 500, b"x" * 500]
    pieces = [*request, *request, HEAD.replace(b"1000", b"2").replace(b"Host", b"Connection: close\r\nHost") + b"xx"]
    answer = await said(address, *pieces, every=0.4)
    assert [answer.count(text) for text in (b"200 OK", b"\r\n\r\n1000", b"\r\n\r\n2")] == [3, 2, 1]
