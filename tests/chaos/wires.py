"""A wire that can fail: what stands between a process and Postgres, or the API server, and passes bytes on.

It knows nothing of what it carries. A wire can break, become slow, go silent without closing (the other side is then as
good as unplugged), refuse new connections, or break after some more bytes, which is how an answer is lost on its way
back and a COMMIT becomes one of unknown outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 65_536


@dataclass(eq=False)
class Strand:
    """One connection over a wire.

    Attributes:
        near: Towards who called.
        far: Towards who was called.
        port: The local one of the far side, by which the server knows it.
        left: Bytes that still pass before it breaks, by direction; None: any number.
    """

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    port: int
    left: dict[str, int | None] = field(default_factory=lambda: {"out": None, "back": None})

    def cut(self) -> None:
        for side in (self.near, self.far):
            side.transport.abort()


class Wire:
    """Carries connections from a port of its own to an address that may move.

    Args:
        name: For people.
        to: Gives the port on the loopback address that it leads to at the moment.
    """

    def __init__(self, name: str, to: Callable[[], int]) -> None:
        self.name = name
        self.port = 0
        self.latency = 0.0
        self.refusing = False
        self.strands: set[Strand] = set()
        self._to = to
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server:
            self._server.close()
        self.heal()
        self.cut()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> int:
        """Break all connections; how many there were."""
        found = [*self.strands]
        for strand in found:
            strand.cut()
        return len(found)

    def silence(self) -> None:
        """Let nothing pass any more, and close nothing."""
        self._flowing.clear()

    def heal(self) -> None:
        """Be an ordinary wire again."""
        self.latency, self.refusing = 0.0, False
        self._flowing.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.refusing:
                writer.transport.abort()
                return
            try:
                back, far = await asyncio.open_connection("127.0.0.1", self._to())
            except OSError:
                writer.transport.abort()
                return
            strand = Strand(writer, far, far.get_extra_info("sockname")[1])
            self.strands.add(strand)
            try:
                pumps = (self._pump(strand, "out", reader, far), self._pump(strand, "back", back, writer))
                await asyncio.gather(*pumps)
            finally:
                self.strands.discard(strand)
                strand.cut()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _pump(self, strand: Strand, way: str, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                if self.latency:
                    await asyncio.sleep(self.latency)
                await self._flowing.wait()
                left = strand.left[way]
                if left is not None and len(data) > left:
                    target.write(data[:left])
                    await target.drain()
                    break
                strand.left[way] = None if left is None else left - len(data)
                target.write(data)
                await target.drain()
        # Half-closed connections are of no use to either protocol: one side's end is the end.
        strand.cut()
