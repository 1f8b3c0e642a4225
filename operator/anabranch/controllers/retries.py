"""Objects that are to be reconciled once more, since that failed: each a little later every time.

This is kept here and not by kopf, which would write an annotation for each; after a restart every object is seen anew,
so nothing is lost with it.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.domain import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.controllers.keys import Key

_log = structlog.get_logger(__name__)

_LONGEST_SECONDS: Final = 60.0


class Retries:
    """Tries again.

    Args:
        again: Reads an object and reconciles it; never fails.
    """

    def __init__(self, again: Callable[[Key], Awaitable[None]]) -> None:
        self._again = again
        self._failures: dict[Key, int] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def failed(self, key: Key, error: Exception) -> None:
        """Have an object reconciled again in a while."""
        self._failures[key] = attempt = self._failures.get(key, 0) + 1
        seconds = delay(attempt)
        _log.warning("will reconcile again", **key.named(), seconds=round(seconds, 1), error=str(error))
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._retry(key, seconds), name=f"retry {key}")

    def settled(self, key: Key) -> None:
        """Count no failures of an object any more: it is reconciled, or gone."""
        self._failures.pop(key, None)

    def awaits(self, key: Key) -> bool:
        """Whether an object is going to be reconciled again."""
        return key in self._tasks

    def drop(self) -> list[asyncio.Task[None]]:
        """Cancel what is still to come; the tasks, which are to be awaited."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        return tasks

    async def _retry(self, key: Key, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            del self._tasks[key]
        await self._again(key)


def delay(attempt: int) -> float:
    """Seconds to wait before an attempt that follows on so many that failed."""
    return backoff.delay(attempt, chance=random.random(), limit=_LONGEST_SECONDS)  # noqa: S311  (jitter)
