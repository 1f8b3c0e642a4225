"""What is asked of every request's head, before its route is looked for: a path in UTF-8, and a protocol that is known.

A key that is not UTF-8 would be taken with other characters in place of its bytes, and so for another key. The
protocol's version is optional: a client that names one is told which it gets, or at once that there is none for it.
"""

from typing import ClassVar, Final
from urllib.parse import unquote_to_bytes

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.api import problems
from anabranch.model.errors import AnabranchError, InvalidInputError

HEADER: Final = "Anabranch-Protocol"
VERSION: Final = "1"

_NAME: Final = HEADER.lower().encode()


class ProtocolUnknownError(AnabranchError):
    """The client speaks a version of the protocol that this release does not."""

    status = 400
    code: ClassVar[str] = "ProtocolUnknown"


class Heads:
    """An ASGI application around another one.

    Args:
        app: The other one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        asked = next((value for name, value in scope["headers"] if name == _NAME), None)
        try:
            _check_path(scope)
            if asked is not None:
                _check_protocol(asked)
        except AnabranchError as error:
            await problems.response(error)(scope, receive, send)
            return
        await self._app(scope, receive, send if asked is None else _telling(send))


def _check_path(scope: Scope) -> None:
    raw: bytes = scope.get("raw_path") or b""
    if b"%" in raw or not raw.isascii():
        try:
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            raise InvalidInputError(
                "The path is not UTF-8.", hint="Encode the key as UTF-8, and then percent-encode its bytes."
            ) from None


def _check_protocol(asked: bytes) -> None:
    version = asked.decode("latin-1").strip()
    if version != VERSION:
        raise ProtocolUnknownError(
            f"Version {version[:16]!r} of the protocol is not spoken here.",
            hint=f"Use a client of this API's release, or send {HEADER}: {VERSION}.",
            supported=[VERSION],
        )


def _telling(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[HEADER] = VERSION
        await send(message)

    return sending
