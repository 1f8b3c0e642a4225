"""The requests that make up the load, answered without FastAPI's routing and resolving of dependencies.

A fleet does three things all the time: it hands in batches, one or many, and reads records. Finding the route and
calling its dependencies takes the framework longer than all that they do. So these three are recognized here by their
path, and the route's own function is called with what the route's own dependencies gave, in the same order. Whatever is
not plainly one of them (a query, another spelling of a path, no token) goes the documented way, which answers it, or
says what is wrong with it. The OpenAPI document knows only that way.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from fastapi import Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.api import problems
from anabranch.api.measured import TEMPLATE
from anabranch.api.parts import Parts
from anabranch.api.routes import baselines, findings
from anabranch.model.errors import AnabranchError
from anabranch.model.text import check_key

_SCHEME: Final = b"Bearer "

Handler: TypeAlias = Callable[["Call", str, str, str], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is answered here.

    Attributes:
        parts: Of the application.
        request: With its body still unread.
        credentials: The token that it carries.
    """

    parts: Parts
    request: Request
    credentials: HTTPAuthorizationCredentials


async def _put_batch(call: Call, namespace: str, branch: str, sequence: str) -> Response:
    at = await findings.at_receipt(call.parts, call.credentials, namespace, branch)
    body = await findings.batch_body(call.request)
    return await findings.put_batch(at, int(sequence), call.parts, body)


async def _post_batches(call: Call, namespace: str, branch: str, _: str) -> Response:
    at = await findings.at_receipt(call.parts, call.credentials, namespace, branch)
    body = await findings.bulk_body(call.request)
    return await findings.post_batches(at, call.parts, body)


async def _get_record(call: Call, namespace: str, baseline: str, rest: str) -> Response:
    ref, _, key = rest.partition("/records/")
    at = await baselines.at_record(call.parts, call.credentials, namespace, baseline)
    return await baselines.get_record(at, ref, key, call.parts, baselines.RecordQuery(), call.request)


_NAMED: Final = (
    r"/v1/namespaces/([a-z0-9][-a-z0-9]{,61}[a-z0-9]|[a-z0-9])/%s/([a-z0-9][-._a-z0-9]{,250}[a-z0-9]|[a-z0-9])"
)
_ROUTES: Final[Sequence[tuple[str, re.Pattern[str], Handler]]] = (
    ("PUT", re.compile(_NAMED % "branches" + r"/batches/([1-9][0-9]{,14})"), _put_batch),
    ("POST", re.compile(_NAMED % "branches" + r"/batches()"), _post_batches),
    ("GET", re.compile(_NAMED % "baselines" + r"/manifests/([a-z0-9_]{1,64}/records/.+)"), _get_record),
)
_NAMESPACE: Final = "/v1/namespaces/{namespace}"
_TEMPLATES: Final[Mapping[Handler, tuple[str, str]]] = {
    _put_batch: ("branch", f"{_NAMESPACE}/branches/{{branch}}/batches/{{sequence}}"),
    _post_batches: ("branch", f"{_NAMESPACE}/branches/{{branch}}/batches"),
    _get_record: ("baseline", f"{_NAMESPACE}/baselines/{{baseline}}/manifests/{{manifest}}/records/{{key}}"),
}
"""Of which kind is what the path names, and the documented route: for the metrics and the log."""


class Direct:
    """An ASGI application around the whole one.

    Args:
        app: The whole application.
        parts: What handlers call.
    """

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        found = _recognized(scope)
        if found is None:
            await self._app(scope, receive, send)
            return
        handler, captured, token = found
        kind, scope[TEMPLATE] = _TEMPLATES[handler]
        scope["path_params"] = {"namespace": captured[0], kind: captured[1]}
        credentials = HTTPAuthorizationCredentials(scheme="Bearer", credentials=token)
        request = Request(scope, receive)
        try:
            response = await handler(Call(self._parts, request, credentials), *captured)
        except AnabranchError as error:
            response = problems.response(error)
        except ClientDisconnect:
            response = Response(status_code=HTTPStatus.BAD_REQUEST)
        except Exception:
            await problems.unexpected()(scope, receive, send)
            raise  # the server logs it with its traceback
        await response(scope, receive, send)


def _recognized(scope: Scope) -> tuple[Handler, tuple[str, str, str], str] | None:
    """The handler of a request that is plainly one of these, what its path names, and its token."""
    if scope["type"] != "http" or scope["query_string"]:
        return None
    for method, path, handler in _ROUTES:
        if method == scope["method"] and (match := path.fullmatch(scope["path"])) is not None:
            namespace, name, rest = match.groups()
            token = _token(scope["headers"])
            plain = token and (handler is not _get_record or _is_key(rest.partition("/records/")[2]))
            return (handler, (namespace, name, rest), token) if plain else None
    return None


def _token(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The bearer token of a request with one."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or not found[0].startswith(_SCHEME):
        return ""
    return found[0].removeprefix(_SCHEME).decode("latin-1").strip()


def _is_key(text: str) -> bool:
    try:
        return check_key(text) == text
    except AnabranchError:
        return False
