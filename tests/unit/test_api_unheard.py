"""Clients that have vanished without a word: cut off, or crashed. Their connections end, and hold nothing for long."""

import asyncio
import contextlib
import socket
import sys

import pytest
import uvicorn
from fastapi import FastAPI
from tests.deaf import deafen
from uvicorn.server import ServerState

from anabranch.api import protocol, streaming

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its client is deaf by a filter of Linux")


class Endless:
    """A source that has something to say every tenth of a second."""

    def __init__(self):
        self.error = self.on_end = self.write = None
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()

    async def take(self):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), 0.1)
        return None if self.ended.is_set() else b": here\n\n"

    def end(self, _error):
        self.ended.set()

    def close(self):
        self.closed.set()


class Connection(protocol.Protocol):
    """A connection that tells when it has ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lost = asyncio.Event()

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.lost.set()


@pytest.fixture
async def served(monkeypatch):
    """A server whose clients may be silent for a second; its address, its source, and its connections."""
    monkeypatch.setattr(protocol, "UNHEARD_SECONDS", 1)
    monkeypatch.setattr(protocol, "_PROBES", {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 1})
    app, source, connections = FastAPI(), Endless(), []

    @app.get("/stream")
    async def stream():
        return streaming.EventStream(source)

    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()

    def connection():
        connections.append(Connection(config=config, server_state=ServerState(), app_state={}))
        return connections[-1]

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname(), source, connections


async def test_a_stream_ends_whose_client_acknowledges_nothing(served):
    address, source, _ = served
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b": here" in await reader.readuntil(b": here")
    deafen(writer)
    async with asyncio.timeout(60):
        await source.closed.wait()
    writer.transport.abort()


async def test_an_idle_connection_ends_whose_client_does_not_answer_probes(served):
    address, _, connections = served
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"Not Found")
    deafen(writer)
    async with asyncio.timeout(60):
        await connections[0].lost.wait()
    writer.transport.abort()


async def test_the_next_request_of_a_connection_may_rest_again(served):
    address, source, connections = served
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b": here")
    bound = lambda: connections[0].transport.get_extra_info("socket").getsockopt(6, socket.TCP_USER_TIMEOUT)  # noqa: E731
    assert bound() == 1_000
    source.end(None)
    await reader.readuntil(b"\r\n0\r\n\r\n")
    await asyncio.wait_for(source.closed.wait(), 60)
    assert bound() == 0
    writer.close()


async def test_a_stream_whose_client_has_hung_up_ends_without_a_word(served, caplog):
    """Its connection has no socket any more by the time that the stream learns of it."""
    address, source, connections = served
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b": here")
    writer.transport.abort()
    await asyncio.wait_for(connections[0].lost.wait(), 60)
    source.end(None)
    await asyncio.wait_for(source.closed.wait(), 60)
    assert "Exception in ASGI application" not in caplog.text
