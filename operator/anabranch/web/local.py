"""The gate at a person's own machine: nothing to log in to, and nobody else gets in.

The server acts in the person's name, and every process and every user of the machine can reach a loopback address. So
it opens only to the browser that came by its link, whose key only the person's terminal has shown.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse
from starlette.routing import Route

from anabranch.web.guard import Visitor
from anabranch.web.visit import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from anabranch.web.desk import Desk

HOST: Final = "127.0.0.1"
"""The only address that is listened on."""


class LocalGate:
    """Lets in who has the link.

    Args:
        desk: Reads and decides for the person.
        port: That the server listens on.
    """

    def __init__(self, desk: Desk, *, port: int) -> None:
        self._desk = desk
        self._names = {f"{HOST}:{port}", f"localhost:{port}"}
        self._cookie = f"anabranch-{port}"  # a browser sends the cookies of one port to all others of the host
        self._key = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._secret = secrets.token_bytes(32)
        self.link = f"http://{HOST}:{port}/enter?key={self._key}"
        """Opens the pages. Whoever has it decides in the person's name."""

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Where the link leads."""
        return (Route("/enter", self._enter, methods=["GET"]),)

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server, and not a name that somebody has pointed at the loopback."""
        return host in self._names

    async def visitor(self, request: Request) -> Visitor | Response:
        """The person, in the browser that came by the link."""
        if not _same(request.cookies.get(self._cookie, ""), self._session):
            return notice("stranger.html", base="", status=403)
        return Visitor(desk=self._desk, secret=self._secret)

    async def _enter(self, request: Request) -> Response:
        if not _same(request.query_params.get("key", ""), self._key):
            return notice("stranger.html", base="", status=403)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
        return answer


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
