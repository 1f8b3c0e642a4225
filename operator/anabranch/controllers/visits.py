"""Objects that are due: Baselines with something to do at a certain time, and objects that wait for another one.

Each is read from the API server and reconciled by the same function as when it is created. Postgres hands each out for
a while, so that two processes do not visit the same one, and again if this process dies.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.controllers.reconciler import Key
from anabranch.store import lines, waiting

if TYPE_CHECKING:
    from anabranch.controllers.reconciler import Reconciler
    from anabranch.store.database import Database

_HOLD: Final = timedelta(seconds=60)
_AT_ONCE: Final = 100


class Visits:
    """Reconciles what is due. A look of the wake queue."""

    name = "visits"

    def __init__(self, db: Database, reconciler: Reconciler) -> None:
        self._db = db
        self._reconciler = reconciler

    async def look(self) -> bool:
        """Visit what is due; more lines may be when a whole handful was."""
        async with self._db.connection() as conn:
            due_lines = await lines.claim_due(conn, limit=_AT_ONCE, hold=_HOLD)
            due_waiting = await waiting.due(conn, limit=_AT_ONCE)
        keys = [(Key("Baseline", row.namespace, row.name), row.uid) for row in due_lines]
        keys += [(Key(row.kind, row.namespace, row.name), row.uid) for row in due_waiting]
        # What waits stays due until its reconcile has noted the next time, so one that failed has its own retry.
        await asyncio.gather(
            *(self._reconciler.revisit(key, uid=uid) for key, uid in keys if not self._reconciler.will_retry(key))
        )
        async with self._db.connection() as conn:
            for row in due_lines:
                if row.due_at is not None:
                    await lines.settle(conn, line=row.line, due_at=row.due_at)
        return len(due_lines) == _AT_ONCE
