"""MCP inside the API process: the same tools as over stdio, for runtimes that speak streamable HTTP.

A call comes in as one request and goes on as requests to this very application, with the caller's token: so a tool is
asked for the same grants as its routes, by the same code. Nothing is kept between two calls, no session and no stream
that a client would listen on, so any replica answers any of them.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
from fastapi import Request, Response
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.client import AnabranchClient
from anabranch.mcp import agents, instantkv
from anabranch.mcp.server import make
from anabranch.model.errors import ForbiddenError

BODY_BYTES: Final = 4 << 20

INSIDE: Final = "http://localhost"
"""An address for requests to this application; no socket leads there."""


class Tools:
    """Servers of tools, whose calls come back to an application.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.of_agents = make(agents.TOOLS, instructions=agents.INSTRUCTIONS, client=self._as_caller)
        """Those of an agent, on any of its branches."""

    def of_instantkv(self, namespace: str, branch: str) -> Server[Any]:
        """Those of instantKV, on one branch."""
        return make(instantkv.tools(namespace, branch), instructions=instantkv.INSTRUCTIONS, client=self._as_caller)

    @contextlib.asynccontextmanager
    async def _as_caller(self, ctx: ServerRequestContext[Any, Any]) -> AsyncIterator[AnabranchClient]:
        """A client that calls the application with the token that the tool was called with."""
        token = ctx.request.headers["authorization"].partition(" ")[2].strip() if ctx.request is not None else None
        app = self._app if ctx.request is None else _heard_by(self._app, ctx.request)
        inside = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with AnabranchClient(INSIDE, token=token, through=inside) as client:
            yield client


def _heard_by(app: ASGIApp, request: Request) -> ASGIApp:
    """An application whose caller is gone once that of a request is: who waits for events claims none for nobody."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        unread = True

        async def hear() -> Message:
            nonlocal unread
            if not unread:
                return await request.receive()
            message = await receive()
            unread = message.get("more_body", False)
            return message

        await app(scope, hear, send)

    return called


class Answer(Response):
    """The answer of a server of tools to one request.

    Args:
        server: The server.
        body: Of the request, which was read.
    """

    def __init__(self, server: Server[Any], body: bytes) -> None:
        super().__init__()
        self._server = server
        self._sent = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the server answer, by a manager that ends with the request."""
        unread: list[Message] = [{"type": "http.request", "body": self._sent, "more_body": False}]

        async def again() -> Message:
            return unread.pop() if unread else await receive()

        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=BODY_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, again, send)


def check_origin(request: Request) -> None:
    """Refuse what a page of another site makes a browser send.

    Raises:
        ForbiddenError: If it names an origin that is not this host.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise ForbiddenError("The request comes from a page of another site.", hint="Call from a program.")
