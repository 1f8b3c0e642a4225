"""The inner door of a process: ``/metrics``, ``/healthz`` and ``/readyz``, for scrapers and probes of the cluster.

It is a listener of its own, so that what a process tells of itself is never on the address that agents call. A scrape
reads memory only, whoever asks and however often: it costs Postgres and the API server nothing.

Alive means that a restart would not help; ready, that the process can work. Both answers say in JSON what is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anabranch.telemetry.declaring import Metrics


class Health(Protocol):
    """What a process says of itself."""

    def alive(self) -> dict[str, str]:
        """What is wrong so that only a restart helps, part by part; empty: nothing."""

    async def ready(self) -> dict[str, str]:
        """What keeps the process from working, part by part; empty: nothing."""

    def facts(self) -> Mapping[str, Any]:
        """What is worth to be known beside, in JSON."""

    def measure(self) -> None:
        """Bring readings up to date that only need a look at memory."""


_HEADERS: Final = {"Cache-Control": "no-store"}


@contextlib.asynccontextmanager
async def listening(metrics: Metrics, health: Health, *, host: str, port: int) -> AsyncIterator[None]:
    """Answer while the block runs.

    Args:
        metrics: What is shown.
        health: Asked at each request.
        host: Address to listen on.
        port: Port; 0: don't.
    """
    if not port:
        yield
        return
    door = _Door(metrics, health)
    app = web.Application()
    app.router.add_get("/metrics", door.metrics)
    app.router.add_get("/healthz", door.healthz)
    app.router.add_get("/readyz", door.readyz)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


class _Door:
    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health

    async def metrics(self, _request: web.Request) -> web.Response:
        self._health.measure()
        # Some thousand lines of text: not in the loop.
        text = await asyncio.to_thread(generate_latest, self._metrics.registry)
        return web.Response(body=text, headers={**_HEADERS, "Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(self, _request: web.Request) -> web.Response:
        return self._answer(self._health.alive())

    async def readyz(self, _request: web.Request) -> web.Response:
        return self._answer(await self._health.ready())

    def _answer(self, wrong: Mapping[str, str]) -> web.Response:
        body = {"ok": not wrong, **self._health.facts(), "wrong": dict(wrong)}
        text = json.dumps(body) + "\n"
        return web.Response(text=text, content_type="application/json", headers=_HEADERS, status=503 if wrong else 200)
