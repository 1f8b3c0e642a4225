"""Health: whether the process lives, and whether it can do its work. Open to all, and empty of anything private."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from fastapi import APIRouter, Depends, Response

from anabranch import __version__
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import GRANT, Route
from anabranch.model.answers import Health
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.store import durability
from anabranch.telemetry.common import read_gates, read_pools
from anabranch.telemetry.of_api import AGENT_STREAMS, FOLLOWERS, LINE_LAG, STANDBYS_AWAY, STORE_UP

COMMITS: Final = "commits"
"""The part that is told of, and that nobody has to be sent elsewhere for: it is the same at every process."""

_log = structlog.get_logger(__name__)

_STORE: Final = "store "
"""What the parts begin with that are one of several databases."""

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
    """Ready: Postgres answers, its schema is this program's, and the API server answers; of several stores, one.

    That commits wait for a standby is told, and keeps nobody away by itself: writes are answered with 503 meanwhile.
    """
    checks = await examined(parts)
    ok = not wrong(checks)
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
        return wrong(await examined(self._parts))

    def facts(self) -> dict[str, str]:
        """Which program it is."""
        return {"version": __version__}

    def measure(self) -> None:
        """Look at the pool, at how many streams there are, and at how far they are behind."""
        read_pools({store.name: store.db.use() for store in self._parts.stores})
        read_gates({store.name: store.db.commits_wait for store in self._parts.stores})
        STORE_UP.set({(store.name,): float(store.fault is None) for store in self._parts.stores})
        if standbys := [store.db.standbys for store in self._parts.stores if store.db.standbys is not None]:
            STANDBYS_AWAY.set(int(any(one.left_alone for one in standbys)))
        LINE_LAG.set(self._parts.lags.worst())
        FOLLOWERS.set(sum(len(store.live) for store in self._parts.stores))
        AGENT_STREAMS.set(len(self._parts.pushes))


async def examined(parts: Parts) -> dict[str, str]:
    """The parts that the work needs, each "ok" or what is wrong with it."""
    checks = {"kubernetes": await _outcome(_kubernetes(parts)), **await _postgres(parts)}
    if checks["postgres"] == "ok" and (outcome := await _outcome(_commits(parts))) != "ok":
        checks[COMMITS] = outcome
    if parts.stores.ending:  # balancers leave before it does
        checks["process"] = "It is ending: call another one."
    return checks


def wrong(checks: Mapping[str, str]) -> dict[str, str]:
    """What keeps the process from its work: of several stores, one that is away does not."""
    return {
        part: outcome
        for part, outcome in checks.items()
        if outcome != "ok" and part != COMMITS and not part.startswith(_STORE)
    }


async def _commits(parts: Parts) -> None:
    for store in parts.stores:
        if store.fault is not None:
            continue
        async with store.db.answers() as conn:
            if await durability.waiting(conn, seconds=durability.LONG_SECONDS) or store.db.commits_wait:
                raise UnavailableError(
                    f"Commits wait for a synchronous standby in the store {store.name}.",
                    hint="They wait for a synchronous standby of Postgres: bring one back. Reads go on.",
                )


async def _postgres(parts: Parts) -> dict[str, str]:
    """How the database is; of several, how each is, and whether one of them will do."""
    if len(parts.stores) == 1:
        return {"postgres": await _outcome(parts.stores.default.check())}
    each = {_STORE + store.name: _told(store.fault) for store in parts.stores}
    return {"postgres": "ok" if "ok" in each.values() else each[_STORE + parts.stores.default.name], **each}


async def _kubernetes(parts: Parts) -> None:
    await parts.kube.call("GET", "/version", timeout=3)


async def _outcome(check: Any) -> str:
    try:
        await check
    except AnabranchError as error:
        return _told(error)
    return "ok"


def _told(error: AnabranchError | None) -> str:
    if error is None:
        return "ok"
    # The words of a driver name hosts, ports and roles: they are for the log, the hint is for everybody.
    _log.warning("not ready", error=str(error))
    return error.hint or error.code
