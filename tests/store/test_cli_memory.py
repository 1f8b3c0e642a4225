"""``anabranch memory``: an agent's memory and queue as people look at them, which changes nothing."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.store.chatting import told
from tests.store.served import serving
from tests.store.world import AGENTS

from anabranch.cli.main import run
from anabranch.identity import grants


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


@pytest.fixture
def cli(served, capsys):
    """Runs a command as an account; gives its exit code and what it printed."""

    async def call(*arguments, account="ada"):
        options = ("--namespace", AGENTS, "--url", served.url, "--token", account)
        capsys.readouterr()  # what the API logs in this process
        code = await asyncio.to_thread(run, ["memory", *arguments, *options])
        printed = capsys.readouterr()
        return code, printed.err if code else printed.out

    return call


async def test_what_an_agent_remembers_is_listed_and_shown(served, cli):
    ada = await served.client("ada")
    await ada.put_memory(AGENTS, "ada", "long_term", {"deploys": "Never on Fridays."}, source="tests")
    await ada.put_memory(AGENTS, "ada", "daily", ["Tried."], "2026-11-30", visibility="instances")
    _, listed = await cli("show", "ada")
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["daily", "2026-11-30", "instances"],
        ["long_term", "private", "31"],
    ]
    _, whole = await cli("show", "ada", "-o", "json")
    assert json.loads(whole)["system_exchanges"]["entries"] == []
    assert "Never on Fridays." in (await cli("show", "ada", "long_term"))[1]
    assert json.loads((await cli("show", "ada", "daily", "-o", "json"))[1])["items"][0]["content"] == ["Tried."]
    assert "- Tried." in (await cli("show", "ada", "daily", "2026-11-30"))[1]
    code, refused = await cli("show", "ada", "dedup_state")
    assert (code, "Nothing is written down in dedup_state." in refused) == (1, True)


async def test_looking_marks_nothing_as_seen_and_takes_no_event(served, cli):
    await told(served, said="Mind the \x1b[31mgap.")
    for _ in range(2):
        _, exchanges = await cli("exchanges", "ada")
        assert exchanges.splitlines()[0].split() == ["AT", "KIND", "WHERE", "PEERS", "SEEN", "TAKEAWAY"]
        assert ("Build chat" in exchanges, "bob/default" in exchanges, "   no   " in exchanges) == (True, True, True)
        assert "\x1b" not in exchanges
        shown = json.loads((await cli("show", "ada", "system_exchanges", "-o", "json"))[1])
        assert [entry["seen"] for entry in shown["entries"]] == [False]
        _, events = await cli("events", "ada")
        assert events.splitlines()[1].split()[1:4] == ["exchange.direct", "pending", "0"]
    _, seen = await cli("exchanges", "ada", "--seen", "-o", "json")
    assert [entry["seen"] for entry in json.loads(seen)] == [False], "as it was before"
    assert "   yes   " in (await cli("exchanges", "ada"))[1]
    assert (await cli("events", "ada", "--status", "failed"))[1] == "Nothing found.\n"


async def test_another_agents_memory_is_not_to_be_seen(served, cli):
    await told(served)
    served.world.permissions.deny(grants.USE_AGENT_ID)
    for command in ("show", "exchanges", "events"):
        code, printed = await cli(command, "ada", account="eve")
        assert (code, "There is no agent agents/ada, or you may not see it." in printed) == (1, True)
