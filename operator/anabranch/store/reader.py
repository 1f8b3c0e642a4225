"""Records that are asked for in the same moment are read by one statement (see `coalescer`).

A statement is one snapshot, in which each generation is looked up and read: none of its answers is of a manifest that
was pruned before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.model.errors import AnabranchError
from anabranch.store import records
from anabranch.store.coalescer import Coalescer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Database
    from anabranch.store.records import Place, Reading

_READS: Final = 32
"""Most records of one statement, a megabyte each at worst. More would hardly save anything."""


class Reader:
    """Reads records for one process, of lines whose Baselines are there.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._coalescer = Coalescer(self._read, room=lambda waiting: min(len(waiting), _READS))

    async def read(self, *, line: str, generation: int | None, key: str, scopes: Sequence[str] | None) -> Reading:
        """One record (see `records.read`).

        Raises:
            GoneError: If the generation was pruned.
            NotFoundError: If there never was such a generation, or line, or its Baseline was deleted.
            UnavailableError: If Postgres cannot be reached.
        """
        place = records.Place(line, generation, None if scopes is None else tuple(scopes))
        answer = await self._coalescer.ask(line, (place, key))
        if isinstance(answer, AnabranchError):
            raise answer
        return answer

    async def _read(self, asked: Sequence[tuple[Place, str]]) -> list[Reading | AnabranchError]:
        async with self.db.connection() as conn:
            return await records.read_each(conn, asked)
