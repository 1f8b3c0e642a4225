"""Presence: leases of agents, what runs out, what comes back, and what peers are told."""

from __future__ import annotations

import pytest
from tests.store.world import AUTOMATIC, World

from anabranch.branches import completion, presence
from anabranch.branches.reconcile import forget
from anabranch.domain.cursor import Sealer
from anabranch.identity import grants
from anabranch.model.canonical import content_hash
from anabranch.model.errors import ConflictError
from anabranch.model.objects import RunCompletion
from anabranch.model.runs import PresenceWrite
from anabranch.store import branches

SEALER = Sealer([b"k" * 32])


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first"}, **AUTOMATIC)
    return found


async def renew(world, branch, **write):
    return await presence.renew(world.db, SEALER, branch=branch, write=PresenceWrite(**write))


async def run_out(world, *, seconds=1):
    """Let every lease have run out so long ago, and every row be due."""
    async with world.db.connection() as conn:
        await conn.execute(
            "UPDATE presence SET lease_deadline = now() - $1 * interval '1 s', due_at = now() WHERE due_at IS NOT NULL",
            seconds,
        )


async def phase(world, branch):
    async with world.db.connection() as conn:
        return (await branches.get(conn, branch.branch_id)).phase


async def version(world, branch):
    async with world.db.connection() as conn:
        return (await branches.get(conn, branch.branch_id)).version


async def peers(world, line, *states):
    found = await presence.peers(world.db, SEALER, line=line, states=states or None, after="", limit=100)
    return {peer.agent_id: peer for peer in found}


async def complete(world, branch):
    done = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent_baseline_id,
        last_submitted_sequence=0,
        delta_hash=content_hash([]),
    )
    raw = done.model_dump(mode="json")
    await completion.submit(world.db, branch=branch, completion=done, raw=raw)


async def test_a_lease_lasts_as_long_as_the_branch_says(world):
    branch = await world.apply_branch("run", lease={"duration": "90s"})
    async with world.db.connection() as conn:
        before = await conn.fetchval("SELECT now()")
    told = await renew(world, branch)
    assert told.state == "active"
    assert 89 < (told.lease_deadline - before).total_seconds() < 95


async def test_a_lease_that_ran_out_makes_the_run_stale_and_one_that_comes_back_active_again(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    assert await phase(world, branch) == "Active"

    await run_out(world)
    await presence.settle(world.db)
    assert await phase(world, branch) == "Stale"
    assert (await peers(world, branch.line))["run"].state == "stale"

    assert (await renew(world, branch)).state == "active", "told from the lease, before the operator has looked"
    await presence.settle(world.db)
    assert await phase(world, branch) == "Active"


async def test_renewals_write_nothing_to_the_branch_and_move_nothing_that_is_indexed(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    before = await version(world, branch)
    async with world.db.connection() as conn:
        due = await conn.fetchval("SELECT due_at FROM presence")
        first = await conn.fetchval("SELECT lease_deadline FROM presence")
    for _ in range(3):
        await renew(world, branch)
    async with world.db.connection() as conn:
        assert await conn.fetchval("SELECT due_at FROM presence") == due
        assert await conn.fetchval("SELECT lease_deadline FROM presence") > first
    await presence.settle(world.db)
    assert await version(world, branch) == before

    async with world.db.connection() as conn:
        await conn.execute("UPDATE presence SET due_at = now()")
    await presence.settle(world.db)
    assert (await version(world, branch), await phase(world, branch)) == (before, "Active")
    async with world.db.connection() as conn:
        assert await conn.fetchval("SELECT due_at = lease_deadline FROM presence"), "it looks again when that runs out"


async def test_an_agent_that_says_goodbye_is_stale_at_once_and_not_completed(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    assert (await renew(world, branch, state="stale")).state == "stale"
    await presence.settle(world.db)
    assert await phase(world, branch) == "Stale"


async def test_a_renewal_that_races_with_the_operator_is_not_lost(world):
    """The operator has found the lease run out and has not committed it yet when the agent is heard of."""
    import asyncio

    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    await run_out(world)
    async with world.db.transaction() as conn:
        from anabranch.store import presence as store

        await store.settle(conn, line=branch.line, branch_ids=[branch.branch_id])
        renewal = asyncio.create_task(renew(world, branch))
        await asyncio.sleep(0.2)
        assert not renewal.done(), "it waits for the row"
    await renewal
    assert await phase(world, branch) == "Stale"
    await presence.settle(world.db)
    assert await phase(world, branch) == "Active"


async def test_an_agent_that_was_never_heard_of_is_unknown(world):
    branch = await world.apply_branch("run")
    peer = (await peers(world, branch.line))["run"]
    assert (peer.state, peer.lease_deadline, await phase(world, branch)) == ("unknown", None, "Active")


async def test_only_a_completion_completes_a_run(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await complete(world, branch)
    await run_out(world)
    await presence.settle(world.db)
    assert await phase(world, branch) == "Completed"
    assert (await peers(world, branch.line))["run"].state == "completed"
    with pytest.raises(ConflictError, match="Completed"):
        await renew(world, branch)


async def test_a_grant_that_comes_back_after_the_lease_ran_out_leaves_the_run_stale(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    world.permissions.deny(grants.FORK)
    await world.apply_branch("run")
    await run_out(world)
    await presence.settle(world.db)
    assert await phase(world, branch) == "Denied"
    with pytest.raises(ConflictError):
        await renew(world, branch)
    assert "run" not in await peers(world, branch.line)

    world.permissions.give_back()
    await world.apply_branch("run")
    await presence.settle(world.db)
    assert await phase(world, branch) == "Stale"


async def test_a_run_that_was_stale_when_its_grant_went_is_stale_again_when_it_is_back(world):
    branch = await world.apply_branch("run")
    await renew(world, branch)
    await presence.settle(world.db)
    await run_out(world)
    await presence.settle(world.db)
    world.permissions.deny(grants.FORK)
    await world.apply_branch("run")
    world.permissions.give_back()
    await world.apply_branch("run")
    await presence.settle(world.db)
    assert await phase(world, branch) == "Stale"


async def test_peers_are_told_what_each_runs_policy_permits(world):
    quiet = await world.apply_branch("quiet", task="something private")
    open_ = await world.apply_branch("open", task="the build", sharingPolicy={"peerVisibility": "task"})
    for branch in (quiet, open_):
        await renew(world, branch)
    await renew(world, quiet, task="looking at secrets")
    found = await peers(world, quiet.line)
    assert (found["quiet"].task, found["open"].task) == (None, "the build")
    await renew(world, open_, task="the cache of the build")
    assert (await peers(world, quiet.line))["open"].task == "the cache of the build"


async def test_peers_are_told_how_far_a_run_is_and_what_of_it_was_published(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()
    await world.submit(branch, 2, {"key": "l", "content": 1})
    peer = (await peers(world, branch.line))["run"]
    assert peer.last_published_sequence == 1


async def test_peers_are_listed_by_state_and_without_those_whose_resource_is_gone(world):
    here, away, gone = [await world.apply_branch(name) for name in ("here", "away", "gone")]
    for branch in (here, away, gone):
        await renew(world, branch)
    await renew(world, away, state="stale")
    await forget(world.db, namespace="agents", name="gone", uid="uid-of-gone")
    assert set(await peers(world, here.line)) == {"here", "away"}
    assert set(await peers(world, here.line, "active")) == {"here"}
    assert set(await peers(world, here.line, "stale", "unknown")) == {"away"}
