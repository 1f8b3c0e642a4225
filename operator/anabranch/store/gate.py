"""Keeps writes from the connections while commits wait for a synchronous standby, so that reads go on.

A commit that waits holds its connection, and without a standby it waits for ever: a few writes a second, and nobody can
read any more. So where one has waited for a second, or for half of one while somebody has no connection at all, no
other is begun: until one got through, every connection is given out for reading only, and a write is refused by
Postgres at once, which alone can tell the two apart. One that waits is let go when others need its connection.

What opens the gate again is a commit that writes nothing: there is one on its way all the time, so writes go on as soon
as a standby is back. It is about who gets a connection, and nothing else: a process that knows nothing of a missing
standby, or believes in one too long, acknowledges no more and no less.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import AnabranchError
from anabranch.store import durability, pools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from anabranch.store.database import Connection
    from anabranch.store.durability import Wait

CROWDED_SECONDS: Final = 0.5
"""How long a commit may wait while somebody waits for a connection."""

_TICK_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 2.0
_TRIAL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.25

_FAILURES: Final = (AnabranchError, *pools.FAILURES)

_log = logging.getLogger(__name__)


class Gate:
    """Of one pool.

    Args:
        answers: Gives a connection that no write has.
        writes: Gives one of the pool, for a write, whatever the gate says. Whoever waits for it is not counted among
            those that have none.
    """

    def __init__(
        self,
        *,
        answers: Callable[[], AbstractAsyncContextManager[Connection]],
        writes: Callable[[], AbstractAsyncContextManager[Connection]],
    ) -> None:
        self._answers = answers
        self._writes = writes
        self._since: dict[object, float] = {}  # of those that have a connection
        self._without = 0
        self._met: dict[Wait, float] = {}  # what waits, and since when that is known
        self._watching = asyncio.create_task(self._watch(), name="commits that wait")
        self._trying: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        """Whether only reads are let through."""
        return self._trying is not None

    async def end(self) -> None:
        """Look no more."""
        tasks = [task for task in (self._watching, self._trying) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def without(self) -> Iterator[None]:
        """Somebody waits for a connection meanwhile."""
        self._without += 1
        try:
            yield
        finally:
            self._without -= 1

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Somebody has a connection meanwhile."""
        holder = object()
        self._since[holder] = _now()
        try:
            yield
        finally:
            del self._since[holder]

    def close(self) -> None:
        """Let only reads through, until a commit got through."""
        if self._trying is None:
            _log.warning("Commits wait for a synchronous standby: writes are refused until one gets through")
            self._trying = asyncio.create_task(self._try(), name="a commit that is tried")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await self._look()
            except _FAILURES:
                continue
            except Exception:  # noqa: BLE001  (a gate that nobody looks after refuses or hangs until a restart)
                _log.exception("Looking for commits that wait failed, and goes on")

    async def _look(self) -> None:
        if not self.closed and not self._held_for(_TICK_SECONDS):
            self._met.clear()
            return
        async with asyncio.timeout(_LOOK_SECONDS), self._answers() as conn:
            found, now = await durability.waits(conn), _now()
            self._met = {wait: self._met.get(wait, now) for wait in found}
            crowded = self._without > 0
            long = CROWDED_SECONDS if crowded else durability.LONG_SECONDS
            if any(wait.is_commit for wait in self._met_for(long)):
                self.close()
            if self.closed and (those := self._met_for(long if crowded else durability.PATIENCE_SECONDS)):
                gone = await durability.let_go(conn, those)
                _log.warning("%s commits waited for a synchronous standby, and were let go", gone)

    def _met_for(self, seconds: float) -> list[Wait]:
        """What was found waiting so long ago, and each time since."""
        now = _now()
        return [wait for wait, since in self._met.items() if now - since >= seconds]

    def _held_for(self, seconds: float) -> bool:
        """Whether somebody has had a connection for so long: a commit that waits has, and little else."""
        return bool(self._since) and _now() - min(self._since.values()) >= seconds

    async def _try(self) -> None:
        while True:
            try:
                async with self._writes() as conn, asyncio.timeout(_TRIAL_SECONDS):
                    await durability.settle(conn)
                break
            except _FAILURES:
                pass
            except Exception:  # noqa: BLE001  (likewise)
                _log.exception("A commit that was tried failed, and is tried again")
            await asyncio.sleep(_PAUSE_SECONDS)
        self._trying = None
        _log.warning("A commit got through: writes go on")


def _now() -> float:
    return asyncio.get_running_loop().time()
