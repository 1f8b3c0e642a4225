"""Around the whole application: what every request is counted by, named by in the log, and answered with its id.

It is the outermost part, so that the quick ways and the documented ones are measured by the same clock, defects of
either too. It costs a few microseconds a request, and logs nothing.
"""

import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import uuid_utils
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.model.trace import HEADER
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.of_api import REQUESTS

REQUEST_ID: Final = b"x-request-id"
TEMPLATE: Final = "anabranch.route"
"""Where a request that the framework does not route names its route."""

SENT: Final = "anabranch.sent"
"""Where a request counts the bytes of its answer that were not sent by `send`."""

UNMATCHED: Final = "unmatched"
"""The route of a request to a path that there is not: such paths are without number."""

_SANE: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRACEPARENT: Final = HEADER.encode()
_STREAM: Final = (b"content-type", b"text/event-stream")
_METHODS: Final = frozenset(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"))
_NAMED: Final = ("namespace", "baseline", "branch", "job")
"""What a path names that is said in the log. A record's key is not: agents choose it."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""What a path may name. It is told of requests that were refused too, whose words may be anything."""


class Measured:
    """An ASGI application around the whole one.

    Args:
        app: The whole application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        REQUESTS.in_flight += 1
        began = time.perf_counter()
        try:
            await self._app(scope, exchange.receive, exchange.send)
        finally:
            exchange.tell()
            REQUESTS.in_flight -= 1
            REQUESTS.note(
                method=exchange.method,
                route=exchange.route,
                status=exchange.status,
                seconds=time.perf_counter() - began,
                received=exchange.received,
                sent=exchange.sent + scope.get(SENT, 0),
            )


class _Exchange:
    """One request and its answer, as they go by."""

    __slots__ = ("_receive", "_request_id", "_scope", "_send", "_span", "received", "sent", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.received = 0
        self.sent = 0
        self.status = 500  # unless it is answered: the server says so in its stead
        self._request_id, traceparent = _identified(scope["headers"])
        self._span = tracing.request(traceparent)
        logs.bind({"request_id": self._request_id.decode()}, late=self._named)

    @property
    def method(self) -> str:
        """One of a few."""
        method: str = self._scope["method"]
        return method if method in _METHODS else "other"

    @property
    def route(self) -> str:
        """The template of the path."""
        if (template := self._scope.get(TEMPLATE)) is None:
            template = getattr(self._scope.get("route"), "path_format", UNMATCHED)
        return str(template)

    async def receive(self) -> Message:
        """Count a piece of the body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """Note the status, add the id, count a piece of the body."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if any(name == _STREAM[0] and value.startswith(_STREAM[1]) for name, value in message.get("headers", ())):
                self.tell()  # it has begun, which is all that was asked for; it may last for days
            message = {**message, "headers": [*message.get("headers", ()), (REQUEST_ID, self._request_id)]}
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def tell(self) -> None:
        """End its span, once."""
        span, self._span = self._span, tracing.NOTHING
        if not span.recorded:
            return
        span.rename(f"{self.method} {self.route}")
        span.describe({"http.request.method": self.method, "http.route": self.route})
        span.describe({"http.response.status_code": self.status})
        span.set(request_id=self._request_id.decode(), **self._named())
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.fail(str(self.status))
        span.end()

    def _named(self) -> Mapping[str, Any]:
        found = self._scope.get("path_params") or {}
        return {name: found[name] for name in _NAMED if name in found and _NAME.fullmatch(found[name])}


def _identified(headers: list[tuple[bytes, bytes]]) -> tuple[bytes, str | None]:
    """The id of a request, the caller's if it is a sane one, and its traceparent; of several there is none."""
    request_id = b""
    traces = []
    for name, value in headers:
        if name == REQUEST_ID:
            request_id = value if _SANE.fullmatch(value) else b""
        elif name == _TRACEPARENT:
            traces.append(value.decode("latin-1").strip())
    return request_id or uuid_utils.uuid7().hex.encode(), traces[0] if len(traces) == 1 else None
