"""Frames of MCP, as anybody with a token may send them: an answer of the protocol, and no defect in the log."""

from __future__ import annotations

import json
import logging

import httpx
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.fuzz import JSONS, altered, fuzzed

from anabranch.api.mcp import Answer, Tools

ABSENT = {"type": "/problems/NotFound", "title": "x", "status": 404, "detail": "No.", "code": "NotFound", "hint": "x"}
ACCEPT = (b"accept", b"application/json, text/event-stream")
JSON = (b"content-type", b"application/json")
TOKEN = (b"authorization", b"Bearer t")


async def absent(_scope, _receive, send):
    """An API in which there is nothing."""
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(ABSENT).encode()})


TOOLS = Tools(absent)


def serving(body: bytes):
    """The door of the tools, behind which the body was read."""

    async def app(scope, receive, send):
        await Answer(TOOLS.of_agents, body)(scope, receive, send)

    return app


async def answered(body: bytes, *headers: tuple[bytes, bytes]) -> httpx.Response:
    """What comes back; what the server does not catch is raised here."""
    through = httpx.ASGITransport(app=serving(body))
    async with httpx.AsyncClient(transport=through, base_url="http://localhost") as client:
        return await client.post("/mcp", content=body, headers=[TOKEN, *(headers or (ACCEPT, JSON))])


def call(**params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


AT = {"namespace": "team", "branch": "run"}
FRAMES = (
    call(name="recall", arguments={**AT, "query": "cache", "limit": 3}),
    call(name="submit_findings", arguments={**AT, "findings": [{"key": "k", "content": {"a": [1.5, None]}}]}),
    call(name="read_my_memory", arguments={"namespace": "team", "agent": "ada", "section": "daily"}),
    b'{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"x"}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
)
MADE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "x"])},
    optional={
        "id": JSONS,
        "params": JSONS
        | st.fixed_dictionaries({"name": st.sampled_from(["recall", "restore", "x"]), "arguments": JSONS}),
    },
).map(lambda frame: json.dumps(frame).encode())
VERSION = st.sampled_from([b"2025-06-18", b"2025-11-25", b"2026-01-01", b"\xff", b""]) | st.binary(max_size=12)
STATUSES = {200, 202, 400, 404, 406, 413, 415}


def is_answer(answer: httpx.Response, body: bytes) -> None:
    """It is of the protocol, and no longer than what it was asked by so much that somebody could live on that."""
    assert answer.status_code in STATUSES, answer.text
    assert len(answer.content) < 100_000 + 4 * len(body)
    if answer.content and answer.headers.get("content-type") == "application/json":
        told = answer.json()
        assert told["jsonrpc"] == "2.0"
        assert told.keys() & {"result", "error"}
        assert told.get("error", {}).get("code") != -32603, "an error of the server's own"
        if answer.status_code == 200 and told.get("result", {}).get("isError"):
            problem = told["result"]["structuredContent"]
            assert problem["status"] < 500
            assert problem["hint"]


@fuzzed
@given(altered(*FRAMES) | MADE | st.binary(max_size=60))
async def test_a_frame_is_answered_as_the_protocol_has_it(caplog, body):
    caplog.clear()
    is_answer(await answered(body), body)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@fuzzed
@given(
    st.sampled_from(FRAMES),
    st.sampled_from([b"*/*", b"text/html", ACCEPT[1], b"", b"\xff", b"application/json;q=x"]) | st.binary(max_size=20),
    st.sampled_from([b"text/plain", JSON[1], b"application/json; charset=utf-16", b"\xff"]) | st.binary(max_size=20),
    VERSION,
    st.binary(max_size=12),
)
async def test_headers_of_the_protocol_are_understood_or_refused(body, accept, kind, version, session):
    headers = [(b"accept", accept), (b"content-type", kind), (b"mcp-protocol-version", version)]
    clean = [(name, value.translate(None, b"\r\n\0")) for name, value in [*headers, (b"mcp-session-id", session)]]
    is_answer(await answered(body, *clean), body)


async def test_a_frame_that_is_deep_or_broad_is_refused_in_few_words():
    called = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_private","arguments":%b}}'
    for body in (
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" + b",".join([b"[]"] * 200_000) + b"]",
        b"[" + b",".join(FRAMES[:1] * 2_000) + b"]",
        called % (b"{" + b",".join(b'"%d":[]' % number for number in range(100_000)) + b"}"),
        called % (b'{"namespace":"a","branch":"b","key":"k","content":' + b"9" * 100_000 + b"}"),
    ):
        answer = await answered(body)
        assert answer.status_code in {200, 400}
        assert len(answer.content) < 10_000
