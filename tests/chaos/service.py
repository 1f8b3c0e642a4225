"""The way from agents to the API, as a Service and a bad network are: to any replica, and not always as it was sent.

It understands just as much HTTP as it takes to tell one request from the next. Each of them goes over a connection of
its own to a replica, so that one can be doubled, held back, replayed later or torn without touching another. What is to
happen to a request is armed beforehand and befalls the next one that comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

HEAD_BYTES: Final = 65_536
CHUNK: Final = 65_536
STALE: Final = (0.1, 3.0)
"""Seconds after which a request comes again that had been answered already."""


@dataclass(frozen=True)
class Request:
    """A request, whole.

    Attributes:
        head: Its line and headers.
        body: Its body.
    """

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.partition(b"\r\n")[0].decode(errors="replace")

    @property
    def raw(self) -> bytes:
        """As it goes on: the connection is its own."""
        first, _, rest = self.head.partition(b"\r\n")
        kept = [line for line in rest.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
        return b"\r\n".join([first, *kept, b"Connection: close", b"", b""]) + self.body


@dataclass
class Meddling:
    """What befalls a request.

    Attributes:
        kind: One of `KINDS`.
        chance: Decides on the rest.
        befell: Set with the line of the request.
    """

    kind: str
    chance: random.Random
    befell: asyncio.Future[str]


class NoReplicaError(ConnectionError):
    """None takes a connection."""


class Service:
    """Listens for the API's clients.

    Args:
        replicas: Gives the ports of the replicas.
        chance: Decides which one a request goes to.
    """

    def __init__(self, replicas: Callable[[], Sequence[int]], chance: random.Random) -> None:
        self.port = 0
        self._replicas = replicas
        self._chance = chance
        self._armed: deque[Meddling] = deque()
        self._passed = asyncio.Condition()
        self._count = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def meddle(self, kind: str, chance: random.Random, *, within: float) -> str | None:
        """Let something befall the next request; its line, or None where none came in time."""
        meddling = Meddling(kind, chance, asyncio.get_running_loop().create_future())
        self._armed.append(meddling)
        try:
            async with asyncio.timeout(within):
                return await meddling.befell
        except TimeoutError:
            with contextlib.suppress(ValueError):
                self._armed.remove(meddling)
            return None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                head = await reader.readuntil(b"\r\n\r\n")
                request = Request(head, await reader.readexactly(_length(head)))
                await self._serve(request, writer)
                await writer.drain()
                writer.close()
                return
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        async with self._passed:
            self._passed.notify_all()
        if not self._armed:
            await self._pass(request, writer)
            return
        meddling = self._armed.popleft()
        if not meddling.befell.done():
            meddling.befell.set_result(request.line)
        await KINDS[meddling.kind](self, request, writer, meddling.chance)

    # How a request goes on.

    @contextlib.asynccontextmanager
    async def _call(self, raw: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Send bytes to a replica that takes a connection; it is broken at the end, whatever happens."""
        reader, writer = await self._connect()
        try:
            writer.write(raw)
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ports = [*self._replicas()]
        self._chance.shuffle(ports)
        for port in ports:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise NoReplicaError

    async def _pass(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Carry a request there, and its answer back, as a good network does."""
        try:
            async with self._call(request.raw) as (back, _):
                await _carry(back, writer)
        except NoReplicaError:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async def _spend(self, request: Request) -> None:
        """Carry a request there, and let its answer go nowhere."""
        with contextlib.suppress(OSError):  # also what takes too long
            async with asyncio.timeout(5), self._call(request.raw) as (back, _):
                while await back.read(CHUNK):
                    pass

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What may befall it.

    async def _refused(self, _request: Request, writer: asyncio.StreamWriter, _chance: random.Random) -> None:
        writer.transport.abort()

    async def _answer_lost(self, request: Request, writer: asyncio.StreamWriter, _chance: random.Random) -> None:
        await self._spend(request)
        writer.transport.abort()

    async def _request_torn(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        async with self._call(request.raw[: chance.randrange(1, len(request.raw))]) as (_, far):
            await far.drain()
            await asyncio.sleep(chance.uniform(0, 0.05))
        writer.transport.abort()

    async def _answer_torn(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        async with self._call(request.raw) as (back, _):
            data = await back.read(CHUNK)
            writer.write(data[: chance.randrange(len(data) or 1)])
            await writer.drain()
        writer.transport.abort()

    async def _delayed(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        await asyncio.sleep(chance.uniform(0.05, 1.5))
        await self._pass(request, writer)

    async def _overtaken(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        """Held back until a few others, which came later, have gone on."""
        after = self._count + chance.randint(1, 5)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2), self._passed:
                await self._passed.wait_for(lambda: self._count >= after)
        await self._pass(request, writer)

    async def _doubled(self, request: Request, writer: asyncio.StreamWriter, _chance: random.Random) -> None:
        """There twice at the same time, perhaps at two replicas."""
        self._later(self._spend(request))
        await self._pass(request, writer)

    async def _replayed(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        """There once more when its sender has gone on long ago."""

        async def again() -> None:
            await asyncio.sleep(chance.uniform(*STALE))
            await self._spend(request)

        await self._pass(request, writer)
        self._later(again())

    async def _late(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        """Its sender was cut off, and believes that it got lost; it arrives later, perhaps after the next attempt."""
        writer.transport.abort()
        await asyncio.sleep(chance.uniform(*STALE))
        await self._spend(request)

    async def _unheard(self, _request: Request, writer: asyncio.StreamWriter, _chance: random.Random) -> None:
        """Taken, and never answered: half open, until the sender has had enough."""
        for _ in range(100):
            if writer.transport.is_closing():
                break
            await asyncio.sleep(0.1)
        writer.transport.abort()

    async def _dripping(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        """There in small pieces."""
        raw, pieces = request.raw, chance.randint(3, 12)
        size = len(raw) // pieces + 1
        async with self._call(raw[:size]) as (back, far):
            for place in range(size, len(raw), size):
                await asyncio.sleep(chance.uniform(0, 0.05))
                far.write(raw[place : place + size])
                await far.drain()
            await _carry(back, writer)

    async def _gateway(self, request: Request, writer: asyncio.StreamWriter, chance: random.Random) -> None:
        """Answered by something on the way, which may have passed it on, or not."""
        if chance.random() < 0.5:
            await self._spend(request)
        body = b"<html>upstream went away</html>"
        head = f"HTTP/1.1 {chance.choice([502, 503, 504])} Gateway\r\nContent-Type: text/html\r\n"
        writer.write(head.encode() + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


KINDS: Final[dict[str, Callable[[Service, Request, asyncio.StreamWriter, random.Random], Awaitable[None]]]] = {
    "refused": Service._refused,
    "answer-lost": Service._answer_lost,
    "request-torn": Service._request_torn,
    "answer-torn": Service._answer_torn,
    "delayed": Service._delayed,
    "overtaken": Service._overtaken,
    "doubled": Service._doubled,
    "replayed": Service._replayed,
    "late": Service._late,
    "unheard": Service._unheard,
    "dripping": Service._dripping,
    "gateway": Service._gateway,
}


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass on all that comes."""
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()


def _length(head: bytes) -> int:
    """How long the body is that comes after a head."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
