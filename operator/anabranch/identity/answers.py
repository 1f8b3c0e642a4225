"""Answers of the API server, remembered for seconds: asked once at a time, never unbounded.

A thousand followers that share one identity must cost one question, and a flood of forged tokens must neither grow the
memory nor stand in the way of those that are known. An answer's age counts from when its question was asked, so "at
most five seconds old" is meant as it is said.

Who may go on by an old answer while the API server is away does not wait for it: one that drops what is sent to it
would else hold each of a thousand agents for the length of a timeout, a few at a time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from anabranch.kube.errors import RightMissingError
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.telemetry.common import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


PATIENCE_SECONDS: Final = 1.0
"""How long somebody with an old answer waits for a new one; and how long nobody of them asks when none came."""


class BusyError(UnavailableError):
    """More newcomers than can be looked at now; those that are known already are served as ever."""

    code = "Busy"


class Answers(Generic[K, V]):
    """A cache over a question, with one flight at a time for each key.

    Args:
        review: What is asked, for the metrics: ``token`` or ``access``.
        fresh: Seconds for which an answer may be given again, as a function of the answer.
        size: Most answers kept; the least recently used ones go first.
        flights: Most questions under way. A key with an answer, however old, is not held to it: there are no more of
            them than `size`.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        *,
        review: str,
        fresh: Callable[[V], float],
        size: int,
        flights: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hits, self._shared, self._misses, self._busy = (
            ANSWERS.of(review, outcome) for outcome in ("hit", "shared", "miss", "busy")
        )
        self._fresh = fresh
        self._size = size
        self._most_flights = flights
        self._clock = clock
        self._kept: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._flights: dict[K, asyncio.Task[V]] = {}
        self._silent_at: float | None = None  # since when no answer came, or when somebody tried again

    async def ask(self, key: K, question: Callable[[], Awaitable[V]], *, stale: float = 0.0, anew: bool = False) -> V:
        """The answer to a question: one that is still fresh, one that is on its way, or a new one.

        Errors are not remembered; all who wait for the same flight get the same one.

        Args:
            key: Of the question.
            question: Asks the API server.
            stale: Seconds for which an answer may be given again while the API server is away.
            anew: Take none that is there already: one that is on its way, or a new one.

        Raises:
            BusyError: If too many questions are under way, and this key has no answer yet.
            UnavailableError: If the API server is away, and there is no answer of so many seconds ago.
        """
        kept = self._kept.get(key)
        age = math.inf if kept is None else self._clock() - kept[1]
        fresh = kept is not None and not anew and age < self._fresh(kept[0])
        if kept is not None and (fresh or (age <= stale and self._is_silent())):
            self._kept.move_to_end(key)
            self._hits.count += 1
            return kept[0]
        # Shielded: a caller that hangs up must not take the answer away from the others.
        flight = asyncio.shield(self._flight(key, question, is_new=kept is None))
        if kept is None or age > stale:
            return await flight
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await flight
        except RightMissingError:
            raise
        except TimeoutError:
            self._silent_at = self._clock()
            return kept[0]
        except UnavailableError:
            return kept[0]

    def is_fresh(self, key: K) -> bool:
        """Whether there is an answer that may be given again."""
        kept = self._kept.get(key)
        return kept is not None and self._clock() - kept[1] < self._fresh(kept[0])

    def last(self, key: K, *, within: float) -> tuple[V] | None:
        """The last answer, in a tuple, if its question was asked within so many seconds."""
        kept = self._kept.get(key)
        return None if kept is None or self._clock() - kept[1] > within else (kept[0],)

    def forget(self, key: K) -> None:
        """Keep no answer for a key."""
        self._kept.pop(key, None)

    def _flight(self, key: K, question: Callable[[], Awaitable[V]], *, is_new: bool) -> asyncio.Task[V]:
        """The question on its way; asked now unless it is."""
        if (flight := self._flights.get(key)) is not None:
            self._shared.count += 1
            return flight
        if is_new and len(self._flights) >= self._most_flights:
            self._busy.count += 1
            raise BusyError(
                f"{self._most_flights} callers or questions that are new here wait for the API server already.",
                hint="Try again in a moment.",
            )
        if self._silent_at is not None:
            self._silent_at = self._clock()  # one finds out whether it is back; the others need not wait for that
        flight = asyncio.create_task(self._fly(key, question))
        self._flights[key] = flight
        flight.add_done_callback(lambda done: self._landed(key, done))
        self._misses.count += 1
        return flight

    def _is_silent(self) -> bool:
        """Whether no answer came just now."""
        return self._silent_at is not None and self._clock() - self._silent_at < PATIENCE_SECONDS

    async def _fly(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        asked_at = self._clock()
        try:
            answer = await question()
        except AnabranchError as error:
            away = isinstance(error, UnavailableError) and not isinstance(error, RightMissingError)
            self._silent_at = self._clock() if away else None
            raise
        self._silent_at = None
        self._kept[key] = (answer, asked_at)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return answer

    def _landed(self, key: K, flight: asyncio.Task[V]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # everybody may have hung up: then nobody else looks at it


class Recent(Generic[K]):
    """Keys that were noted in the last seconds.

    Args:
        seconds: For how long.
        size: Most of them; the oldest go first.
        clock: Seconds, monotonic.
    """

    def __init__(self, *, seconds: float, size: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._size = size
        self._clock = clock
        self._noted: OrderedDict[K, float] = OrderedDict()

    def note(self, key: K) -> None:
        """Note a key, as of now."""
        self._noted[key] = self._clock()
        self._noted.move_to_end(key)
        while len(self._noted) > self._size:
            self._noted.popitem(last=False)

    def __contains__(self, key: K) -> bool:
        noted_at = self._noted.get(key)
        return noted_at is not None and self._clock() - noted_at < self._seconds
