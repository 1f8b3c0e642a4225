"""The tools by the protocol's own client: over HTTP in its revisions and over stdio, on a running whole."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.cluster.places import eventually

CAPSULE = {"goal": "Ship", "summary": "Decided", "next_action": "Measure"}


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("mcp-agent", "anabranch-agent")


@pytest.fixture
async def branch(place, agent):
    return await place.branch(agent)


@contextlib.asynccontextmanager
async def tools(place, account, *, path="/mcp", mode="auto"):
    """A client of the tools as an account, in this process."""
    token = place.account(account)
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{place.stack.api_url}{path}", http_client=http), mode=mode) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(place, account, *more):
    """A client of the tools as an account, by the command."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "anabranch.cli.main", "mcp", f"--namespace={place.namespace}", *more],
        env={"ANABRANCH_URL": place.stack.api_url, "ANABRANCH_TOKEN": place.account(account)},
    )
    async with Client(command) as client:
        yield client


def given(result) -> dict:
    """What a tool gave; the text says the same."""
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def refused(result) -> dict:
    assert result.is_error
    return json.loads(result.content[0].text)


@pytest.mark.parametrize("way", ["2026-07-28", "legacy", "stdio"])
async def test_an_agent_works_through_a_whole_run(place, agent, branch, way):
    key = f"build/{secrets.token_hex(4)}"
    at = {"namespace": place.namespace, "branch": branch.name}
    how = over_stdio(place, "mcp-agent") if way == "stdio" else tools(place, "mcp-agent", mode=way)
    async with how as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {
            "recall", "read_record", "write_private", "submit_findings", "follow_updates", "view_conflicts",
            "complete_run", "checkpoint", "restore", "peers", "read_my_memory", "save_my_memory", "my_events",
            "ack_event",
        }  # fmt: skip
        base = given(await client.call_tool("read_record", {**at, "key": "build/cache"}))
        assert (base["layer"], base["content"]) == ("base", "Warm the cache first.")

        note = given(await client.call_tool("write_private", {**at, "key": key, "content": {"seen": 1}}))
        hits = given(await client.call_tool("recall", {**at, "query": "warm cache"}))["items"]
        assert (hits[0]["key"], hits[0]["layer"]) == ("build/cache", "base")
        late = await client.call_tool("write_private", {**at, "key": key, "content": 2, "if_revision": "0"})
        assert (refused(late)["code"], refused(late)["revision"]) == ("PreconditionFailed", note["revision"])
        again = {**at, "key": key, "content": {"seen": 2}, "if_revision": note["revision"]}
        assert given(await client.call_tool("write_private", again))["revision"] == "2"

        saved = {**at, "checkpoint_id": "cp-1", "capsule": CAPSULE, "expected_latest": ""}
        assert given(await client.call_tool("checkpoint", saved))["locator"] == "checkpoint:cp-1"
        assert given(await client.call_tool("restore", at))["capsule"]["goal"] == "Ship"

        found = {"key": key, "content": {"cause": "memory"}, "evidence": "OOMKilled", "sources": ["checkpoint:cp-1"]}
        batch = {**at, "findings": [found], "sequence": 1}
        receipt = given(await client.call_tool("submit_findings", batch))["acknowledgement"]
        repeated = given(await client.call_tool("submit_findings", batch))["acknowledgement"]
        assert repeated["receipt_id"] == receipt["receipt_id"]
        await place.publication(agent, branch)

        async def update():
            page = given(await client.call_tool("follow_updates", {**at, "wait": 1, "limit": 100}))
            return next((page, each) for each in page["updates"] if each["event"]["key"] == key)

        page, seen = await eventually(update)
        assert seen["event"]["origin_branch"] == branch.branch_id
        assert (seen["fact"]["content"], seen["fact"]["origin_runs"]) == ({"cause": "memory"}, [branch.run_id])
        behind = {**at, "after": page["cursor"], "applied": True}
        assert given(await client.call_tool("follow_updates", behind))["updates"] == []
        assert (await agent.feed_place(place.namespace, branch.name)).cursor == page["cursor"]
        assert given(await client.call_tool("read_record", {**at, "key": key, "layer": "shared"}))["content"] == {
            "cause": "memory"
        }

        rival = {
            **at,
            "findings": [{"key": "build/cache", "content": "Do not.", "evidence": "a log", "base_revision": "0"}],
        }
        given(await client.call_tool("submit_findings", rival))

        async def conflict():
            return given(await client.call_tool("view_conflicts", at))["conflicts"]

        (candidate,) = await eventually(conflict)
        assert (candidate["content"], candidate["canonical"]["content"]) == ("Do not.", "Warm the cache first.")

        peers = given(await client.call_tool("peers", at))["peers"]
        assert branch.branch_id in {peer["branch_id"] for peer in peers}
        closed = given(await client.call_tool("complete_run", {**at, "checkpoint_id": "cp-1"}))
        assert (closed["last_submitted_sequence"], closed["closed_at"] is not None) == (2, True)
        over = refused(await client.call_tool("write_private", {**at, "key": key, "content": 1}))
        assert (over["code"], "Fork a new branch" in over["hint"]) == ("Conflict", True)


@pytest.mark.parametrize("way", ["2026-07-28", "legacy", "stdio"])
async def test_an_agent_remembers_and_hears_of_its_other_sessions(place, agent, way):
    name = f"mcp-{way}"
    place.account(name, "anabranch-agent")
    platform = await place.client("mcp-chat", "anabranch-platform")
    exchange = {
        "exchange_id": f"room/{way}", "kind": "exchange.direct", "surface": {"pod_id": "room", "label": "Build"},
        "participants": [{"agent_id": name}], "turns": [{"sender": "bob", "content": "Use the large pool."}],
    }  # fmt: skip
    assert (await place.raw(platform, "POST", "exchanges", json=exchange)).status_code == 200
    at = {"namespace": place.namespace, "agent": name}
    how = over_stdio(place, name) if way == "stdio" else tools(place, name, mode=way)
    async with how as client:
        saved = given(await client.call_tool("save_my_memory", {**at, "section": "long_term", "content": {"a": 1}}))
        late = await client.call_tool(
            "save_my_memory", {**at, "section": "long_term", "content": 2, "if_revision": "0"}
        )
        assert (refused(late)["code"], refused(late)["revision"]) == ("PreconditionFailed", saved["revision"])
        closed = refused(await client.call_tool("save_my_memory", {**at, "section": "system_exchanges", "content": []}))
        assert (closed["code"], closed["status"], closed["section"]) == ("SectionNotWritable", 403, "system_exchanges")
        day = {**at, "section": "daily", "item": "2026-11-30"}
        given(await client.call_tool("save_my_memory", {**day, "content": ["tried"], "visibility": "instances"}))
        assert given(await client.call_tool("read_my_memory", day))["sections"][0]["content"] == ["tried"]
        days = given(await client.call_tool("read_my_memory", {**at, "section": "daily"}))["sections"]
        assert [one["item"] for one in days] == ["2026-11-30"]
        seen = {**at, "instance": "night", "section": "daily", "siblings": True}
        assert given(await client.call_tool("read_my_memory", seen))["sections"] == days
        whole = given(await client.call_tool("read_my_memory", at))
        assert [entry["seen"] for entry in whole["exchanges"]["entries"]] == [False]

        (event,) = given(await client.call_tool("my_events", {**at, "wait_seconds": 5}))["events"]
        assert event["data"]["memoryDigest"]["entries"][0]["takeaway"] == "Use the large pool."
        assert event["data"]["exchangeId"] == f"room/{way}"
        done = {**at, "event_id": event["id"], "claim_id": event["claimid"]}
        assert given(await client.call_tool("ack_event", done))["status"] == "acked"
        assert given(await client.call_tool("ack_event", done))["status"] == "acked"
        lost = await client.call_tool("ack_event", {**done, "error": "too late"})
        assert refused(lost)["code"] == "ClaimLost"
        exchanges = {**at, "section": "system_exchanges"}
        entries = given(await client.call_tool("read_my_memory", exchanges))["exchanges"]["entries"]
        assert [(entry["kind"], entry["seen"]) for entry in entries] == [("exchange.direct", True)]
        other = await client.call_tool("read_my_memory", {**at, "agent": "mcp-agent"})
        assert refused(other)["code"] == "NotFound"


async def test_a_tool_is_refused_as_its_routes_are(place, agent, branch):
    at = {"namespace": place.namespace, "branch": branch.name}
    place.account("mcp-other", "anabranch-agent")
    place.account("mcp-viewer", "anabranch-viewer")
    place.account("mcp-nobody")
    calls = {
        "recall": {**at, "query": "cache"},
        "read_record": {**at, "key": "build/cache"},
        "write_private": {**at, "key": "k", "content": 1},
        "submit_findings": {**at, "findings": [{"key": "k", "content": 1}]},
        "follow_updates": at,
        "complete_run": at,
        "checkpoint": {**at, "checkpoint_id": "c", "capsule": CAPSULE},
        "restore": at,
    }
    for account in ("mcp-other", "mcp-viewer", "mcp-nobody"):
        async with tools(place, account) as client:
            for name, arguments in calls.items():
                assert refused(await client.call_tool(name, arguments))["code"] == "NotFound", (account, name)
    async with tools(place, "mcp-nobody") as client:
        for name in ("view_conflicts", "peers"):
            assert refused(await client.call_tool(name, at))["code"] == "NotFound"
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool("drop_everything", {})
    assert [found async for found in agent.batches(place.namespace, branch.name)] == []


async def test_who_has_no_good_token_is_told_nothing(place, agent, branch):
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    below = f"/v1/namespaces/{place.namespace}/branches/{branch.name}/kv/mcp"
    for path in ("/mcp", below):
        for token in (None, "x.y.z"):
            sent = headers if token is None else {**headers, "Authorization": f"Bearer {token}"}
            answer = await place.raw(None, "POST", path, json=listing, headers=sent)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        page = await place.raw(agent, "POST", path, json=listing, headers={**headers, "Origin": "https://evil.example"})
        assert page.status_code == 403
        assert (await place.raw(agent, "POST", path, json=listing, headers=headers)).status_code == 200
        too_large = await place.raw(agent, "POST", path, content=b"x" * ((4 << 20) + 1), headers=headers)
        assert too_large.status_code == 413
    assert (await place.raw(agent, "GET", "/mcp", headers=headers)).status_code == 405
    other = await place.client("mcp-other", "anabranch-agent")
    assert (await place.raw(other, "POST", below, json=listing, headers=headers)).status_code == 404


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_an_agent_of_instantkv_goes_on_with_its_tools(place, agent, branch, way):
    below = f"/v1/namespaces/{place.namespace}/branches/{branch.name}/kv/mcp"
    how = over_stdio(place, "mcp-agent", f"--instantkv={branch.name}") if way == "stdio" else tools(
        place, "mcp-agent", path=below
    )  # fmt: skip
    async with how as client:
        assert len((await client.list_tools()).tools) == 12
        put = {"key": "mcp/decision", "value": {"content": "Keep memory durable"}}
        receipt = given(await client.call_tool("memory_put", put))
        got = given(await client.call_tool("memory_get", {"key": "mcp/decision"}))
        assert got == {"key": "mcp/decision", "revision": receipt["revision"], "value": put["value"]}
        late = refused(await client.call_tool("memory_put", {**put, "if_absent": True}))
        assert (late["code"], late["status"]) == ("conflict", 409)
        (listed,) = given(await client.call_tool("memory_list", {"prefix": "mcp/"}))["items"]
        assert listed["key"] == "mcp/decision"

        memory = {"key": "m", "content": "Prefer Rust", "topic": "Tools", "tags": ["local"], "metadata": {"a": [1]}}
        hit = given(await client.call_tool("remember", memory))
        assert hit["memory"]["_instantkv_memory"] == 1
        assert given(await client.call_tool("recall", {"topic": "tools", "query": "rust"}))["items"] == [hit]
        assert given(await client.call_tool("browse", {}))["items"] == [hit]
        assert given(await client.call_tool("search", {"query": "preferring"}))["items"][0]["key"] == "m"
        given(await client.call_tool("forget", {"key": "m", "if_revision": hit["revision"]}))
        assert refused(await client.call_tool("forget", {"key": "m"}))["code"] == "not_found"

        checkpoint = {
            "id": "cp", "agent_id": "a", "session_id": "s", "capsule": CAPSULE,
            "references": [{"namespace": "knowledge", "key": "mcp/decision", "revision": receipt["revision"]}],
        }  # fmt: skip
        saved = given(await client.call_tool("memory_checkpoint", {"checkpoint": checkpoint}))
        restored = given(await client.call_tool("memory_restore", {"agent_id": "a", "session_id": "s"}))
        assert restored["references"][0]["status"] == "available"
        assert restored == given(await client.call_tool("memory_restore", {"checkpoint_id": "cp"}))
        assert refused(await client.call_tool("memory_restore", {}))["code"] == "InvalidInput"
        latest = {**checkpoint, "id": "cp2", "expected_latest_revision": saved["latest_revision"]}
        given(await client.call_tool("memory_checkpoint", {"checkpoint": latest}))
        given(await client.call_tool("memory_delete_checkpoint", {"checkpoint_id": "cp"}))
        given(await client.call_tool("memory_delete", {"key": "mcp/decision"}))
        assert refused(await client.call_tool("memory_get", {"key": "mcp/decision"}))["code"] == "not_found"
