"""LISTEN and NOTIFY: how processes tell each other to look, without saying what there is to see.

NOTIFY inside a writing transaction serializes all commits, so it is sent after them: one sender per process, at most
fifty times a second, with all topics of that time. A notification can be lost (a crash between commit and NOTIFY, a
broken connection), so nothing rests on one: listeners poll too, and look at everything after each reconnect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.model.errors import UnavailableError
from anabranch.store import pools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from anabranch.store.database import Connection

CHANNEL: Final = "anabranch"

EVERYTHING: Final = ""
"""The topic that a listener gets when it has just (re)connected: it may have missed any."""

_NOTIFY: Final = """
SELECT pg_notify($1, topic) FROM unnest($2::text[]) AS topic, set_config('synchronous_commit', 'off', true)
"""
"""It may be lost, and what it is about is committed: it waits neither for the disk nor for a standby."""

_PAUSE: Final = 0.02
_RECONNECT_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Notifier:
    """Gathers topics and sends them, fifty times a second at most."""

    def __init__(self, connection: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self._connection = connection
        self._topics: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, topic: str) -> None:
        """Send a topic soon."""
        self._topics.add(topic)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Wait until all topics are sent."""
        if self._task is not None:
            await self._task

    async def _send(self) -> None:
        try:
            while self._topics:
                topics, self._topics = sorted(self._topics), set()
                async with self._connection() as conn:
                    await conn.execute(_NOTIFY, CHANNEL, topics)
                await asyncio.sleep(_PAUSE)
        except UnavailableError as error:
            _log.warning("A notification was lost, listeners will find out by polling: %s", error)
        finally:
            self._task = None


class Listener:
    """An async iterator over the topics that are notified, on a connection of its own, made again when it breaks.

    Topics that come while the consumer is busy are kept once each, so they cannot pile up beyond what there is to look
    at.
    """

    def __init__(self, dsn: str, *, application_name: str) -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._topics: dict[str, None] = {}
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            await self._came.wait()
            self._came.clear()
            topics, self._topics = self._topics, {}
            for topic in topics:
                yield topic

    def _add(self, topic: str) -> None:
        self._topics[topic] = None
        self._came.set()

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_once()
            except pools.FAILURES as error:
                _log.warning("The listening connection broke, connecting again: %s", error)
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _follow_once(self) -> None:
        settings = {"application_name": self._application_name}
        conn = await asyncpg.connect(self._dsn, timeout=_CHECK_SECONDS, server_settings=settings)
        try:
            pools.probe(conn)
            closed = asyncio.Event()
            conn.add_termination_listener(lambda _: closed.set())
            await conn.add_listener(CHANNEL, lambda _conn, _pid, _channel, topic: self._add(str(topic)))
            self._add(EVERYTHING)
            while not closed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await closed.wait()
                if not closed.is_set():
                    # A peer that vanished without a word is found only by asking.
                    await conn.execute("SELECT 1", timeout=_CHECK_SECONDS)
        finally:
            conn.terminate()
