"""Wakes those who wait for a line's feed or an agent's events: one listening connection for a whole process.

A notification says only that there may be something to read, and may be lost, so nobody waits for one longer than a
few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Self

from anabranch.store.notices import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from anabranch.store.database import Database

POLL_SECONDS: Final = 1.0


def topic(line: str) -> str:
    """What is notified when a line's feed may have grown."""
    return f"feed {line}"


class Waking:
    """A process' ear on the feeds; an asynchronous context manager.

    Args:
        db: The store.
        dsn: A direct way to the server, where the pool's own goes through a transaction pooler.
    """

    def __init__(self, db: Database, *, dsn: str | None = None) -> None:
        self._db = db
        self._dsn = dsn
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self.ending = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def subscribed(self, line: str) -> AbstractContextManager[asyncio.Event]:
        """An event that is set whenever the line's feed may have grown; subscribe before reading."""
        return self.hearing(topic(line))

    @contextlib.contextmanager
    def hearing(self, heard: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever a topic is notified; subscribe before reading."""
        event = asyncio.Event()
        waiting = self._waiting[heard]
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(heard, None)

    def end(self) -> None:
        """Let everybody go: the process is about to end, and its followers continue at another one."""
        self.ending = True
        self._set(list(self._waiting))

    async def _listen(self) -> None:
        async with self._db.listen(dsn=self._dsn) as topics:
            async for heard in topics:
                self._set(list(self._waiting) if heard == EVERYTHING else [heard])

    def _set(self, topics: list[str]) -> None:
        for name in topics:
            for event in self._waiting.get(name, ()):
                event.set()
