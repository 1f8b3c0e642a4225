"""Keeping the index of words, as a look of the wake queue that takes a small share of the time.

What is to be indexed is not queued but found, by comparing the lines' heads with their indexes. With many lines that
costs something, and every batch that comes in rings the bell; so after a look that found nothing there is a rest, the
longer, the longer the look took. Nobody waits for it: a search reads what is not indexed yet.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from anabranch.search import indexing

if TYPE_CHECKING:
    from anabranch.store.database import Database

_REST_SECONDS: Final = 1.0
_SHARE: Final = 50


class Index:
    """Brings indexes on. A look of the wake queue.

    Args:
        db: Of the lines.
    """

    name = "index"

    def __init__(self, db: Database) -> None:
        self._db = db
        self._rest_until = 0.0

    async def look(self) -> bool:
        """Bring on the index of one line; whether there may be more."""
        now = asyncio.get_running_loop().time
        if (began := now()) < self._rest_until:
            return False
        more = await indexing.turn(self._db)
        if not more:
            self._rest_until = now() + max(_REST_SECONDS, _SHARE * (now() - began))
        return more
