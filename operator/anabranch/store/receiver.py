"""Batches that arrive in the same moment are received by one statement: a fleet shares commits (see `coalescer`)."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from anabranch.store import receipts
from anabranch.store.coalescer import Coalescer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.errors import AnabranchError
    from anabranch.store.database import Database
    from anabranch.store.receipts import Arrival, ReceiptRow

_ARRIVALS: Final = 256
_BYTES: Final = 16 << 20
"""Bounds of one statement; a request of its own may exceed them."""


class Receiver:
    """Receives the batches of one process.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._coalescer = Coalescer(self._receive, room=_room)

    async def receive(self, arrivals: Sequence[Arrival]) -> list[ReceiptRow | AnabranchError]:
        """Receive batches of one line (see `receipts.receive`); they are durable when this returns.

        Raises:
            UnavailableError: If Postgres cannot be reached.
        """
        return await self._coalescer.ask(arrivals[0].line, arrivals)

    async def _receive(self, asked: Sequence[Sequence[Arrival]]) -> list[list[ReceiptRow | AnabranchError]]:
        async with self.db.connection() as conn:
            rows = iter(await receipts.receive(conn, [arrival for arrivals in asked for arrival in arrivals]))
        return [[next(rows) for _ in arrivals] for arrivals in asked]


def _room(waiting: Sequence[Sequence[Arrival]]) -> int:
    """How many requests one statement may hold."""
    counts = accumulate(len(arrivals) for arrivals in waiting)
    sizes = accumulate(sum(len(arrival.body) for arrival in arrivals) for arrivals in waiting)
    return sum(count <= _ARRIVALS and size <= _BYTES for count, size in zip(counts, sizes, strict=True))
