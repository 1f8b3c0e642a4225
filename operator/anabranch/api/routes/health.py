"""Health: whether the process lives, and whether it can do its work. Open to all, and empty of anything private."""

from typing import Any

import structlog
from fastapi import APIRouter, Depends, Response

from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import GRANT, Route
from anabranch.model.answers import Health
from anabranch.model.errors import AnabranchError
from anabranch.store import migrate

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
    checks = {"postgres": await _outcome(_postgres(parts)), "kubernetes": await _outcome(_kubernetes(parts))}
    if parts.waking.ending:  # balancers leave before it does
        checks["process"] = "It is ending: call another one."
    ok = all(outcome == "ok" for outcome in checks.values())
    return reply(Health(status="ok" if ok else "unavailable", checks=checks), status=200 if ok else 503)


async def _postgres(parts: WithParts) -> None:
    async with parts.db.connection() as conn:
        await migrate.check(conn)


async def _kubernetes(parts: WithParts) -> None:
    await parts.kube.call("GET", "/version", timeout=3)


async def _outcome(check: Any) -> str:
    try:
        await check
    except AnabranchError as error:
        # The words of a driver name hosts, ports and roles: they are for the log, the hint is for everybody.
        _log.warning("not ready", error=str(error))
        return error.hint or error.code
    return "ok"
