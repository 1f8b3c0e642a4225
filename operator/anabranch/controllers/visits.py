"""Objects that are due: Baselines with something to do at a certain time, and objects that wait for another one.

Each is read from the API server and reconciled by the same function as when it is created. Postgres hands each out for
a while, so that two processes do not visit the same one, and again if this process dies. A visit may take minutes (a
large import); others go on beside it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.model.errors import AnabranchError
from anabranch.store import lines, waiting

if TYPE_CHECKING:
    from anabranch.controllers.reconciler import Reconciler
    from anabranch.store.database import Database
    from anabranch.store.lines import LineRow

_log = structlog.get_logger(__name__)

PARALLEL: Final = 16
"""Visits at once."""

_HOLD: Final = timedelta(seconds=60)
_HANDFUL: Final = 100
_GLANCE_SECONDS: Final = 0.5
"""How soon what comes due is noticed while visits are under way."""


class Visits:
    """Reconciles what is due. A look of the wake queue."""

    name = "visits"

    def __init__(self, db: Database, reconciler: Reconciler) -> None:
        self._db = db
        self._reconciler = reconciler
        self._running: dict[Key, asyncio.Task[None]] = {}

    async def look(self) -> bool:
        """Begin to visit what is due; while visits are under way there may be more.

        Visits end with the look that is cancelled: between two looks that leave some under way there is no wait.
        """
        try:
            try:
                await self._begin()
            except AnabranchError as error:
                if not self._running:
                    raise
                _log.warning("what is due cannot be read yet", error=str(error))
            if self._running:
                await asyncio.wait(self._running.values(), timeout=_GLANCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._stop()
            raise
        return bool(self._running)

    async def _begin(self) -> None:
        """Begin as many visits as there is room for, one an object."""
        free = PARALLEL - len(self._running)
        if free <= 0:
            return
        async with self._db.connection() as conn:
            due_lines = await lines.claim_due(conn, limit=free, hold=_HOLD)
            due_waiting = await waiting.due(conn, limit=_HANDFUL)
        for row in due_lines:
            self._visit(Key("Baseline", row.namespace, row.name), uid=row.uid, line=row)
        # What waits stays due until its reconcile has noted the next time, so one that failed has its own retry.
        for wait in due_waiting:
            if len(self._running) < PARALLEL:
                self._visit(Key(wait.kind, wait.namespace, wait.name), uid=wait.uid)

    def _visit(self, key: Key, *, uid: str, line: LineRow | None = None) -> None:
        # A line that comes due while it is visited, by a new wish or since the visit is longer than the claim, was
        # claimed again just now, and is visited once more when that runs out.
        if key not in self._running:
            task = asyncio.create_task(self._see_to(key, uid=uid, line=line), name=f"visit {key.namespace}/{key.name}")
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))

    async def _see_to(self, key: Key, *, uid: str, line: LineRow | None) -> None:
        if not self._reconciler.will_retry(key):
            await self._reconciler.revisit(key, uid=uid)
        if line is None or line.due_at is None:
            return
        try:
            async with self._db.connection() as conn:
                await lines.settle(conn, line=line.line, due_at=line.due_at)
        except AnabranchError as error:
            _log.warning("visit not noted, it will be made again", line=line.line, error=str(error))

    async def _stop(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
