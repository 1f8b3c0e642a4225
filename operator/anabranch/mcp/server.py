"""A server of some tools: lists them, calls them, and says what went wrong so that an agent can mend it.

It keeps nothing between two calls: each names its branch and its cursor, and is answered by itself. So any replica of
the API answers any call, and the protocol's older revisions, which speak of sessions, are served without any.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from mcp.server import CacheHint, Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ListToolsResult, TextContent
from pydantic import ValidationError

from anabranch import __version__
from anabranch.model import misfits
from anabranch.model.breadth import check_breadth
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp.server import ServerRequestContext
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from anabranch.client import AnabranchClient
    from anabranch.mcp.tools import Tool

LISTED_MILLIS: Final = 3_600_000
"""How long a client may keep the list of tools: it is the same for all, until there is another release."""

_log = logging.getLogger(__name__)


def make(
    tools: Sequence[Tool[Any]],
    *,
    instructions: str,
    client: Callable[[ServerRequestContext[Any, Any]], AbstractAsyncContextManager[AnabranchClient]],
) -> Server[Any]:
    """A server.

    Args:
        tools: What it offers.
        instructions: What a model is told of it; a fixed text.
        client: A client of the API for one call, as whoever makes it.
    """
    known = {tool.name: tool for tool in tools}
    listed = [tool.listed() for tool in tools]

    async def list_tools(_ctx: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        if (tool := known.get(params.name)) is None:
            raise MCPError(INVALID_PARAMS, f"There is no tool {params.name[:80]!r}: tools/list tells those there are.")
        try:
            check_breadth(tool.takes, params.arguments)
            taken = tool.takes.model_validate_json(json.dumps(params.arguments or {}), strict=True)
            async with client(ctx) as calls:
                given = await tool.run(calls, taken)
        except ValidationError as error:
            return refused(misfits.refusal(error, hint=_MEND))
        except AnabranchError as error:
            return refused(error)
        except Exception:  # noqa: BLE001  (a defect of one call must not end the connection of all)
            _log.exception("the tool %s failed", tool.name)
            return refused(AnabranchError("The server met an error of its own.", hint="Try again."))
        return CallToolResult(content=[_text(content := given.model_dump(mode="json"))], structured_content=content)

    return Server(
        "anabranch",
        version=__version__,
        title="Anabranch",
        description="Branching, reviewed memory for fleets of AI agents",
        instructions=instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=LISTED_MILLIS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_MEND: Final = "Mend the named arguments, as the tool's input schema describes them."


def refused(error: AnabranchError) -> CallToolResult:
    """An error as a tool's answer: what happened, and what to do next, with the members that a problem has."""
    problem = {"code": error.code, "status": error.status, "detail": error.detail, "hint": error.hint, **error.extra}
    return CallToolResult(content=[_text(problem)], structured_content=problem, is_error=True)


def _text(content: Any) -> TextContent:
    """The same once more as JSON text, for clients that do not read structured content."""
    return TextContent(type="text", text=json.dumps(content, ensure_ascii=False))
