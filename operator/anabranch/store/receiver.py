"""Batches that arrive in the same moment are received by one statement, so a round trip and a commit serve them all.

Nobody waits for others to come: what arrives while nothing is on its way goes at once, and what arrives meanwhile goes
together, next. So a single agent is answered as fast as Postgres commits, and a fleet shares the commits.

Only batches of one line go together: a transaction that spanned two could not be placed on one of several servers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.store import batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.errors import AnabranchError
    from anabranch.store.batches import Arrival, ReceiptRow
    from anabranch.store.database import Database

_FLIGHTS: Final = 2
"""Statements of a line at once: while Postgres commits one, the next can be on its way."""

_ARRIVALS: Final = 256
_BYTES: Final = 16 << 20
"""Bounds of one statement; a request of its own may exceed them."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What one caller hands in, and waits for."""

    arrivals: Sequence[Arrival]
    answer: asyncio.Future[list[ReceiptRow | AnabranchError]]


@dataclass(eq=False, slots=True)
class _Queue:
    """What waits for one line, and how many statements of it are on their way."""

    waiting: list[_Request] = field(default_factory=list)
    flights: int = 0


class Receiver:
    """Receives the batches of one process.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._queues: dict[str, _Queue] = {}
        self._flights: set[asyncio.Task[None]] = set()

    async def receive(self, arrivals: Sequence[Arrival]) -> list[ReceiptRow | AnabranchError]:
        """Receive batches of one line (see `batches.receive`); they are durable when this returns.

        Raises:
            UnavailableError: If Postgres cannot be reached.
        """
        request = _Request(arrivals, asyncio.get_running_loop().create_future())
        queue = self._queues.setdefault(arrivals[0].line, _Queue())
        queue.waiting.append(request)
        if queue.flights < _FLIGHTS:
            queue.flights += 1
            flight = asyncio.create_task(self._fly(arrivals[0].line, queue))
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        return await request.answer

    async def _fly(self, line: str, queue: _Queue) -> None:
        while requests := _next(queue):
            try:
                await self._receive(requests)
            except Exception as error:  # noqa: BLE001  (whoever waits is told, whatever it is)
                for request in requests:
                    if not request.answer.done():
                        request.answer.set_exception(error)
        queue.flights -= 1
        if not queue.flights:
            del self._queues[line]

    async def _receive(self, requests: list[_Request]) -> None:
        try:
            async with self.db.connection() as conn:
                rows = await batches.receive(conn, [one for request in requests for one in request.arrivals])
        except Exception:
            if len(requests) == 1:
                raise
            # One that cannot be received now, since its branch is locked for long, must not keep the others waiting.
            await asyncio.gather(*(self._alone(request) for request in requests))
            return
        for request in requests:
            answer, rows = rows[: len(request.arrivals)], rows[len(request.arrivals) :]
            if not request.answer.done():
                request.answer.set_result(answer)

    async def _alone(self, request: _Request) -> None:
        try:
            await self._receive([request])
        except Exception as error:  # noqa: BLE001  (as above)
            if not request.answer.done():
                request.answer.set_exception(error)


def _next(queue: _Queue) -> list[_Request]:
    """What goes next: as much of what waits as one statement may hold, and at least one request; none if none waits."""
    queue.waiting = [request for request in queue.waiting if not request.answer.done()]  # the others hung up
    taken = 0
    room, size = _ARRIVALS, _BYTES
    for request in queue.waiting:
        room -= len(request.arrivals)
        size -= sum(len(arrival.body) for arrival in request.arrivals)
        if taken and (room < 0 or size < 0):
            break
        taken += 1
    requests, queue.waiting = queue.waiting[:taken], queue.waiting[taken:]
    return requests
