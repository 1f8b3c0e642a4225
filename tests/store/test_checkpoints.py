"""Checkpoints: kept for good, in an order, citable by their own branch alone."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.world import AUTOMATIC, World

from anabranch.branches import checkpoints
from anabranch.model.canonical import content_hash
from anabranch.model.errors import ConflictError, NotFoundError, TooLargeError
from anabranch.model.limits import CAPSULE_BYTES
from anabranch.model.runs import Capsule, CheckpointWrite


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first"}, **AUTOMATIC)
    return found


def write(goal="find the cause", **members):
    return CheckpointWrite(capsule=Capsule(goal=goal, open_tasks=("look at the log",)), **members)


async def keep(world, branch, name, *args, **members):
    return await checkpoints.keep(world.db, branch=branch, checkpoint_id=name, write=write(*args, **members))


async def listed(world, branch, **bounds):
    bounds = {"session_id": None, "before": None, "limit": 100, **bounds}
    return [found.checkpoint_id for found in await checkpoints.page(world.db, branch=branch, **bounds)]


async def test_a_checkpoint_is_kept_as_it_was_made_and_the_same_again_is_the_same(world):
    branch = await world.apply_branch("run")
    made, new = await keep(world, branch, "one", references=("record:a@1",))
    assert (new, made.ordinal, made.locator, made.agent_id) == (True, 1, "checkpoint:one", "run")
    hashed = {"session_id": "default", "capsule": made.capsule.model_dump(), "references": ["record:a@1"]}
    assert made.content_hash == content_hash(hashed)

    assert await keep(world, branch, "one", references=("record:a@1",)) == (made, False)
    with pytest.raises(ConflictError) as caught:
        await keep(world, branch, "one", "something else")
    assert caught.value.extra["kept"] == made.content_hash
    assert await checkpoints.find(world.db, branch=branch, checkpoint_id="one") == made


async def test_checkpoints_are_listed_newest_first_and_by_session(world):
    branch = await world.apply_branch("run")
    for name, session in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
        await keep(world, branch, name, session_id=session)
    assert await listed(world, branch) == ["d", "c", "b", "a"]
    assert await listed(world, branch, session_id="x", limit=1) == ["c"]
    assert await listed(world, branch, before=3, limit=1) == ["b"]


async def test_an_agent_that_goes_on_from_another_than_the_latest_is_told(world):
    branch = await world.apply_branch("run")
    await keep(world, branch, "one", expected_latest="")
    with pytest.raises(ConflictError) as caught:
        await keep(world, branch, "two", expected_latest="")
    assert caught.value.extra["latest"] == "one"
    await keep(world, branch, "two", expected_latest="one")
    await keep(world, branch, "other", session_id="other", expected_latest="")
    assert (await keep(world, branch, "two", expected_latest="one"))[1] is False, "its answer was lost: it is kept"


async def test_of_instances_that_go_on_from_the_same_one_wins(world):
    branch = await world.apply_branch("run")
    await keep(world, branch, "base")
    answers = await asyncio.gather(
        *(keep(world, branch, f"next-{n}", expected_latest="base") for n in range(6)), return_exceptions=True
    )
    assert sum(isinstance(answer, ConflictError) for answer in answers) == 5
    assert len(await listed(world, branch)) == 2


async def test_checkpoints_that_come_together_each_have_a_place(world):
    branch = await world.apply_branch("run")
    made = await asyncio.gather(*(keep(world, branch, f"c-{n}") for n in range(8)))
    assert sorted(found.ordinal for found, _ in made) == list(range(1, 9))


async def test_a_capsule_has_a_limit_and_so_has_their_number(world, monkeypatch):
    branch = await world.apply_branch("run")
    with pytest.raises(TooLargeError) as caught:
        await keep(world, branch, "big", "x" * CAPSULE_BYTES)
    assert caught.value.extra["limit"] == CAPSULE_BYTES
    from anabranch.store import checkpoints as store

    monkeypatch.setattr(store, "CHECKPOINTS_BRANCH", 1)
    await keep(world, branch, "one")
    with pytest.raises(TooLargeError):
        await keep(world, branch, "two")
    assert (await keep(world, branch, "one"))[1] is False


async def test_a_run_that_is_over_keeps_no_more_and_what_it_kept_is_there(world):
    branch = await world.apply_branch("run")
    await keep(world, branch, "one")
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = 'Completed' WHERE name = 'run'")
    with pytest.raises(ConflictError, match="Completed"):
        await keep(world, branch, "two")
    assert await listed(world, branch) == ["one"]


async def test_a_checkpoint_answers_its_own_branch_alone(world):
    mine, other = await world.apply_branch("mine"), await world.apply_branch("other")
    await keep(world, mine, "one")
    with pytest.raises(NotFoundError):
        await checkpoints.find(world.db, branch=other, checkpoint_id="one")
    assert await listed(world, other) == []
    assert (await keep(world, other, "one", "its own"))[1] is True


async def test_a_finding_may_cite_a_checkpoint_of_its_own_branch_and_of_no_other(world):
    mine, other = await world.apply_branch("mine"), await world.apply_branch("other")
    await keep(world, mine, "one")
    cited = {"content": 1, "sources": ["checkpoint:one"]}
    await world.submit(mine, 1, {"key": "mine", **cited})
    await world.submit(other, 1, {"key": "others", **cited})
    await world.work()
    assert await world.outcomes() == {"mine": [("published", "")], "others": [("rejected", "Unsupported")]}
