"""A search of what a branch sees goes on with what its run has taken over, by whole publications."""

from __future__ import annotations

import pytest
from tests.store import building
from tests.store.test_layers import follow, publish
from tests.store.world import AUTOMATIC, World

from anabranch.branches import following, private
from anabranch.search import asking

SCOPES = ["shared"]


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first tide", "b": "first tide"}, **AUTOMATIC)
    return found


async def found(world, run, text="tide"):
    generation = await following.seen(world.db, run)
    asked = asking.Search(line=run.line, ref=generation, scopes=SCOPES, text=text, branch=run)
    answer = await asking.search(world.db, asked, offset=0, limit=10)
    return {hit.key: (hit.layer, hit.revision) for hit in answer.hits}


async def test_what_was_taken_over_is_found_and_says_that_it_is(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second tide"), building.version("c", "new tide"))
    assert await found(world, run) == {"a": ("base", "1"), "b": ("base", "1")}
    await follow(world, run, 1)
    assert await found(world, run) == {"a": ("base", "1"), "b": ("base", "1")}, "by whole publications"
    await follow(world, run, 2)
    assert await found(world, run) == {"a": ("shared", "2"), "b": ("base", "1"), "c": ("shared", "2")}
    await private.put(
        world.db, branch=run, key="a", content="my tide", scope="shared", visibility=None, expected=None,
        readable=SCOPES,
    )  # fmt: skip
    assert (await found(world, run))["a"] == ("private", "1")


@pytest.mark.parametrize("follow_", ["Hold", "Off"])
async def test_a_run_that_does_not_apply_searches_its_parent(world, follow_):
    run = await world.apply_branch("run", follow=follow_)
    await publish(world, run, building.version("a", "second tide"))
    if follow_ == "Hold":
        await follow(world, run, 1)
    assert await found(world, run) == {"a": ("base", "1"), "b": ("base", "1")}


async def test_a_rollback_that_was_followed_takes_back_what_is_found(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("c", "new tide"))
    await building.move(world.db, run.line, to=1, kind="rollback", pinned=1)
    await follow(world, run, 1)
    assert "c" in await found(world, run)
    await follow(world, run, 2)
    assert await found(world, run) == {"a": ("base", "1"), "b": ("base", "1")}
