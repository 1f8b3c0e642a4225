"""Attacks on the API's socket: heads without an end, bodies that never end, requests that two parsers read apart."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from urllib.parse import urlsplit

import pytest
from tests.pace import allowed

BATCH = "/v1/namespaces/{namespace}/branches/{branch}/batches/1"


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@pytest.fixture(scope="module")
async def branch(place, agent):
    return await place.branch(agent)


async def sent(place, *pieces: bytes, torn: bool = False) -> bytes:
    """What comes back for some bytes, until the API closes or says nothing more."""
    address = urlsplit(place.stack.api_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if torn:
            writer.write_eof()
        async with asyncio.timeout(allowed(5)):
            while piece := await reader.read(65536):
                answer += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: ", b"\r\n\r\n"),
        (b"GET /", b" HTTP/1.1\r\nConnection: close\r\n\r\n"),
    ],
    ids=["header", "path"],
)
async def test_a_head_that_is_too_long_is_refused_before_it_takes_memory(place, start, end):
    answer = await sent(place, start, *[b"x" * 65536] * 32, end)
    assert answer.startswith(b"HTTP/1.1 431 ") or not answer, "closed while we were still sending"
    assert (await place.raw(None, "GET", "/healthz")).status_code == 200


async def test_many_small_headers_are_bounded_together(place):
    line = b"X-Some: " + b"x" * 1000 + b"\r\n"
    answer = await sent(place, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n", *[line * 60] * 30, b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ") or not answer


async def test_a_large_body_is_not_taken_for_a_head(place, agent, branch):
    body = secrets.token_bytes(1 << 20)
    kept = {await agent.put_evidence(place.namespace, branch.name, body) for _ in range(3)}
    assert kept == {f"evidence:sha256:{hashlib.sha256(body).hexdigest()}"}


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 2\r\n\r\nabcd",
        b"Transfer-Encoding: xchunked\r\n\r\nabcd",
        b"Content-Length: -1\r\n\r\nabcd",
    ],
    ids=["both", "two lengths", "unknown", "negative"],
)
async def test_a_request_whose_end_is_ambiguous_is_refused(place, branch, framing):
    token = place.account("agent")
    target = BATCH.format(namespace=place.namespace, branch=branch.name)
    head = f"PUT {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode()
    answer = await sent(place, head + framing)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["code"] == "MalformedRequest", "one answer, and nothing behind it"


async def test_what_is_no_request_behind_a_good_one_is_not_answered_in_its_place(place, branch):
    token = place.account("agent")
    target = f"/v1/namespaces/{place.namespace}/branches/{branch.name}"
    head = f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    answer = await sent(place, head + b"\0 no request\r\n\r\n")
    assert not answer.startswith(b"HTTP/1.1 400 ")


async def test_an_upload_torn_off_is_no_defect_of_the_api_and_leaves_nothing(place, agent, branch):
    token = place.account("agent")
    target = BATCH.format(namespace=place.namespace, branch=branch.name)
    before = place.stack.log("api").read_text()
    await sent(
        place,
        f"PUT {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode(),
        b"Content-Length: 1000\r\n\r\n{",
        torn=True,
    )
    await asyncio.sleep(0.2)
    said = place.stack.log("api").read_text().removeprefix(before)
    assert '"level": "error"' not in said
    assert [found async for found in agent.batches(place.namespace, branch.name)] == []
