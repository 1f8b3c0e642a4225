"""Ways between a process and a server that a test can cut, or let go silent, and mend."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

from anabranch.devcluster.ports import free


class Way:
    """A TCP connection passes through here to its server.

    Attributes:
        port: On the loopback address, to be called instead of the server's.
    """

    def __init__(self, target: str) -> None:
        self._host, self._port = urlsplit(target).hostname, urlsplit(target).port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.port = 0

    async def open(self) -> None:
        """Let connections pass, on the port of before where there was one."""
        self._passing.set()
        if self._server is None:
            self.port = self.port or free(["way"])["way"]  # not one that a client may get while the way is cut
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)

    def cut(self) -> None:
        """Break the connections that there are, and take no new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    def silence(self) -> None:
        """Pass nothing on any more: connections stay, and new ones are taken, as where a server hangs."""
        self._passing.clear()

    async def mend(self) -> None:
        """Pass connections on again. What was underway is broken first, as it may be halfway through."""
        for writer in list(self._writers):
            writer.transport.abort()
        await self.open()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._passing.wait()
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(back)
        await asyncio.gather(self._pipe(reader, back), self._pipe(there, writer))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
        self._writers.discard(writer)
