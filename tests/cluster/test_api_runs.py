"""What an agent says of its run over HTTP, what its peers are told, and what the Branch's status shows of it."""

from __future__ import annotations

import json
import secrets

import pytest
from tests.cluster.places import BASELINE, eventually, finding

from anabranch.model.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from anabranch.model.runs import Capsule


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@pytest.fixture(scope="module")
async def other(place):
    """Another agent with every grant that agents have, and more."""
    return await place.client("other", "anabranch-agent", "anabranch-reviewer", "anabranch-publisher")


@pytest.fixture
async def branch(place, agent):
    return await place.branch(agent, task="find out")


def status(place, branch):
    return place.stack.cluster.get("branches", branch.name, "--namespace", place.namespace)["status"]


async def shows(place, branch, **members):
    """Wait until the status says these."""

    async def look():
        found = status(place, branch)
        return found if {name: found.get(name) for name in members} == members else None

    return await eventually(look)


def fresh(**options):
    return finding(f"run/{secrets.token_hex(4)}", secrets.token_hex(4), **options)


async def test_an_agent_that_falls_silent_is_stale_and_comes_back(place, agent):
    branch = await place.branch(agent, lease_seconds=5)
    assert (await shows(place, branch, phase="Active"))["presence"] == {"state": "unknown"}
    told = await agent.presence(place.namespace, branch.branch_id)
    assert (told.state, told.task) == ("active", None)
    await shows(place, branch, presence={"state": "active"})

    found = await shows(place, branch, phase="Stale")
    assert found["presence"]["state"] == "stale"
    assert found["presence"]["leaseDeadline"] == told.lease_deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    peers = {peer.branch_id: peer async for peer in agent.peers(place.namespace, BASELINE, state="stale")}
    assert peers[branch.branch_id].lease_deadline == told.lease_deadline

    await agent.presence(place.namespace, branch.branch_id)
    await shows(place, branch, phase="Active", presence={"state": "active"})


async def test_a_follower_saves_its_place_and_the_status_shows_it(place, agent, branch):
    writer = await place.branch(agent)
    await place.submit(agent, writer, fresh(), fresh())
    await place.publication(agent, writer)
    page = await agent.events(place.namespace, BASELINE, after=branch.shared_feed_cursor)

    told = await agent.save_cursor(place.namespace, branch.branch_id, page.cursor)
    assert (told.cursor, told.sequence) == (page.cursor, page.watermark)
    assert (await agent.save_cursor(place.namespace, branch.branch_id, branch.shared_feed_cursor)).cursor == page.cursor
    assert (await agent.feed_place(place.namespace, branch.branch_id)) == told
    assert (await agent.branch(place.namespace, branch.branch_id)).shared_feed_cursor == page.cursor
    await shows(place, branch, sharedFeedCursor=page.cursor, feedLag=0)


async def test_a_run_that_does_not_follow_is_told_so(place, agent):
    branch = await place.branch(agent, follow="Off")
    assert branch.follow == "Off"
    with pytest.raises(ConflictError):
        await agent.save_cursor(place.namespace, branch.branch_id, branch.shared_feed_cursor)


async def test_a_checkpoint_restores_a_task(place, agent, branch):
    capsule = Capsule(goal="find the cause", open_tasks=("read the log",), next_action="open it")
    made = await agent.put_checkpoint(
        place.namespace, branch.branch_id, "one", capsule, session_id="s", references=["record:build/cache@1"]
    )
    assert await agent.put_checkpoint(
        place.namespace, branch.branch_id, "one", capsule, session_id="s", references=["record:build/cache@1"]
    ) == made  # fmt: skip
    assert await agent.latest_checkpoint(place.namespace, branch.name, session_id="s") == made
    assert await agent.latest_checkpoint(place.namespace, branch.name) is None
    assert [found async for found in agent.checkpoints(place.namespace, branch.name)] == [made]
    assert await agent.checkpoint(place.namespace, branch.name, "one") == made
    with pytest.raises(ConflictError):
        await agent.put_checkpoint(place.namespace, branch.branch_id, "one", Capsule(goal="another"), session_id="s")
    for name in ("-bad", "a b"):
        with pytest.raises(InvalidInputError):
            await agent.put_checkpoint(place.namespace, branch.branch_id, name, capsule)


async def test_what_a_run_says_of_itself_is_its_own_agents_alone(place, agent, other, branch):
    await agent.put_checkpoint(place.namespace, branch.branch_id, "one", Capsule(goal="mine"))
    for ask in (
        other.presence(place.namespace, branch.branch_id),
        other.feed_place(place.namespace, branch.branch_id),
        other.save_cursor(place.namespace, branch.branch_id, branch.shared_feed_cursor),
        other.put_checkpoint(place.namespace, branch.branch_id, "two", Capsule(goal="mine too")),
        other.checkpoint(place.namespace, branch.branch_id, "one"),
        other.latest_checkpoint(place.namespace, branch.branch_id),
    ):
        with pytest.raises(NotFoundError):
            await ask


async def test_peers_need_the_grant_of_followers(place, agent, branch):
    await agent.presence(place.namespace, branch.branch_id, task="reading secrets")
    viewer = await place.client("peers-viewer", "anabranch-viewer")
    told = {peer.branch_id: peer async for peer in viewer.peers(place.namespace, BASELINE)}[branch.branch_id]
    assert (told.agent_id, told.state, told.task) == ("agent", "active", None)
    reader = await place.client("peers-reader", "get baselines,baselines/records", "read scopes")
    with pytest.raises(ForbiddenError) as caught:
        [peer async for peer in reader.peers(place.namespace, BASELINE)]
    assert caught.value.extra["grant"] == "baselines/events:watch"


async def test_a_rebase_by_the_spec_moves_the_parent_keeps_the_overlay_and_is_told_in_the_status(place, agent, branch):
    writer = await place.branch(agent)
    change = fresh()
    await agent.put_private(place.namespace, branch.branch_id, change.key, "mine")
    await place.submit(agent, writer, change)
    target = (await place.publication(agent, writer)).generation
    page, conflicts = await agent.rebase_conflicts(place.namespace, branch.branch_id, to="current")
    assert (page.parent, page.target.generation, [c.key for c in conflicts]) == (branch.parent, target, [change.key])

    rebase(place, branch, target)
    shown = await shows(place, branch, phase="Active", observedGeneration=2)
    assert shown["parent"]["generation"] == target
    (earlier,) = shown["lineage"]
    assert (earlier["generation"], earlier["conflicts"]) == (branch.parent.generation, 1)
    moved = await agent.branch(place.namespace, branch.branch_id)
    assert (moved.parent.generation, moved.branch_id, moved.run_id) == (target, branch.branch_id, branch.run_id)

    page, (conflict,) = await agent.rebase_conflicts(place.namespace, branch.branch_id)
    assert (conflict.base_revision, page.lineage[0].manifest) == ("0", branch.parent)
    assert await agent.base_revision(place.namespace, branch.branch_id, change.key) == "0"
    seen = await agent.view(place.namespace, branch.branch_id, change.key, layer="base")
    own = await agent.put_private(
        place.namespace, branch.branch_id, change.key, "both", base_revision=seen.base_revision
    )
    assert own.base_revision == seen.revision
    assert await agent.base_revision(place.namespace, branch.branch_id, change.key) == seen.revision
    assert (await agent.rebase_conflicts(place.namespace, branch.branch_id))[1] == []


async def test_a_rebase_to_where_there_is_nothing_is_stalled_and_the_run_goes_on(place, agent, branch):
    rebase(place, branch, 10_000)
    shown = await shows(place, branch, observedGeneration=2)
    conditions = {condition["type"]: condition for condition in shown["conditions"]}
    assert conditions["Stalled"]["reason"] == conditions["Ready"]["reason"] == "RebaseTargetUnknown"
    assert (shown["phase"], shown["parent"]["generation"]) == ("Active", branch.parent.generation)
    await agent.put_private(place.namespace, branch.branch_id, "goes/on", 1)
    with pytest.raises(NotFoundError):
        await agent.rebase_conflicts(place.namespace, branch.branch_id, to=10_000)

    rebase(place, branch, branch.parent.generation)
    shown = await shows(place, branch, observedGeneration=3)
    assert [condition["type"] for condition in shown["conditions"]] == ["Ready"]


async def test_what_a_run_follows_is_a_layer_of_its_own(place, agent, branch):
    writer = await place.branch(agent)
    change = fresh()
    await place.submit(agent, writer, change)
    await place.publication(agent, writer)
    page = await agent.events(place.namespace, BASELINE, after=branch.shared_feed_cursor)
    for layer in ("base", "shared", "merged"):
        with pytest.raises(NotFoundError):
            await agent.view(place.namespace, branch.branch_id, change.key, layer=layer)
    await agent.save_cursor(place.namespace, branch.branch_id, page.cursor)
    for layer in ("shared", "merged"):
        seen = await agent.view(place.namespace, branch.branch_id, change.key, layer=layer)
        assert (seen.layer, seen.content) == ("shared", change.content)
    assert await agent.base_revision(place.namespace, branch.branch_id, change.key) == seen.revision
    with pytest.raises(NotFoundError):
        await agent.view(place.namespace, branch.branch_id, change.key, layer="base")


def rebase(place, branch, generation):
    patch = {"spec": {"rebase": {"toGeneration": generation}}}
    place.kubectl("patch", "branch", branch.name, "--type=merge", f"--patch={json.dumps(patch)}")
