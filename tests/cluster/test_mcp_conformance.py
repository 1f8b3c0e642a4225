"""The protocol's own conformance suite, of what a server of tools without sessions has.

It comes from npm and wants Node 22: `npm install @modelcontextprotocol/conformance`, and its `dist/index.js` in
ANABRANCH_MCP_CONFORMANCE (with ANABRANCH_NODE, where `node` is older). It shows no tokens, so one is added on the way.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket

import pytest

SUITE = os.environ.get("ANABRANCH_MCP_CONFORMANCE")
NODE = os.environ.get("ANABRANCH_NODE", "node")

pytestmark = pytest.mark.skipif(SUITE is None, reason="ANABRANCH_MCP_CONFORMANCE names no conformance suite")

SCENARIOS = ("server-initialize", "ping", "tools-list")


class WithToken:
    """A proxy that adds a token to each request: it reads heads, and passes on all else as it is."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self._address = address
        self._header = f"Authorization: Bearer {token}\r\n".encode()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onwards, out = await asyncio.open_connection(*self._address)

        async def back() -> None:
            while piece := await onwards.read(65536):
                writer.write(piece)
                await writer.drain()
            writer.close()

        returning = asyncio.create_task(back())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, _, rest = head.partition(b"\r\n")
                out.write(line + b"\r\n" + self._header + rest)
                length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                out.write(await reader.readexactly(int(length[1])) if length else b"")
                await out.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            out.close()
            await asyncio.gather(returning, return_exceptions=True)


@pytest.fixture(scope="module")
async def url(place):
    host, _, port = place.stack.api_url.removeprefix("http://").partition(":")
    proxy = WithToken((host, int(port)), place.account("mcp-agent", "anabranch-agent"))
    server = await asyncio.start_server(proxy, "127.0.0.1", 0, family=socket.AF_INET)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    server.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_of_the_suite_passes(url, scenario):
    run = await asyncio.create_subprocess_exec(
        NODE, SUITE, "server", "--url", url, "--scenario", scenario,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(run.communicate(), timeout=60)
    assert run.returncode == 0, said.decode()[-4000:]
    assert re.search(r"\b0 failed", said.decode()), said.decode()[-4000:]
