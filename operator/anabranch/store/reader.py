"""Records that are asked for in the same moment are read by one statement, so a round trip serves all who ask.

Nobody waits for others to come, as with receipts (`receiver`): what is asked for while nothing is on its way goes at
once, and what is asked for meanwhile goes together, next. A statement is one snapshot, in which each generation is
looked up and read: none of its answers is of a manifest that was pruned before. Only records of one line go together,
since another line may be on another server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import AnabranchError
from anabranch.store import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Database
    from anabranch.store.records import Place, Reading

_FLIGHTS: Final = 2
"""Statements of a line at once: while Postgres reads for one, the next can be on its way."""

_READS: Final = 32
"""Most records of one statement, a megabyte each at worst. More would hardly save anything."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What one caller asks for, and waits for."""

    place: Place
    key: str
    answer: asyncio.Future[Reading]


@dataclass(eq=False, slots=True)
class _Queue:
    """What waits for one line, and how many statements of it are on their way."""

    waiting: list[_Request] = field(default_factory=list)
    flights: int = 0


class Reader:
    """Reads records for one process, of lines whose Baselines are there.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._queues: dict[str, _Queue] = {}
        self._flights: set[asyncio.Task[None]] = set()

    async def read(self, *, line: str, generation: int | None, key: str, scopes: Sequence[str] | None) -> Reading:
        """One record (see `records.read`).

        Raises:
            GoneError: If the generation was pruned.
            NotFoundError: If there never was such a generation, or line, or its Baseline was deleted.
            UnavailableError: If Postgres cannot be reached.
        """
        place = records.Place(line, generation, None if scopes is None else tuple(scopes))
        request = _Request(place, key, asyncio.get_running_loop().create_future())
        queue = self._queues.setdefault(line, _Queue())
        queue.waiting.append(request)
        if queue.flights < _FLIGHTS:
            queue.flights += 1
            flight = asyncio.create_task(self._fly(line, queue))
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        return await request.answer

    async def _fly(self, line: str, queue: _Queue) -> None:
        while queue.waiting:
            taken, queue.waiting = queue.waiting[:_READS], queue.waiting[_READS:]
            requests = [request for request in taken if not request.answer.done()]  # who hung up is not read for
            if requests:
                await self._read(requests)
        queue.flights -= 1
        if not queue.flights:
            del self._queues[line]

    async def _read(self, requests: list[_Request]) -> None:
        try:
            async with self.db.connection() as conn:
                answers = await records.read_each(conn, [(request.place, request.key) for request in requests])
        except Exception as error:  # noqa: BLE001  (whoever waits is told, whatever it is)
            if len(requests) == 1:
                _refuse(requests[0], error)
            else:
                # What cannot be answered to one must not be the answer to the others.
                await asyncio.gather(*(self._read([request]) for request in requests))
            return
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, AnabranchError):
                _refuse(request, answer)
            elif not request.answer.done():
                request.answer.set_result(answer)


def _refuse(request: _Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
