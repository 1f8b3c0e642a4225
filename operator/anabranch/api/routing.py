"""Routes that document themselves: what a dependency checks, and what it refuses with, stands in the OpenAPI document.

A route's dependencies say which grant is asked and how a body is read. The document is made from the same objects that
do the checking, so it cannot claim another grant than the one that is asked.

What answers GET answers HEAD too, in the same way and without the body. The document has only those HEADs that are
answered otherwise, by routes of their own before the ones for GET.
"""

import copy
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, runtime_checkable

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from anabranch.api.problems import MEDIA_TYPE
from anabranch.model.errors import AnabranchError, InvalidInputError

GRANT: str = "x-anabranch-grant"
"""Where an operation names the rows of the table of grants that it asks for; an empty list: it is open to all."""


@runtime_checkable
class Documented(Protocol):
    """A dependency that has something to say in the OpenAPI document."""

    def document(self, operation: dict[str, Any]) -> None:
        """Add it to an operation."""


@runtime_checkable
class Begun(Protocol):
    """An answer that holds something until it has been sent."""

    async def drop(self) -> None:
        """Let go of it: it will not be sent."""


class Route(APIRoute):
    """A route that lets its dependencies document themselves, and answers HEAD where it answers GET."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        operation = copy.deepcopy(self.openapi_extra or {})
        for dependency in self.dependant.dependencies:
            if isinstance(dependency.call, Documented):
                dependency.call.document(operation)
        may_fail(operation, InvalidInputError, AnabranchError)
        self.openapi_extra = operation

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler; on a route without query parameters one that refuses any, as the others refuse unknown ones."""
        handler = super().get_route_handler()
        takes_query = any(dependant.query_params for dependant in (self.dependant, *self.dependant.dependencies))

        async def handle(request: Request) -> Response:
            if request.query_params and not takes_query:
                names = ", ".join(sorted(request.query_params))[:200]
                raise InvalidInputError(f"Unknown query parameters: {names}.", hint="Leave them out.")
            response = await handler(request)
            return response if request.method != "HEAD" else await _without_body(response)

        return handle

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route; one for HEAD is where one for GET would be."""
        match, child = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL and self._answers_head(scope) else match), child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that it matches."""
        if self._answers_head(scope):
            await self.app(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    def _answers_head(self, scope: Scope) -> bool:
        return bool(scope["type"] == "http" and scope["method"] == "HEAD" and "GET" in (self.methods or ()))


def may_fail(operation: dict[str, Any], *errors: type[AnabranchError]) -> None:
    """Document problems that an operation may answer with; the root of them stands for all others."""
    responses = operation.setdefault("responses", {})
    for error in errors:
        status = "default" if error is AnabranchError else str(error.status)
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        known = responses.setdefault(status, {"description": "", "content": content})
        text = "Any other problem." if error is AnabranchError else f"{error.code}: {_summary(error)}"
        known["description"] = " ".join(filter(None, (known["description"], text)))


async def _without_body(response: Response) -> Response:
    """An answer's status and headers, those about its body included."""
    if isinstance(response, Begun):
        await response.drop()
    bare = Response(status_code=response.status_code)
    bare.raw_headers = response.raw_headers
    return bare


def _summary(error: type[AnabranchError]) -> str:
    return (error.__doc__ or "").partition("\n")[0]
