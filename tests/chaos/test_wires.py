"""The wires and the service do to bytes what they say, or every fault would be a fault of nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from tests.chaos.service import KINDS, Service
from tests.chaos.wires import Wire


@pytest.fixture
async def echo():
    """A server that answers each line; its port."""

    async def answer(reader, writer):
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(b"you said " + line)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def wire(echo):
    wire = Wire("wire", lambda: echo)
    await wire.open()
    yield wire
    await wire.close()


@contextlib.asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def say(streams, text=b"hello\n"):
    reader, writer = streams
    writer.write(text)
    async with asyncio.timeout(0.5):
        return await reader.readline()


async def test_a_wire_carries_and_is_cut(wire):
    async with connected(wire.port) as streams:
        assert await say(streams) == b"you said hello\n"
        assert wire.cut() == 1
        with pytest.raises(ConnectionResetError):
            await say(streams)
    async with connected(wire.port) as streams:
        assert await say(streams) == b"you said hello\n"


async def test_a_silent_wire_closes_nothing_and_lets_nothing_pass_until_it_is_healed(wire):
    async with connected(wire.port) as streams:
        await say(streams)
        wire.silence()
        with pytest.raises(TimeoutError):
            await say(streams)
        wire.heal()
        assert await say(streams, b"") == b"you said hello\n"


async def test_a_wire_that_refuses_takes_no_new_connection(wire):
    wire.refusing = True
    heard = b""
    async with connected(wire.port) as streams:
        with contextlib.suppress(ConnectionResetError):
            heard = await say(streams)
    assert heard == b""


@pytest.mark.parametrize(("way", "heard"), [("out", b""), ("back", b"you sai")])
async def test_a_strand_breaks_after_so_many_bytes(wire, way, heard):
    async with connected(wire.port) as (reader, writer):
        assert await say((reader, writer)) == b"you said hello\n"
        (strand,) = wire.strands
        strand.left[way] = 7 if way == "back" else 2
        writer.write(b"hello\n")
        got = b""
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(2):
                while piece := await reader.read(100):
                    got += piece
        assert got == heard


class Api:
    """A replica that counts what it was asked, and answers once it has read all of it."""

    def __init__(self):
        self.asked = []
        self.begun = 0

    async def serve(self, reader, writer):
        self.begun += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Connection: close" in head
            self.asked.append(await reader.readexactly(4))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer")
            await writer.drain()
        writer.close()


@pytest.fixture
async def api():
    api = Api()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    service = Service(lambda: [server.sockets[0].getsockname()[1]], random.Random(1))
    await service.open()
    yield api, service
    await service.close()
    server.close()


async def ask(service, body=b"body"):
    """What one request is answered with; nothing, where the connection breaks."""
    async with connected(service.port) as (reader, writer):
        writer.write(b"PUT /x HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n" + body)
        try:
            async with asyncio.timeout(4):
                return await reader.read(-1)
        except ConnectionResetError:
            return b""


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer"

FARES = {
    "refused": (False, [0]),
    "answer-lost": (False, [1]),
    "request-torn": (False, [0]),
    "answer-torn": (False, [1]),
    "delayed": (True, [1]),
    "overtaken": (True, [1]),
    "doubled": (True, [2]),
    "replayed": (True, [2]),
    "late": (False, [1]),
    "dripping": (True, [1]),
    "gateway": (False, [0, 1]),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unheard"])
async def test_what_befalls_a_request(api, kind, monkeypatch):
    monkeypatch.setattr("tests.chaos.service.STALE", (0.05, 0.1))
    replica, service = api
    meddling = asyncio.create_task(service.meddle(kind, random.Random(2), within=2))
    await asyncio.sleep(0)
    answer = await ask(service)
    assert await meddling == "PUT /x HTTP/1.1"
    whole, times = FARES[kind]
    assert (answer == WHOLE) == whole, answer
    await asyncio.sleep(0.3)
    assert len(replica.asked) in times
    assert set(replica.asked) <= {b"body"}
    assert await ask(service) == WHOLE, "it befalls one request only"


async def test_nothing_befalls_a_request_where_none_comes(api):
    _, service = api
    assert await service.meddle("refused", random.Random(3), within=0.05) is None
    assert await ask(service) == WHOLE
