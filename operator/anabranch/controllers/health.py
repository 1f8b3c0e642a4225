"""Whether this process is alive and of use, for the probes of its inner port.

Alive means that a restart would not help: the event loop answers, and no watch has gone silent. Ready means that it can
work: Postgres answers, the API server has answered lately, and the leader's watches have begun; a stand-by that could
take over is ready. An API server or a database that is away makes a process
unready and never dead, for restarting it would cure nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from anabranch import __version__
from anabranch.model.errors import AnabranchError
from anabranch.model.stores import DEFAULT_STORE
from anabranch.telemetry import common, of_operator

if TYPE_CHECKING:
    from anabranch.controllers.watching import Watches
    from anabranch.kube.leader import Leadership
    from anabranch.store.database import Database

_ANSWER_SECONDS: Final = 3.0
"""Less than a probe of the chart waits: what is wrong is said rather than nothing."""


class Health:
    """Answers both questions.

    Args:
        db: Asked for a sign of life.
        store: Its name.
        leadership: A process that does not lead watches nothing, and is ready all the same.
        watches: Of the leader.
    """

    def __init__(self, db: Database, *, leadership: Leadership, watches: Watches, store: str = DEFAULT_STORE) -> None:
        self._store = store
        self._db = db
        self._leadership = leadership
        self._watches = watches

    def alive(self) -> dict[str, str]:
        """What is wrong so that only a restart helps; empty: nothing."""
        silent = self._watches.silent()
        return {"watches": f"silent: {', '.join(silent)}"} if silent else {}

    async def ready(self) -> dict[str, str]:
        """What keeps this process from working; empty: nothing."""
        wrong = self.alive()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._db.answers() as conn:
                await conn.execute("SELECT 1")
        except AnabranchError as error:
            wrong["database"] = error.detail
        except TimeoutError:
            wrong["database"] = f"Postgres has not answered within {_ANSWER_SECONDS:g} s."
        if not self._leadership.reached:
            wrong["api_server"] = "It has not answered lately, see the log."
        if self._leadership.leading and (missing := self._watches.missing()):
            wrong["watches"] = f"not begun: {', '.join(missing)}"
        return wrong

    def facts(self) -> dict[str, Any]:
        """Which program it is, and whether it leads."""
        return {"version": __version__, "leading": self._leadership.leading, "store": self._store}

    def measure(self) -> None:
        """Look at the pool, the leadership and the watches."""
        leading = self._leadership.leading
        common.read_pools({self._store: self._db.use()})
        common.read_gates({self._store: self._db.commits_wait})
        of_operator.LEADER.set({(self._store,): float(leading)})
        of_operator.WATCH_AGE.set({(kind,): age for kind, age in self._watches.ages().items()} if leading else {})
