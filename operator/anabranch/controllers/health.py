"""Whether this process is alive and of use, for probes: ``/healthz`` and ``/readyz``.

Alive means that a restart would not help: the event loop answers, and no watch has gone silent. Ready means that it can
work: Postgres answers, and the leader's watches have begun. An API server or a database that is away makes a process
unready and never dead, for restarting it would cure nothing.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.controllers.watching import Watches
    from anabranch.kube.leader import Leadership
    from anabranch.store.database import Database


class Health:
    """Answers both questions.

    Args:
        db: Asked for a sign of life.
        leadership: A process that does not lead watches nothing, and is ready all the same.
        watches: Of the leader.
    """

    def __init__(self, db: Database, *, leadership: Leadership, watches: Watches) -> None:
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
            async with self._db.connection() as conn:
                await conn.execute("SELECT 1")
        except AnabranchError as error:
            wrong["database"] = error.detail
        if self._leadership.leading and (missing := self._watches.missing()):
            wrong["watches"] = f"not begun: {', '.join(missing)}"
        return wrong

    @contextlib.asynccontextmanager
    async def served(self, *, host: str, port: int) -> AsyncIterator[None]:
        """Serve both endpoints while the block runs; port 0: don't."""
        if not port:
            yield
            return
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield
        finally:
            await runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return self._answer(self.alive())

    async def _readyz(self, _request: web.Request) -> web.Response:
        return self._answer(await self.ready())

    def _answer(self, wrong: dict[str, str]) -> web.Response:
        body: dict[str, Any] = {"ok": not wrong, "leading": self._leadership.leading, "wrong": wrong}
        return web.Response(text=json.dumps(body) + "\n", content_type="application/json", status=503 if wrong else 200)
