"""What comes while consolidation is paused, as a look of the wake queue that is taken now and then.

A pin may stand for days, and agents go on submitting. What they submit is in no job until the pin goes, so nothing but
this says in a status that it is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import schedule

if TYPE_CHECKING:
    from anabranch.store.database import Database

REST_SECONDS: Final = 10.0


class Paused:
    """Has statuses tell of batches that wait for a pin or a suspension to end. A look of the wake queue.

    Args:
        db: Of the batches.
    """

    name = "paused"

    def __init__(self, db: Database) -> None:
        self._db = db
        self._rest_until = 0.0

    async def look(self) -> bool:
        """Tell of some; whether there may be more."""
        now = asyncio.get_running_loop().time()
        if now < self._rest_until:
            return False
        if await schedule.tell_paused(self._db):
            return True
        self._rest_until = now + REST_SECONDS
        return False
