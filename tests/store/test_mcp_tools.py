"""What tools do beside calling a route: answers of a size that the API's memory holds, and no step that is in vain."""

from __future__ import annotations

import pytest
from tests.store.building import version
from tests.store.working import RUN
from tests.store.world import AGENTS

from anabranch.mcp import conflicts, on_branch
from anabranch.mcp.arguments import CompleteRun, FollowUpdates, ViewConflicts
from anabranch.model.errors import NotFoundError

AT = {"namespace": AGENTS, "branch": RUN.name}


@pytest.fixture
async def client(place, monkeypatch):
    client = await place.served.client()
    await client.create_branch(AGENTS, RUN)
    monkeypatch.setattr(on_branch, "ANSWER_BYTES", 1_000)
    monkeypatch.setattr(conflicts, "BYTES", 1_000)
    return client


async def test_updates_end_early_where_they_are_large_and_the_next_call_goes_on(place, client):
    keys = [f"k{number:02}" for number in range(20)]
    await place.publish(*(version(key, key * 100) for key in keys))
    seen, after = [], None
    while True:
        given = await on_branch.follow_updates(client, FollowUpdates(**AT, after=after, limit=100))
        if not given.updates:
            break
        assert len(given.updates) <= on_branch._AT_ONCE
        assert all(update.fact.content == update.event.key * 100 for update in given.updates)
        seen += [update.event.key for update in given.updates]
        after = given.cursor
    assert seen == keys


async def test_conflicts_end_early_where_they_are_large_and_the_next_call_goes_on(place, client):
    branch = await place.served.world.apply_branch(RUN.name, account="ada")
    await place.publish(*(version(key, "new") for key in "abc"))
    await place.served.world.submit(branch, 1, *({"key": key, "content": key * 900, "base": 1} for key in "abc"))
    await place.served.world.work()
    seen, cursor = [], None
    while not seen or cursor is not None:
        given = await conflicts.view_conflicts(client, ViewConflicts(**AT, cursor=cursor))
        seen.append([conflict.key for conflict in given.conflicts])
        cursor = given.next_cursor
    assert seen == [["a"], ["b"], ["c"]]


async def test_a_run_is_not_closed_with_a_checkpoint_that_there_is_not(client):
    with pytest.raises(NotFoundError, match="no checkpoint 'cp-1'"):
        await on_branch.complete_run(client, CompleteRun(**AT, checkpoint_id="cp-1"))
    assert (await client.branch(AGENTS, RUN.name)).phase == "Active"
