"""Several databases asked at once, of which none is waited for that hangs.

A server that is gone says so. One that hangs says nothing, and the driver, told to give up, waits for it once more. So
what is asked runs by itself, and whoever asks takes what there is when their time is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, TypeVar

from anabranch.model.errors import UnavailableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class LateError(UnavailableError):
    """Nothing was said in time."""


class Asking:
    """Asks, and keeps what is late until it has ended."""

    def __init__(self) -> None:
        self._late: set[asyncio.Task[Any]] = set()

    async def ask(
        self,
        whom: Mapping[K, Callable[[], Awaitable[T]]],
        *,
        within: float,
        enough: Callable[[T], bool] = lambda _: False,
        after: float = 0.0,
    ) -> dict[K, T | BaseException]:
        """What each says, or why it does not.

        Args:
            whom: How each is asked.
            within: Seconds for which they are waited for.
            enough: Whether an answer makes those of others less important.
            after: Seconds for which they are waited for after one that does.
        """

        async def run(one: Callable[[], Awaitable[T]]) -> T:
            return await one()

        tasks = {key: asyncio.create_task(run(one)) for key, one in whom.items()}
        pending = set(tasks.values())
        clock = asyncio.get_running_loop().time
        until = clock() + within
        try:
            while pending and (left := until - clock()) > 0:
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if any(task.exception() is None and enough(task.result()) for task in done):
                    until = min(until, clock() + after)
        finally:
            for late in pending:
                late.cancel()
                self._late.add(late)
                late.add_done_callback(self._end)
        late_error = LateError("It does not answer in time.")
        return {
            key: late_error if task in pending else task.exception() or task.result() for key, task in tasks.items()
        }

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more
