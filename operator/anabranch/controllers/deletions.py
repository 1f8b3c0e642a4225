"""Lines whose Baseline was deleted with its data: taken one at a time, and deleted in pieces.

What is to go stands in Postgres, so it goes whoever dies meanwhile, and whichever process is there. The Baseline's own
reconcile waits for the end of it, and then lets the resource go.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.store import purging

if TYPE_CHECKING:
    from anabranch.controllers.reconciler import Reconciler
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

_HOLD: Final = timedelta(seconds=60)
"""Others join in after this. It is no lease: they do no harm, and little good."""


class Deletions:
    """Deletes condemned lines. A look of the wake queue.

    Args:
        db: Of the lines.
        reconciler: Called when a line is gone: its Baseline need not wait any longer.
    """

    name = "deletions"

    def __init__(self, db: Database, reconciler: Reconciler) -> None:
        self._db = db
        self._reconciler = reconciler

    async def look(self) -> bool:
        """Delete one; whether there may be more."""
        async with self._db.connection() as conn:
            found = await purging.claim(conn, hold=_HOLD)
        if found is None:
            return False
        _log.info("deleting a line", line=found.line, baseline=f"{found.namespace}/{found.name}")
        await purging.purge(self._db, line=found.line)
        _log.info("deleted a line", line=found.line)
        await self._reconciler.revisit(Key("Baseline", found.namespace, found.name))
        return True
