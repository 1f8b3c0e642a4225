"""The application: which page is where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from anabranch.web import static
from anabranch.web.guard import Guarded
from anabranch.web.pages import baselines, changes, decisions, groups, jobs, lineage, merges, queue
from anabranch.web.visit import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from anabranch.web.guard import Gate
    from anabranch.web.visit import Handler

PAGES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/", queue.show),
    ("GET", "/jobs/{namespace}/{job}", jobs.show),
    ("POST", "/jobs/{namespace}/{job}", decisions.decide),
    ("GET", "/jobs/{namespace}/{job}/merge", merges.show),
    ("POST", "/jobs/{namespace}/{job}/merge", merges.write),
    ("POST", "/jobs/{namespace}/{job}/groups", groups.decide),
    ("GET", "/baselines", baselines.index),
    ("GET", "/baselines/{namespace}/{baseline}", baselines.history),
    ("GET", "/baselines/{namespace}/{baseline}/diff", changes.diff),
    ("GET", "/baselines/{namespace}/{baseline}/rollback", changes.rollback),
    ("GET", "/baselines/{namespace}/{baseline}/lineage", lineage.show),
)


def create(gate: Gate) -> ASGIApp:
    """The pages.

    Args:
        gate: Who is let in, and under which names they are served.
    """
    routes = [
        *gate.routes,
        static.ROUTE,
        *(Route(path, page(handler, gate), methods=[method]) for method, path, handler in PAGES),
    ]
    return Guarded(Starlette(routes=routes, exception_handlers={404: _absent, 405: _absent}), gate)


async def _absent(_request: Request, error: Exception) -> Response:
    status: int = getattr(error, "status_code", 404)
    return PlainTextResponse("There is no such page.\n", status_code=status)
