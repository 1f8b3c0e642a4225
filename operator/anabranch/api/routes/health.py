"""Health: whether the process lives, and whether it can do its work. Open to all, and empty of anything private."""

from typing import Any

import structlog
from fastapi import APIRouter, Depends, Response

from anabranch import __version__
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import GRANT, Route
from anabranch.model.answers import Health
from anabranch.model.errors import AnabranchError
from anabranch.store import migrate
from anabranch.telemetry.common import read_pool
from anabranch.telemetry.of_api import AGENT_STREAMS, FOLLOWERS, LINE_LAG

_log = structlog.get_logger(__name__)

router = APIRouter(route_class=Route, tags=["health"])


class OpenToAll:
    """Says in the document that a route asks for no grant."""

    def __call__(self) -> None:
        """Ask for nothing."""

    def document(self, operation: dict[str, Any]) -> None:
        """Name no row, and no credentials."""
        operation[GRANT] = []
        operation["security"] = []


_open = [Depends(OpenToAll())]


@router.get("/healthz", response_model=Health, summary="Whether the process lives", dependencies=_open)
async def healthz() -> Response:
    """Answers as long as the event loop turns."""
    return reply(Health(status="ok"))


@router.get(
    "/readyz",
    response_model=Health,
    summary="Whether it can do its work",
    dependencies=_open,
    responses={503: {"model": Health, "description": "What is wrong, part by part"}},
)
async def readyz(parts: WithParts) -> Response:
    """Ready: Postgres answers, its schema is this program's, and the API server answers."""
    checks = await examined(parts)
    ok = all(outcome == "ok" for outcome in checks.values())
    return reply(Health(status="ok" if ok else "unavailable", checks=checks), status=200 if ok else 503)


class Inner:
    """The same for the inner port of the process, and what it measures there.

    Args:
        parts: Of the application.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def alive(self) -> dict[str, str]:
        """Nothing is wrong as long as the event loop turns."""
        return {}

    async def ready(self) -> dict[str, str]:
        """What keeps the process from its work."""
        return {part: outcome for part, outcome in (await examined(self._parts)).items() if outcome != "ok"}

    def facts(self) -> dict[str, str]:
        """Which program it is."""
        return {"version": __version__}

    def measure(self) -> None:
        """Look at the pool, at how many streams there are, and at how far they are behind."""
        read_pool(self._parts.db.use())
        LINE_LAG.set(self._parts.lags.worst())
        FOLLOWERS.set(len(self._parts.live))
        AGENT_STREAMS.set(len(self._parts.pushes))


async def examined(parts: Parts) -> dict[str, str]:
    """The parts that the work needs, each "ok" or what is wrong with it."""
    checks = {"postgres": await _outcome(_postgres(parts)), "kubernetes": await _outcome(_kubernetes(parts))}
    if parts.waking.ending:  # balancers leave before it does
        checks["process"] = "It is ending: call another one."
    return checks


async def _postgres(parts: Parts) -> None:
    async with parts.db.connection() as conn:
        await migrate.check(conn)


async def _kubernetes(parts: Parts) -> None:
    await parts.kube.call("GET", "/version", timeout=3)


async def _outcome(check: Any) -> str:
    try:
        await check
    except AnabranchError as error:
        # The words of a driver name hosts, ports and roles: they are for the log, the hint is for everybody.
        _log.warning("not ready", error=str(error))
        return error.hint or error.code
    return "ok"
