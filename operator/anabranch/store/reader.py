"""Records that are asked for in the same moment are read by one statement, so a round trip serves all who ask.

Nobody waits for others to come, as with receipts (`receiver`): what is asked for while nothing is on its way goes at
once, and what is asked for meanwhile goes together, next. A statement is one snapshot, in which each generation is
looked up and read: none of its answers is of a manifest that was pruned before.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import AnabranchError
from anabranch.store import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Database
    from anabranch.store.records import Place, Reading

_FLIGHTS: Final = 2
"""Statements at once: while Postgres reads for one, the next can be on its way."""

_READS: Final = 32
"""Most records of one statement, a megabyte each at worst. More would hardly save anything."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What one caller asks for, and waits for."""

    place: Place
    key: str
    answer: asyncio.Future[Reading]


class Reader:
    """Reads records for one process, of lines whose Baselines are there.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._waiting: list[_Request] = []
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
        self._waiting.append(request)
        if len(self._flights) < _FLIGHTS:
            flight = asyncio.create_task(self._fly())
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)
        return await request.answer

    async def _fly(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:_READS], self._waiting[_READS:]
            requests = [request for request in taken if not request.answer.done()]  # who hung up is not read for
            if requests:
                await self._read(requests)

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
