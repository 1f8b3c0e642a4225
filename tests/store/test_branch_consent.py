"""A grant to fork that is taken back ends what a branch may submit, and one that is given again lets it go on."""

from __future__ import annotations

import pytest
from tests.store.world import AGENTS, AUTOMATIC, World

from anabranch.identity import grants
from anabranch.model.errors import ForbiddenError, UnavailableError
from anabranch.store import branches, completions, waiting


@pytest.fixture
async def world(db):
    world = World(db)
    world.line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    return world


async def phase(world, branch):
    async with world.db.connection() as conn:
        return (await branches.get(conn, branch.branch_id)).phase


async def test_a_revocation_is_noticed_when_findings_are_published(world):
    branch = await world.apply_branch("run")
    other = await world.apply_branch("other")
    await world.submit(branch, 1, {"key": "k", "content": 1})
    world.permissions.deny(grants.FORK, account="run")
    await world.work()

    assert await phase(world, branch) == "Denied"
    assert await phase(world, other) == "Active"
    assert await world.waits("Branch", "run") == "GrantRevoked"
    assert "k" in await world.contents(world.line)  # the agent may still write there
    with pytest.raises(ForbiddenError, match="revoked"):
        await world.submit(branch, 2, {"key": "l", "content": 1})


async def test_it_is_looked_at_again_and_goes_on_when_the_grant_is_back(world):
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, {"key": "k", "content": 1})
    world.permissions.deny(grants.FORK, account="run")
    await world.work()
    async with world.db.connection() as conn:
        due = await waiting.due(conn, limit=10)
    assert [(row.name, row.condition) for row in due] == [("run", "Stalled")]

    await world.apply_branch("run")  # as the visit does
    assert await phase(world, branch) == "Denied"
    async with world.db.connection() as conn:
        (again,) = [await waiting.get(conn, namespace=AGENTS, kind="Branch", name="run")]
        assert await waiting.due(conn, limit=10) == []
    assert again.due_at is not None

    world.permissions.give_back()
    await world.apply_branch("run")
    assert (await phase(world, branch), await world.waits("Branch", "run")) == ("Active", None)
    await world.submit(branch, 2, {"key": "l", "content": 1})
    await world.work()
    assert "l" in await world.contents(world.line)


async def test_a_reconcile_notices_it_too_and_takes_the_spec_over_all_the_same(world):
    branch = await world.apply_branch("run")
    world.permissions.deny(grants.FORK, account="run")

    after = await world.apply_branch("run", generation=2, task="another")

    assert (after.phase, after.task, after.branch_id) == ("Denied", "another", branch.branch_id)
    assert await world.waits("Branch", "run") == "GrantRevoked"


async def test_a_run_that_is_completed_stays_so(world):
    branch = await world.apply_branch("run")
    async with world.db.connection() as conn:
        await completions.submit(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            run_id=branch.run_id,
            content_hash=b"\x01" * 32,
            body=b"{}",
            last_submitted_sequence=0,
        )
    world.permissions.deny(grants.FORK, account="run")

    after = await world.apply_branch("run", generation=2)

    assert (after.phase, await world.waits("Branch", "run")) == ("Completed", None)


async def test_an_api_server_that_does_not_answer_denies_nobody(world):
    branch = await world.apply_branch("run")

    async def away(*_args, **_kwargs):
        raise UnavailableError("The API server does not answer.")

    world.permissions.allowed = away
    with pytest.raises(UnavailableError):
        await world.apply_branch("run", generation=2)

    assert await phase(world, branch) == "Active"
