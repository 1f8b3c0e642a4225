"""What an agent's instances let each other see, over HTTP and MCP; and what no such look may do."""

from __future__ import annotations

import json

import pytest
from tests.store.chatting import ME, raw, told
from tests.store.served import serving
from tests.store.world import AGENTS

from anabranch.model.errors import InvalidInputError


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


@pytest.fixture
async def ada(served):
    """An agent whose instance `night` has told of one day, and kept another to itself."""
    ada = await served.client("ada")
    for day, visibility in (("2026-11-28", "instances"), ("2026-11-29", "instances"), ("2026-11-30", "private")):
        await ada.put_memory(AGENTS, "ada", "daily", [day], day, instance="night", visibility=visibility)
    await ada.put_memory(AGENTS, "ada", "daily", ["of its own"], "2026-11-29")
    return ada


async def read_my_memory(client, **arguments):
    """What the tool gives."""
    params = {"name": "read_my_memory", "arguments": {"namespace": AGENTS, "agent": "ada", **arguments}}
    headers = {"Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = (await raw(client, "POST", "/mcp", json=body, headers=headers)).json()["result"]
    return json.loads(result["content"][0]["text"]) if result["isError"] else result["structuredContent"]


async def test_one_item_of_the_siblings_is_read_as_all_of_theirs_are(ada):
    every = await ada.memory_items(AGENTS, "ada", "daily", siblings=True)
    assert [(one.instance, one.item) for one in every.items] == [("night", "2026-11-28"), ("night", "2026-11-29")]
    one = await ada.memory_items(AGENTS, "ada", "daily", "2026-11-29", siblings=True)
    assert one.items == every.items[1:]
    assert (await ada.memory_items(AGENTS, "ada", "daily", "2026-11-30", siblings=True)).items == ()
    both = await raw(ada, "GET", f"{ME}/memory/daily/2026-11-29?siblings=true&history=true")
    assert (both.status_code, both.json()["code"]) == (422, "InvalidInput")


async def test_the_tool_reads_the_siblings_item_and_not_its_own(ada):
    (theirs,) = (await read_my_memory(ada, section="daily", item="2026-11-29", siblings=True))["sections"]
    assert (theirs["instance"], theirs["content"]) == ("night", ["2026-11-29"])
    (own,) = (await read_my_memory(ada, section="daily", item="2026-11-29"))["sections"]
    assert (own["instance"], own["content"]) == ("default", ["of its own"])


@pytest.mark.parametrize("section", [None, "system_exchanges"])
async def test_the_tool_refuses_siblings_of_what_has_none_and_marks_nothing(served, ada, section):
    await told(served)
    for more in ({"siblings": True}, {"item": "2026-11-29"}):
        refused = await read_my_memory(ada, **({"section": section} if section else {}), **more)
        assert refused["code"] == "InvalidInput"
    (entry,) = (await ada.memory(AGENTS, "ada")).system_exchanges.entries
    assert not entry.seen


async def test_the_exchanges_are_not_marked_as_seen_by_a_call_that_cannot_give_them(served, ada):
    await told(served)
    with pytest.raises(InvalidInputError, match="system_exchanges is no section that the agent writes"):
        await ada.memory_section(AGENTS, "ada", "system_exchanges")
    with pytest.raises(InvalidInputError):
        await ada.memory_items(AGENTS, "ada", "system_exchanges")
    (entry,) = (await ada.memory(AGENTS, "ada")).system_exchanges.entries
    assert not entry.seen
