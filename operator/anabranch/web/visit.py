"""One request of one person: what a page needs to answer it, and how errors look."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.responses import HTMLResponse, RedirectResponse, Response

from anabranch.model.errors import AnabranchError, NotFoundError
from anabranch.web.rendering import environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from anabranch.client import AnabranchClient
    from anabranch.web.desk import Desk
    from anabranch.web.guard import Gate, Visitor

_NAME: Final = re.compile(r"[a-z0-9]([-._a-z0-9]{0,251}[a-z0-9])?")
_TEMPLATES: Final = environment()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request, and what answers it.

    Attributes:
        request: As it came.
        visitor: Who sends it.
        client: The API, as they read it.
    """

    request: Request
    visitor: Visitor
    client: AnabranchClient

    @property
    def desk(self) -> Desk:
        """Where the visitor reads and decides."""
        return self.visitor.desk

    @property
    def base(self) -> str:
        """What all paths of ours begin with; empty at the root."""
        base: str = self.request.scope.get("root_path", "")
        return base

    def asked(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query_params.get(name, default)

    def name(self, part: str) -> str:
        """A part of the path that names an object.

        Raises:
            NotFoundError: If nothing can have such a name.
        """
        name: str = self.request.path_params[part]
        if not _NAME.fullmatch(name):
            raise NotFoundError("There is no such page.", hint="Go back to the queue.")
        return name

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page."""
        visitor = self.visitor
        common = {"base": self.base, "person": self.desk.person, "token": visitor.token, "path": _path(self)}
        text = _TEMPLATES.get_template(template).render(**common, may_leave=visitor.may_leave, **values)
        return HTMLResponse(text, status_code=status)

    def go(self, path: str) -> Response:
        """The answer to a form that was taken: the page to look at now."""
        return RedirectResponse(f"{self.base}{path}", status_code=303)


Handler: TypeAlias = "Callable[[Visit], Awaitable[Response]]"


def page(handler: Handler, gate: Gate) -> Callable[[Request], Awaitable[Response]]:
    """A page that knows its visitor, and says in words what went wrong."""

    async def answer(request: Request) -> Response:
        visitor = await gate.visitor(request)
        if isinstance(visitor, Response):
            return visitor
        async with contextlib.AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(visitor.desk.client())
                return await handler(Visit(request=request, visitor=visitor, client=client))
            except AnabranchError as error:
                return problem(error, base=request.scope.get("root_path", ""), person=visitor.desk.person)

    return answer


def problem(error: AnabranchError, *, base: str, person: str) -> Response:
    """An error as a page."""
    text = _TEMPLATES.get_template("problem.html").render(base=base, person=person, path="", error=error)
    return HTMLResponse(text, status_code=error.status)


def notice(template: str, *, base: str, status: int, **values: Any) -> Response:
    """A page for somebody who is not let in yet."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(base=base, person="", path="", **values), status)


def _path(visit: Visit) -> str:
    path: str = visit.request.url.path
    return path.removeprefix(visit.base)
