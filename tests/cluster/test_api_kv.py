"""The key-value contract over HTTP, as a client of instantKV speaks it: with another base URL, and nothing else."""

from __future__ import annotations

import json
from urllib.parse import quote

import httpx
import pytest

CAPSULE = {"goal": "Ship", "summary": "Decided", "next_action": "Measure"}
TORN = {"Content-Digest": "sha-256=:AAAA:"}


class InstantKv:
    """The requests that instantKV's own client makes: each part of a path is one segment."""

    def __init__(self, base: str, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.AsyncClient(headers=headers, trust_env=False, timeout=30)
        self.base = base

    async def call(self, method: str, *segments: str, **options) -> httpx.Response:
        return await self.http.request(
            method, "/".join([self.base, *(quote(each, safe="") for each in segments)]), **options
        )

    async def records(self, method: str, space: str, *key: str, **options) -> httpx.Response:
        return await self.call(method, "v1", "namespaces", space, "records", *key, **options)

    async def space(self, method: str, space: str, *rest: str, **options) -> httpx.Response:
        return await self.call(method, "v1", "namespaces", space, *rest, **options)


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("kv-agent", "anabranch-agent")


@pytest.fixture
async def branch(place, agent):
    return await place.branch(agent)


@pytest.fixture
async def kv(place, branch):
    base = f"{place.stack.api_url}/v1/namespaces/{place.namespace}/branches/{branch.branch_id}/kv"
    client = InstantKv(base, place.account("kv-agent"))
    yield client
    await client.http.aclose()


def error(answer: httpx.Response) -> tuple[int, str, bool]:
    body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"code", "message", "retryable"}
    assert body["error"]["message"]
    return answer.status_code, body["error"]["code"], body["error"]["retryable"]


async def test_a_client_writes_reads_lists_and_deletes(kv):
    assert (await kv.call("GET", "healthz")).json()["status"] == "ok"
    key = "project/architecture/λ?percent%"
    saved = await kv.records("PUT", "knowledge", key, content=b'{ "value": 42 }', headers={"If-None-Match": "*"})
    assert saved.status_code == 200
    receipt = saved.json()
    assert receipt.keys() == {"revision", "bytes", "written_at_ms", "expires_at_ms"}
    assert (receipt["revision"], receipt["bytes"], receipt["expires_at_ms"]) == (1, 15, None)
    found = await kv.records("GET", "knowledge", key)
    assert (found.content, found.headers["etag"]) == (b'{ "value": 42 }', '"1"')
    assert (found.headers["content-type"], found.headers["cache-control"]) == ("application/json", "no-store")
    page = (await kv.records("GET", "knowledge", params={"prefix": "project/", "limit": "1"})).json()
    assert page["items"] == [{"key": key, "revision": 1, "bytes": 15, "expires_at_ms": None}]
    rest = await kv.records(
        "GET", "knowledge", params={"prefix": "project/", "limit": "1", "cursor": page["next_cursor"]}
    )
    assert rest.json() == {"items": [], "next_cursor": None}
    stats = (await kv.space("GET", "knowledge", "stats")).json()
    assert stats == {"entries": 1, "bytes": len(key.encode()) + 15, "revision": 1}
    for condition in ({"If-None-Match": "*"}, {"If-Match": '"2"'}):
        answer = await kv.records("PUT", "knowledge", key, content=b"1", headers=condition)
        assert error(answer) == (409, "conflict", False)
    gone = await kv.records("DELETE", "knowledge", key, headers={"If-Match": '"1"'})
    assert (gone.status_code, gone.content) == (204, b"")
    assert error(await kv.records("GET", "knowledge", key)) == (404, "not_found", False)


async def test_what_it_writes_is_in_the_private_overlay_and_nobody_elses(kv, place, agent, branch):
    await kv.records("PUT", "knowledge", "a", content=b'{"b": 1}', params={"ttl_seconds": "60"})
    record = await agent.get_private(place.namespace, branch.name, "kv/knowledge/a")
    assert (record.content, record.visibility, record.base_revision) == ({"b": 1}, "private", "0")
    assert (await agent.view(place.namespace, branch.name, "kv/knowledge/a")).layer == "private"
    other = await place.client("kv-other", "anabranch-agent")
    path = f"branches/{branch.branch_id}/kv/v1/namespaces/knowledge/records/a"
    assert error(await place.raw(other, "GET", path)) == (404, "not_found", False)


@pytest.mark.parametrize(
    ("method", "rest", "options", "expected"),
    [
        ("PUT", ["records", "k"], {"content": b"1", "params": {"ttl_seconds": "0"}}, (400, "invalid_request")),
        ("PUT", ["records", "k"], {"content": b"1", "headers": {"If-Match": "1"}}, (400, "invalid_request")),
        ("PUT", ["records", "__latest/a"], {"content": b"1"}, (400, "invalid_request")),
        ("PUT", ["records", "k"], {"content": b"x" * 1_100_000}, (413, "payload_too_large")),
        ("PUT", ["records", "k"], {"content": b"1", "headers": TORN}, (400, "invalid_request")),
        ("GET", ["records"], {"params": {"limit": "1001"}}, (400, "invalid_request")),
        ("GET", ["records"], {"params": {"cursor": "x"}}, (400, "invalid_request")),
        ("GET", ["nothing"], {}, (404, "not_found")),
        ("PATCH", ["records", "k"], {}, (404, "not_found")),
        ("POST", ["checkpoints"], {"content": b"{"}, (400, "invalid_request")),
        ("GET", ["checkpoints", "none"], {}, (404, "not_found")),
        ("GET", ["sessions", "a", "b", "latest"], {"params": {"max_bytes": "1"}}, (400, "invalid_request")),
        ("POST", ["search"], {"json": {"query": ""}}, (400, "invalid_request")),
        ("DELETE", ["memories", "none"], {}, (404, "not_found")),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_in_the_contracts_words(kv, method, rest, options, expected):
    answer = await kv.space(method, "knowledge", *rest, **options)
    assert error(answer) == (*expected, False)


async def test_who_calls_without_a_token_or_a_namespace_of_no_name_is_told_so(kv, place):
    stranger = InstantKv(kv.base, None)
    answer = await stranger.records("GET", "knowledge", "k")
    assert error(answer) == (401, "unauthorized", False)
    assert answer.headers["www-authenticate"] == "Bearer"
    await stranger.http.aclose()
    assert error(await kv.records("GET", "no namespace", "k")) == (400, "invalid_request", False)


async def test_an_agent_saves_checkpoints_and_restores_them(kv, place, agent, branch):
    request = {
        "id": "cp-http", "agent_id": "agent", "session_id": "session", "expected_latest_revision": None,
        "capsule": {**CAPSULE, "constraints": ["No keys in logs"], "decisions": [], "open_tasks": []}, "references": [],
    }  # fmt: skip
    receipt = (await kv.space("POST", "checkpoints", "checkpoints", json=request)).json()
    assert receipt == {
        "id": "cp-http", "revision": 1, "latest_revision": 2, "is_latest": True,
        "locator": "instantkv://checkpoints/checkpoints/cp-http",
    }  # fmt: skip
    latest = (await kv.space("GET", "checkpoints", "sessions", "agent", "session", "latest")).json()
    assert latest == {
        "checkpoint_id": "cp-http", "revision": 1, "latest_revision": 2, "capsule": request["capsule"],
        "references": [],
    }  # fmt: skip
    answer = await kv.space("POST", "checkpoints", "checkpoints", json={**request, "id": "cp-2"})
    assert error(answer) == (409, "conflict", False)
    assert error(await kv.space("DELETE", "checkpoints", "checkpoints", "cp-http")) == (409, "conflict", False)


async def test_an_agent_remembers_recalls_searches_and_forgets(kv):
    memory = {"content": "Prefer Rust for local tools", "topic": "preferences", "tags": ["local"], "metadata": {"a": 1}}
    saved = await kv.space("POST", "knowledge", "memories", json={"key": "preferences/language", "memory": memory})
    assert saved.status_code == 200
    hit = saved.json()
    assert hit["memory"]["_instantkv_memory"] == 1
    exact = await kv.space("GET", "knowledge", "memories", "preferences/language")
    assert (exact.json(), exact.headers["etag"]) == (hit, f'"{hit["revision"]}"')
    page = (await kv.space("GET", "knowledge", "memories", params={"topic": "preferences", "query": "rust"})).json()
    assert page["items"] == [hit]
    found = (
        await kv.space("POST", "knowledge", "search", json={"query": "preferred language for local tooling"})
    ).json()
    assert {key: value for key, value in found["items"][0].items() if key != "score"} == hit
    raw = await kv.records("GET", "knowledge", "preferences/language")
    assert json.loads(raw.content) == hit["memory"]
    gone = await kv.space(
        "DELETE", "knowledge", "memories", "preferences/language", headers={"If-Match": f'"{hit["revision"]}"'}
    )
    assert gone.status_code == 204
    assert (await kv.space("GET", "knowledge", "memories")).json()["items"] == []
