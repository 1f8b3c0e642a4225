"""MCP over standard input and output, for agents that start their tools themselves."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from anabranch.mcp import agents, instantkv
from anabranch.mcp.server import make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anabranch.client import AnabranchClient


async def serve(client: AnabranchClient, *, instantkv_on: tuple[str, str] | None = None) -> None:
    """Serve until the input ends.

    Args:
        client: Of the API, as whose agent this is.
        instantkv_on: Offer instantKV's tools, on the Branch of this namespace and name, in the place of ours.
    """

    @contextlib.asynccontextmanager
    async def same(_: Any) -> AsyncIterator[AnabranchClient]:
        yield client

    if instantkv_on is None:
        server = make(agents.TOOLS, instructions=agents.INSTRUCTIONS, client=same)
    else:
        server = make(instantkv.tools(*instantkv_on), instructions=instantkv.INSTRUCTIONS, client=same)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
