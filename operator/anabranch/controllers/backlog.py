"""What waits in Postgres, told by the leader: looked up at a pace of its own, and not once for every scrape.

Postgres pays for one statement every 15 s, however many processes there are and whoever scrapes them. What was read is
forgotten when this process leads no more, or cannot look: no number is better than one that was true some time ago.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.model.errors import AnabranchError
from anabranch.store import backlog
from anabranch.telemetry import of_operator
from anabranch.telemetry.of_operator import WAITING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.store.backlog import OfBaseline
    from anabranch.store.database import Database
    from anabranch.telemetry.declaring import Reading

_log = structlog.get_logger(__name__)

PAUSE_SECONDS: Final = 15.0

_BASELINES_EVERY: Final = 4
"""Looks after which Baselines are looked at one by one."""

_BY_KIND: Final[Mapping[str, Reading]] = {
    "due": of_operator.DUE,
    "due_age": of_operator.DUE_AGE,
    "jobs": of_operator.JOBS,
    "jobs_age": of_operator.JOBS_AGE,
    "agent_events": of_operator.AGENT_EVENTS,
    "lagging": of_operator.LAGGING,
    "schema": of_operator.SCHEMA,
}
_ALONE: Final[Mapping[str, Reading]] = {
    "unassigned": of_operator.UNASSIGNED,
    "pending": of_operator.PENDING,
    "candidates": of_operator.CANDIDATES,
    "conflicts": of_operator.CONFLICTS,
    "conflict_age": of_operator.CONFLICT_AGE,
    "backups_failing": of_operator.BACKUPS_FAILING,
    "backups_failing_age": of_operator.BACKUPS_FAILING_AGE,
    "backups_awaited": of_operator.BACKUPS_AWAITED,
    "lines": of_operator.LINES,
}

_OF_BASELINE: Final = (
    of_operator.RECALL,
    of_operator.RECALL_CHANGE,
    of_operator.RECALL_SHORT,
    of_operator.RECALL_MISSING,
    of_operator.VERIFIED,
    of_operator.BASELINE_CONFLICTS,
    of_operator.BASELINE_CONFLICT_AGE,
)


class Backlog:
    """Reads what waits.

    Args:
        db: The database.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._looks = 0

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                try:
                    await self.look()
                except AnabranchError as error:
                    WAITING.forget()
                    _log.warning("what waits cannot be read", error=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            WAITING.forget()

    async def look(self) -> None:
        """Look once.

        Raises:
            UnavailableError: If Postgres cannot be asked.
        """
        async with self._db.connection() as conn:
            found = await backlog.look(conn)
            if self._looks % _BASELINES_EVERY == 0:
                _tell(await backlog.baselines(conn))
        self._looks += 1
        for what, reading in _BY_KIND.items():
            reading.set({(kind,): value for kind, value in found[what].items()})
        for what, reading in _ALONE.items():
            reading.set(found[what][""])
        of_operator.READ_AT.set(time.time())


def _tell(found: Iterable[OfBaseline]) -> None:
    """Tell of Baselines one by one; of each what is known."""
    values: Mapping[Reading, dict[tuple[str, ...], float]] = {reading: {} for reading in _OF_BASELINE}
    for one in found:
        known = {
            of_operator.RECALL: one.recall,
            of_operator.RECALL_CHANGE: one.change,
            of_operator.RECALL_SHORT: one.short,
            of_operator.RECALL_MISSING: one.missing if one.asked else None,
            of_operator.VERIFIED: one.verified,
            of_operator.BASELINE_CONFLICTS: one.conflicts,
            of_operator.BASELINE_CONFLICT_AGE: one.age,
        }
        for reading, value in known.items():
            if value is not None:
                values[reading][one.namespace, one.name] = float(value)
    for reading, samples in values.items():
        reading.set(samples)
