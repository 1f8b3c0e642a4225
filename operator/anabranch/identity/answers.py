"""Answers of the API server, remembered for seconds: asked once at a time, never unbounded.

A thousand followers that share one identity must cost one question, and a flood of forged tokens must not grow the
memory. An answer's age counts from when its question was asked, so "at most five seconds old" is meant as it is said.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Answers(Generic[K, V]):
    """A cache over a question, with one flight at a time for each key.

    Args:
        fresh: Seconds for which an answer may be given again, as a function of the answer.
        size: Most answers kept; the least recently used ones go first.
        clock: Seconds, monotonic.
    """

    def __init__(self, *, fresh: Callable[[V], float], size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh = fresh
        self._size = size
        self._clock = clock
        self._kept: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._flights: dict[K, asyncio.Task[V]] = {}

    async def ask(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        """The answer to a question: one that is still fresh, one that is on its way, or a new one.

        Errors are not remembered; all who wait for the same flight get the same one.
        """
        if (kept := self._kept.get(key)) is not None and self._clock() - kept[1] < self._fresh(kept[0]):
            self._kept.move_to_end(key)
            return kept[0]
        if (flight := self._flights.get(key)) is None:
            flight = asyncio.create_task(self._fly(key, question))
            self._flights[key] = flight
            flight.add_done_callback(lambda done: self._landed(key, done))
        # Shielded: a caller that hangs up must not take the answer away from the others.
        return await asyncio.shield(flight)

    def last(self, key: K, *, within: float) -> tuple[V] | None:
        """The last answer, in a tuple, if its question was asked within so many seconds."""
        kept = self._kept.get(key)
        return None if kept is None or self._clock() - kept[1] > within else (kept[0],)

    async def _fly(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        asked_at = self._clock()
        answer = await question()
        self._kept[key] = (answer, asked_at)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return answer

    def _landed(self, key: K, flight: asyncio.Task[V]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # everybody may have hung up: then nobody else looks at it
