"""Whether this process reaches Postgres, by asking it every other second.

A leader that is cut off from Postgres, and from nothing else, renews its Lease for ever and shows nothing, while a
stand-by next to it could. So who has had no answer for a while does not lead. It is a while and not at once, since a
failover of Postgres takes every process's connection for some seconds, and another leader would not help.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

_ASK_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 3.0


class Reach:
    """What was heard of Postgres, and when.

    Args:
        db: Asked.
        patience: Seconds without an answer after which Postgres counts as out of reach.
    """

    def __init__(self, db: Database, *, patience: float) -> None:
        self._db = db
        self._patience = patience
        self._heard_at: float | None = None

    def lately(self) -> bool:
        """Whether Postgres has answered within the patience."""
        return self._heard_at is not None and self._now() - self._heard_at < self._patience

    async def run(self) -> None:
        """Ask until cancelled."""
        told = ""
        while True:
            wrong = ""
            try:
                async with asyncio.timeout(_ANSWER_SECONDS), self._db.answers() as conn:
                    await conn.execute("SELECT 1")
            except AnabranchError as error:
                wrong = error.detail
            except TimeoutError:
                wrong = f"Postgres has not answered within {_ANSWER_SECONDS:g} s."
            else:
                self._heard_at = self._now()
            if wrong and not told:
                _log.warning("postgres out of reach", error=wrong)
            told = wrong
            await asyncio.sleep(_ASK_SECONDS)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
