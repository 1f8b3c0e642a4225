"""What is made after the fact, as looks of the wake queue that take a small share of the time.

That is the index of words, and the counters of quality. What is to be made is not queued but found, by comparing the
lines' heads with what there is. With many lines that costs something, and every batch that comes in rings the bell; so
after a look that found nothing there is a rest, the longer, the longer the look took. Nobody waits for it: a search
reads what is not indexed yet, and counters name the generation that they are of.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.store.database import Database

_REST_SECONDS: Final = 1.0
_SHARE: Final = 50


class Afterwards:
    """Brings on what is made after the fact. A look of the wake queue.

    Args:
        db: Of the lines.
        name: What is made.
        turn: Brings it on for one line; tells whether there may be more.
    """

    def __init__(self, db: Database, name: str, turn: Callable[[Database], Awaitable[bool]]) -> None:
        self.name = name
        self._db = db
        self._turn = turn
        self._rest_until = 0.0

    async def look(self) -> bool:
        """Bring on what there is of one line; whether there may be more."""
        now = asyncio.get_running_loop().time
        if (began := now()) < self._rest_until:
            return False
        more = await self._turn(self._db)
        if not more:
            self._rest_until = now() + max(_REST_SECONDS, _SHARE * (now() - began))
        return more
