"""What stands between the pages and the rest of the web.

A page must not be driven by another site: so requests come under a host's own name (a name that another site has
pointed at this address is refused), changes come from a form of ours (its token is bound to the visitor) and from our
origin. And what a page shows must not act: nothing runs or is loaded but this package's files, nobody frames it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse

from anabranch.model.errors import ForbiddenError, InvalidInputError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from anabranch.web.desk import Desk

FIELD: Final = "token"
"""The form's field that holds the visitor's token."""

FORM_BYTES: Final = 4 << 20
_FIELDS: Final = 64

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would make browsers send forms with the origin `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class StrangeFormError(ForbiddenError):
    """The form was not made for this visitor, or does not come from one of our pages."""

    code = "StrangeForm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at the pages.

    Attributes:
        desk: Reads and decides for them.
        secret: Known to us and this visitor's browser; forms carry what is derived of it.
        may_leave: Whether they have logged in, and may log out.
    """

    desk: Desk
    secret: bytes = field(repr=False)
    may_leave: bool = False

    @property
    def token(self) -> str:
        """What forms carry, to show that they were made for this visitor."""
        return hmac.new(self.secret, b"anabranch form", hashlib.sha256).hexdigest()


class Gate(Protocol):
    """Who is let in, and under which names the pages are served."""

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Pages of its own, open to everybody: where one comes in."""

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""

    async def visitor(self, request: Request) -> Visitor | Response:
        """Who sends a request; or what to answer instead."""


class Guarded:
    """An application whose answers are inert elsewhere, and that takes nothing from other sites.

    Args:
        app: The application.
        gate: Knows our names.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, sending)
        else:
            await PlainTextResponse(f"{refusal}\n", status_code=403)(scope, receive, sending)

    def _refusal(self, scope: Scope) -> str | None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._gate.is_ours(hosts[0]):
            return "These pages are not served under this name."
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] in {"GET", "HEAD"}:
            return None
        # Every browser names the origin of a form that it sends. Where none is named, none of ours has sent it.
        ours = headers.get(b"origin", "").partition("://")[2] == hosts[0]
        if not ours or headers.get(b"sec-fetch-site", "") == "cross-site":
            return "The request does not come from one of these pages."
        return None


async def form(request: Request, visitor: Visitor) -> Mapping[str, str]:
    """The fields of a form that a page of ours has sent.

    Raises:
        StrangeFormError: If it was not made for this visitor.
        TooLargeError: If it holds more than any form of ours.
        InvalidInputError: If it is none.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES:
            raise TooLargeError(f"The form has more than {FORM_BYTES} bytes.", hint="Shorten it.", limit=FORM_BYTES)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError as error:
        raise InvalidInputError("What came is no form of these pages.", hint="Load the page again.") from error
    fields = dict(pairs)
    if not hmac.compare_digest(fields.pop(FIELD, "").encode(), visitor.token.encode()):
        raise StrangeFormError("The form is of another visit.", hint="Load the page again, and decide once more.")
    return fields
