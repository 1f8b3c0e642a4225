"""Requests that come in the same moment are served by one statement, so a round trip and a commit serve all who ask.

Nobody waits for others to come: what comes while nothing is on its way goes at once, and what comes meanwhile goes
together, next. So one caller alone is answered as fast as Postgres answers, and a fleet shares the statements.

Only requests of one line go together: a transaction that spanned two could not be placed on one of several servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from anabranch.store.durability import CommitsWaitError

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

Serve: TypeAlias = Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]]
"""Answers requests of one line, in their order."""

_FLIGHTS: Final = 2
"""Statements of a line at once: while Postgres works on one, the next can be on its way."""


@dataclass(frozen=True, slots=True)
class _Request(Generic[Asked, Answer]):
    """What one caller asks, and waits for."""

    asked: Asked
    answer: asyncio.Future[Answer]


@dataclass(eq=False, slots=True)
class _Queue(Generic[Asked, Answer]):
    """What waits for one line, and how many statements of it are on their way."""

    waiting: list[_Request[Asked, Answer]] = field(default_factory=list)
    flights: int = 0


class Coalescer(Generic[Asked, Answer]):
    """Serves the requests of one process.

    Args:
        serve: Serves some at once.
        room: How many of those that wait, the first ones, may go together; at least one goes.
    """

    def __init__(self, serve: Serve[Asked, Answer], *, room: Callable[[Sequence[Asked]], int]) -> None:
        self._serve = serve
        self._room = room
        self._queues: dict[str, _Queue[Asked, Answer]] = {}
        self._flights: set[asyncio.Task[None]] = set()

    async def ask(self, line: str, asked: Asked) -> Answer:
        """Have a request served, with what else waits for its line.

        Raises:
            Exception: What ``serve`` raised for this request, alone.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request = _Request(asked, answer)
        queue = self._queues.setdefault(line, _Queue())
        queue.waiting.append(request)
        if queue.flights < _FLIGHTS:
            queue.flights += 1
            flight = asyncio.create_task(self._fly(line, queue))
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        return await answer

    async def _fly(self, line: str, queue: _Queue[Asked, Answer]) -> None:
        while requests := self._next(queue):
            await self._answer(requests)
        queue.flights -= 1
        if not queue.flights:
            del self._queues[line]

    def _next(self, queue: _Queue[Asked, Answer]) -> list[_Request[Asked, Answer]]:
        """What goes next; nothing if nothing waits."""
        queue.waiting = [request for request in queue.waiting if not request.answer.done()]  # the others hung up
        taken = max(1, self._room([request.asked for request in queue.waiting])) if queue.waiting else 0
        requests, queue.waiting = queue.waiting[:taken], queue.waiting[taken:]
        return requests

    async def _answer(self, requests: Sequence[_Request[Asked, Answer]]) -> None:
        try:
            answers = await self._serve([request.asked for request in requests])
        except Exception as error:  # noqa: BLE001  (whoever waits is told, whatever it is)
            if len(requests) > 1 and not isinstance(error, CommitsWaitError):
                # What cannot be done for one, since its row is locked for long, must not keep the others waiting.
                await asyncio.gather(*(self._answer([request]) for request in requests))
                return
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error)
            return
        for request, answer in zip(requests, answers, strict=True):
            if not request.answer.done():
                request.answer.set_result(answer)
