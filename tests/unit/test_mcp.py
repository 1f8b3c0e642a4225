"""What the tools say of themselves, without an API behind them."""

from __future__ import annotations

import contextlib
import json
import ssl

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from anabranch.client import AnabranchClient
from anabranch.mcp import agents, instantkv
from anabranch.mcp.server import make
from anabranch.model.errors import ConflictError

INSTANTKV = instantkv.tools("team", "run")
TOOLS = [pytest.param(tool, id=tool.name) for tool in (*agents.TOOLS, *INSTANTKV)]


class Nobody:
    """A client that calls nothing."""


@contextlib.asynccontextmanager
async def nobody(_ctx):
    yield Nobody()


def serving(**replaced):
    tools = [tool if tool.name not in replaced else with_run(tool, replaced[tool.name]) for tool in agents.TOOLS]
    return Client(make(tools, instructions="x", client=nobody))


def with_run(tool, run):
    import dataclasses

    return dataclasses.replace(tool, run=run)


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_has_schemas_that_are_schemas_of_objects(tool):
    listed = tool.listed()
    for schema in (listed.input_schema, listed.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert listed.input_schema["additionalProperties"] is False
    assert listed.title
    assert listed.description.endswith(".")


@pytest.mark.parametrize("tool", TOOLS)
def test_each_argument_that_is_not_plain_from_its_name_is_explained(tool):
    plain = {"limit", "content", "value", "capsule", "checkpoint", "findings"} | {
        "key", "scope", "query", "topic", "tag", "tags", "prefix", "cursor", "since_ms", "until_ms", "ttl_seconds",
        "if_revision", "session_id", "agent_id", "checkpoint_id", "max_bytes", "wait",
    }  # fmt: skip
    for name, schema in tool.listed().input_schema["properties"].items():
        assert name in plain or "description" in schema, name


def test_a_tool_that_changes_nothing_says_so():
    hints = {tool.name: tool.listed().annotations for tool in agents.TOOLS}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "recall", "read_record", "view_conflicts", "restore", "peers",
    }  # fmt: skip
    assert {name for name, hint in hints.items() if not hint.idempotent_hint} == {
        "submit_findings", "my_events",
    }  # fmt: skip
    assert all(hint.open_world_hint is False for hint in hints.values())


def test_the_tools_of_instantkv_are_all_there():
    assert [tool.name for tool in INSTANTKV] == [
        "remember", "recall", "search", "browse", "forget", "memory_put", "memory_get", "memory_list", "memory_delete",
        "memory_checkpoint", "memory_delete_checkpoint", "memory_restore",
    ]  # fmt: skip


async def test_arguments_that_do_not_fit_are_named_and_nothing_is_converted():
    async with serving() as client:
        result = await client.call_tool("follow_updates", {"namespace": "team", "branch": "run", "limit": "5", "x": 1})
    assert result.is_error
    problem = json.loads(result.content[0].text)
    assert problem["code"] == "InvalidInput"
    assert {error["field"] for error in problem["errors"]} == {"limit", "x"}
    assert "input schema" in problem["hint"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("follow_updates", {"applied": True}),
        ("submit_findings", {"findings": [{"key": "k"}]}),
        ("submit_findings", {"findings": [{"key": "k", "content": 1, "delete": True}]}),
        ("submit_findings", {"findings": []}),
    ],
    ids=["applied what", "no content", "content of a deletion", "nothing"],
)
async def test_arguments_that_contradict_each_other_are_refused(tool, arguments):
    async with serving() as client:
        result = await client.call_tool(tool, {"namespace": "team", "branch": "run", **arguments})
    assert (result.is_error, json.loads(result.content[0].text)["code"]) == (True, "InvalidInput")


async def test_an_error_says_what_happened_and_what_to_do_with_all_that_it_carries():
    async def refuse(_client, _asked):
        raise ConflictError("It is at revision 3.", hint="Read it again.", revision="3")

    async with serving(read_record=refuse) as client:
        result = await client.call_tool("read_record", {"namespace": "team", "branch": "run", "key": "k"})
    assert (result.is_error, json.loads(result.content[0].text)) == (
        True,
        {
            "code": "Conflict",
            "status": 409,
            "detail": "It is at revision 3.",
            "hint": "Read it again.",
            "revision": "3",
        },
    )


async def test_a_defect_is_answered_without_its_words(caplog):
    async def fail(_client, _asked):
        raise RuntimeError("secret")

    async with serving(read_record=fail) as client:
        result = await client.call_tool("read_record", {"namespace": "team", "branch": "run", "key": "k"})
    assert result.is_error
    assert "secret" not in result.content[0].text
    assert "secret" in caplog.text


def test_a_server_of_a_branchs_tools_is_made_anew_without_making_their_schemas_anew(monkeypatch):
    first = [tool.listed() for tool in instantkv.tools("team", "one")]

    def made(*_args, **_options):
        raise AssertionError("a schema is made with each call")

    for tool in INSTANTKV:
        for model in (tool.takes, tool.gives):
            monkeypatch.setattr(model, "model_json_schema", made)
    assert [tool.listed() for tool in instantkv.tools("team", "two")] == first


async def test_a_client_of_an_application_in_this_process_reads_no_certificates(monkeypatch):
    def read(*_args, **_options):
        raise AssertionError("certificates are read for a connection that nobody makes")

    monkeypatch.setattr(httpx, "create_ssl_context", read)
    monkeypatch.setattr(ssl, "create_default_context", read)
    async with AnabranchClient("http://localhost", token="t", through=httpx.ASGITransport(app=None)):
        pass
