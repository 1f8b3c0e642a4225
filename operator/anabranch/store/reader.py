"""Records that are asked for in the same moment are read by one statement (see `coalescer`).

A statement is one snapshot, in which each generation is looked up and read: none of its answers is of a manifest that
was pruned before.

A generation that is named is read on a standby, where there is one: its manifest never changes. Which one it is, and
that its line has its Baseline still, the primary says, and that is remembered for as long as answers about grants are.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import AnabranchError
from anabranch.store import manifests, records, standbys
from anabranch.store.coalescer import Coalescer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Database
    from anabranch.store.records import Place, Reading

STANDING_SECONDS: Final = 5.0
"""How long it is believed that a line stands, and that a generation of it is the manifest that it was."""

_STANDING: Final = 10_000
"""Generations that are remembered; the least recently used ones go first."""

_READS: Final = 32
"""Most records of one statement, a megabyte each at worst. More would hardly save anything."""


class Reader:
    """Reads records for one process, of lines whose Baselines are there.

    Args:
        db: Where.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._coalescer = Coalescer(self._read, room=_room)
        self._of_manifests = Coalescer(self._read_manifests, room=_room)
        self._standing: OrderedDict[tuple[str, int], tuple[str, float]] = OrderedDict()

    async def read(self, *, line: str, generation: int | None, key: str, scopes: Sequence[str] | None) -> Reading:
        """One record (see `records.read`).

        Raises:
            GoneError: If the generation was pruned.
            NotFoundError: If there never was such a generation, or line, or its Baseline was deleted.
            UnavailableError: If Postgres cannot be reached.
        """
        place = records.Place(line, generation, None if scopes is None else tuple(scopes))
        baseline_id = await self._manifest(line, generation)
        if baseline_id is None:
            answer = await self._coalescer.ask(line, (place, key))
        else:
            answer = await self._of_manifests.ask(line, (place, key, baseline_id))
        if isinstance(answer, AnabranchError):
            raise answer
        return answer

    async def _manifest(self, line: str, generation: int | None) -> str | None:
        """The manifest that a standby may be asked for; None: the primary answers."""
        if generation is None or self.db.standbys is None or self.db.standbys.left_alone:
            return None
        place, now = (line, generation), time.monotonic()
        known, until = self._standing.get(place, ("", 0.0))
        if now < until:
            self._standing.move_to_end(place)
            return known
        async with self.db.connection() as conn:
            found = await manifests.standing(conn, line=line, generation=generation)
        if found is not None:
            self._standing[place] = (found, now + STANDING_SECONDS)
            self._standing.move_to_end(place)
            if len(self._standing) > _STANDING:
                self._standing.popitem(last=False)
        return found

    async def _read(self, asked: Sequence[tuple[Place, str]]) -> list[Reading | AnabranchError]:
        async with self.db.connection() as conn:
            return await records.read_each(conn, asked)

    async def _read_manifests(self, asked: Sequence[tuple[Place, str, str]]) -> list[Reading | AnabranchError]:
        wanted = [(place, key) for place, key, _ in asked]
        answers = await standbys.read(
            self.db,
            line=wanted[0][0].line,
            baseline_ids={baseline_id for _, _, baseline_id in asked},
            work=lambda conn: records.read_each(conn, wanted),
        )
        # That there is something, a standby may say; that there is not, only the primary.
        lacking = [place for place, answer in enumerate(answers) if isinstance(answer, AnabranchError)]
        if lacking:
            again = await self._read([wanted[place] for place in lacking])
            for place, answer in zip(lacking, again, strict=True):
                answers[place] = answer
        return answers


def _room(waiting: Sequence[object]) -> int:
    return min(len(waiting), _READS)
