"""Branches: whose grant a fork takes, what a fork pins, and what only its own agent may do."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.store.world import AGENTS, AUTOMATIC, World

from anabranch.branches import completion, private
from anabranch.branches.reconcile import forget
from anabranch.identity import grants
from anabranch.model.canonical import content_hash
from anabranch.model.errors import ConflictError, DigestMismatchError, PreconditionFailedError
from anabranch.model.objects import RunCompletion
from anabranch.store import branches


@pytest.fixture
async def world(db):
    return World(db)


async def started(world):
    return (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line


# ------------------------------------------------------------------------------------------------------------ forks


async def test_a_fork_pins_what_is_current_and_keeps_it(world):
    line = await started(world)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()

    again = await world.apply_branch("run", generation=2, task="something else")

    assert (again.branch_id, again.parent_generation, again.task) == (branch.branch_id, 1, "something else")
    later = await world.apply_branch("later")
    assert (later.parent_generation, later.line) == (2, line)


async def test_a_named_generation_is_forked(world):
    await started(world)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()

    old = await world.apply_branch("old", baselineRef={"namespace": "platform", "name": "facts", "generation": 1})
    unknown = await world.apply_branch("new", baselineRef={"namespace": "platform", "name": "facts", "generation": 9})

    assert old.parent_generation == 1
    assert unknown is None
    assert await world.waits("Branch", "new") == "GenerationUnavailable"


async def test_absent_unimported_and_denied_look_alike(world):
    assert await world.apply_branch("run") is None
    async with world.db.connection() as conn:
        absent = await conn.fetchrow("SELECT condition, reason, message FROM waiting WHERE name = 'run'")

    await world.apply_baseline()
    assert await world.apply_branch("run") is None
    async with world.db.connection() as conn:
        unimported = await conn.fetchrow("SELECT condition, reason, message FROM waiting WHERE name = 'run'")

    await started(world)
    world.permissions.deny(grants.FORK, account="run")
    assert await world.apply_branch("run") is None
    async with world.db.connection() as conn:
        denied = await conn.fetchrow("SELECT condition, reason, message FROM waiting WHERE name = 'run'")

    assert absent == unimported == denied
    assert absent["reason"] == "BaselineUnavailable"


async def test_it_is_the_agents_own_grant_that_counts(world):
    await started(world)
    world.permissions.deny(grants.FORK, account="other")

    assert await world.apply_branch("run", account="agent") is not None
    assert await world.apply_branch("run-2", account="other") is None


async def test_a_branch_waits_longer_each_time_and_is_woken_by_the_first_import(world):
    async def wait():
        async with world.db.connection() as conn:
            return await conn.fetchval(
                "SELECT extract(epoch FROM due_at - clock_timestamp()) FROM waiting WHERE name = 'run'"
            )

    await world.apply_branch("run")
    first = await wait()
    for _ in range(6):
        await world.apply_branch("run")
    assert first <= 1
    assert 10 < await wait() <= 30

    await started(world)

    assert await wait() <= 0
    assert await world.apply_branch("run") is not None
    assert await world.waits("Branch", "run") is None


async def test_a_resource_made_again_under_the_same_name_is_another_run(world):
    await started(world)
    first = await world.apply_branch("run")
    await forget(world.db, namespace=AGENTS, name="run", uid="another's")
    assert await world.apply_branch("run") == first
    await forget(world.db, namespace=AGENTS, name="run", uid=first.uid)
    async with world.db.connection() as conn:
        assert await branches.by_name(conn, namespace=AGENTS, name="run") is None
        assert (await branches.get(conn, first.branch_id)).deleted_at is not None


async def test_two_operators_fork_one_branch(world):
    await started(world)

    one, other = await asyncio.gather(world.apply_branch("run"), world.apply_branch("run"))

    assert one.branch_id == other.branch_id


# -------------------------------------------------------------------------------------------------------- agent ids


def named(agent_id, account):
    return {"agent": {"id": agent_id, "serviceAccountName": account}}


async def test_another_id_than_ones_own_name_needs_a_grant(world):
    await started(world)
    world.permissions.deny(grants.USE_AGENT_ID, name="scout")

    assert await world.apply_branch("run", **named("scout", "agent")) is None
    assert await world.waits("Branch", "run") == "AgentIdNotGranted"
    assert (await world.apply_branch("own", **named("agent", "agent"))).agent_id == "agent"

    world.permissions.give_back()
    assert (await world.apply_branch("run", **named("scout", "agent"))).agent_id == "scout"


async def test_an_agent_id_has_one_owner_for_good(world):
    await started(world)
    first = await world.apply_branch("run", **named("scout", "agent"))
    assert (await world.apply_branch("again", **named("scout", "agent"))).agent_id == "scout"

    assert await world.apply_branch("taken", **named("scout", "other")) is None
    assert await world.waits("Branch", "taken") == "AgentIdTaken"

    await forget(world.db, namespace=AGENTS, name="run", uid=first.uid)
    assert await world.apply_branch("taken", **named("scout", "other")) is None


async def test_of_two_that_want_an_id_at_once_one_gets_it(world):
    await started(world)

    forked = await asyncio.gather(
        world.apply_branch("one", **named("scout", "agent")), world.apply_branch("two", **named("scout", "other"))
    )

    assert sum(branch is not None for branch in forked) == 1


# -------------------------------------------------------------------------------------------------- private overlay


async def test_a_private_write_fixes_its_visibility_by_the_policy_of_the_moment(world):
    await started(world)
    branch = await world.apply_branch("run", sharingPolicy={"default": "shareable"})
    write = {"scope": "shared", "expected": None, "readable": ["shared"]}

    shared = await private.put(world.db, branch=branch, key="k", content=1, visibility=None, **write)
    own = await private.put(world.db, branch=branch, key="l", content=1, visibility="private", **write)
    narrowed = await world.apply_branch("run", generation=2, sharingPolicy={"default": "private"})
    later = await private.put(world.db, branch=narrowed, key="m", content=1, visibility=None, **write)

    assert (shared.visibility, own.visibility, later.visibility) == ("shareable", "private", "private")


async def test_a_private_write_notes_the_revision_it_was_made_from(world):
    await started(world)
    branch = await world.apply_branch("run")
    write = {"branch": branch, "content": 1, "scope": "shared", "visibility": None, "expected": None}

    known = await private.put(world.db, key="a", readable=["shared"], **write)
    new = await private.put(world.db, key="k", readable=["shared"], **write)
    assert (known.base_revision, new.base_revision) == (1, 0)

    blind = await world.apply_branch("blind")
    hidden = await private.put(world.db, key="a", readable=[], **(write | {"branch": blind}))
    assert hidden.base_revision == 0


async def test_a_content_is_put_into_its_form_beside_the_event_loop(world, monkeypatch):
    await started(world)
    branch = await world.apply_branch("run")
    seen = []
    made = private.canonical_bytes
    monkeypatch.setattr(private, "canonical_bytes", lambda value: seen.append(threading.get_ident()) or made(value))
    write = {"scope": "shared", "visibility": None, "expected": None, "readable": []}
    await private.put(world.db, branch=branch, key="k", content=[[]] * 100, **write)
    assert len(seen) == 1
    assert threading.get_ident() not in seen


async def test_writes_are_conditional(world):
    await started(world)
    branch = await world.apply_branch("run")
    write = {"branch": branch, "key": "k", "scope": "shared", "visibility": None, "readable": []}
    await private.put(world.db, content=1, expected=0, **write)

    with pytest.raises(PreconditionFailedError):
        await private.put(world.db, content=2, expected=0, **write)

    assert (await private.put(world.db, content=2, expected=1, **write)).revision == 2
    assert await private.delete(world.db, branch=branch, key="k", expected=2) == 3


# ------------------------------------------------------------------------------------------------------- completion


def completed(branch, **changed):
    raw = {
        "run_id": branch.run_id,
        "branch_id": branch.branch_id,
        "agent_id": branch.agent_id,
        "baseline_id": branch.parent_baseline_id,
        "last_submitted_sequence": 1,
        "delta_hash": content_hash([]),
    } | changed
    return {"branch": branch, "completion": RunCompletion.model_validate(raw), "raw": raw}


async def test_a_completion_closes_the_run_once_its_batches_are_in(world):
    await started(world)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "k", "content": 1})

    row = await completion.submit(world.db, **completed(branch))
    again = await completion.submit(world.db, **completed(branch))

    assert row.closed_at is not None
    assert again.closed_at == row.closed_at
    with pytest.raises(ConflictError):
        await completion.submit(world.db, **completed(branch, last_submitted_sequence=2))
    closed = await world.apply_branch("run")
    assert closed.phase == "Completed"
    with pytest.raises(ConflictError):
        await private.put(
            world.db, branch=closed, key="k", content=1, scope="shared", visibility=None, expected=None, readable=[]
        )


@pytest.mark.parametrize("member", ["run_id", "branch_id", "agent_id", "baseline_id"])
async def test_a_completion_of_another_run_is_refused(world, member):
    await started(world)
    branch = await world.apply_branch("run")

    with pytest.raises(ConflictError, match=member):
        await completion.submit(world.db, **completed(branch, **{member: "another"}))


async def test_a_completion_must_carry_the_hash_of_its_delta(world):
    await started(world)
    branch = await world.apply_branch("run")
    delta = [{"key": "k", "content": 1}]

    with pytest.raises(DigestMismatchError):
        await completion.submit(world.db, **completed(branch, shareable_changes=delta))
    await completion.submit(world.db, **completed(branch, shareable_changes=delta, delta_hash=content_hash(delta)))
