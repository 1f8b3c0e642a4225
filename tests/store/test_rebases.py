"""Rebases: another parent because the Branch says so, what of the overlay it contradicts, and what moves along."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building
from tests.store.branching import blocked
from tests.store.world import AUTOMATIC, World

from anabranch.branches import following, layers, private, rebasing
from anabranch.domain.cursor import Sealer
from anabranch.identity import grants
from anabranch.model.answers import ViewedRecord
from anabranch.model.errors import ConflictError, GoneError, NotFoundError
from anabranch.store import branches, projection, pruning, rebases
from anabranch.store import private as private_rows

SEALER = Sealer([b"k" * 32])
SCOPES = ["shared"]


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first", "b": "first", "c": "first"}, **AUTOMATIC)
    return found


@pytest.fixture
async def run(world):
    """A run on generation 1, with three notes, while generation 2 changes two of their keys and brings one."""
    branch = await world.apply_branch("run")
    await note(world, branch, "a", "mine")
    await note(world, branch, "b", "second")
    await note(world, branch, "new", "mine")
    await building.publish_versions(
        world.db,
        branch.line,
        building.version("a", "second"),
        building.version("b", "second"),
        building.version("d", "new here"),
    )
    return branch


async def note(world, branch, key, content, **options):
    return await private.put(
        world.db, branch=branch, key=key, content=content, scope="shared", visibility=None, expected=None,
        readable=SCOPES, **options,
    )  # fmt: skip


async def rebased(world, generation, *, to, name="run"):
    return await world.apply_branch(name, generation=generation, rebase={"toGeneration": to})


async def conflicts(world, branch, to=None, scopes=SCOPES, after="", limit=100):
    page = await rebasing.conflicts(world.db, branch, to=to, scopes=scopes, after=after, limit=limit)
    return {item.key: (item.base_revision, item.target and item.target.revision) for item in page.items}


async def overlay(world, branch):
    async with world.db.connection() as conn:
        rows, _ = await private_rows.page(conn, line=branch.line, branch_id=branch.branch_id, limit=100)
    return {row.key: (row.body, row.base_revision, row.revision) for row in rows}


async def seen(world, branch, key, layer="merged"):
    found = ViewedRecord.model_validate_json(await layers.view(world.db, branch, key, layer=layer, scopes=SCOPES))
    return found.layer, found.content


async def status(world, branch):
    async with world.db.connection() as conn:
        (state,) = await projection.branch_status(conn, branch_ids=[branch.branch_id])
    return state


async def test_conflicts_are_listed_before_and_after_and_the_parent_moves_by_the_spec_alone(world, run):
    assert await conflicts(world, run) == {}
    assert await conflicts(world, run, to="2") == {"a": ("1", "2")}
    assert (await world.apply_branch("run")).parent_generation == 1

    after = await rebased(world, 2, to=2)
    assert (after.parent_generation, after.branch_id, after.forked_generation) == (2, run.branch_id, 1)
    assert await conflicts(world, after) == {"a": ("1", "2")}
    assert await seen(world, after, "d") == ("base", "new here")
    assert (await world.apply_branch("run", generation=3)).parent_generation == 2, "taken away, it stays"


async def test_the_overlay_is_kept_and_what_says_the_same_is_based_on_the_new_parent(world, run):
    before = await overlay(world, run)
    after = await overlay(world, await rebased(world, 2, to=2))
    assert {key: (body, revision) for key, (body, _, revision) in after.items()} == {
        key: (body, revision) for key, (body, _, revision) in before.items()
    }
    bases = {key: (before[key][1], after[key][1]) for key in before}
    assert bases == {"a": (1, 1), "b": (1, 2), "new": (0, 0)}


async def test_a_conflict_stays_one_until_its_agent_has_settled_it(world, run):
    after = await rebased(world, 2, to=2)
    await note(world, after, "a", "mine again")
    assert set(await conflicts(world, after)) == {"a"}, "it does not say that it has seen the new parent"
    with pytest.raises(ConflictError) as caught:
        await note(world, after, "a", "mine", based_on="1")
    assert caught.value.extra["base_revision"] == "2"
    settled = await note(world, after, "a", "both", based_on="2")
    assert settled.base_revision == 2
    assert await conflicts(world, after) == {}


async def test_a_finding_made_of_an_unsettled_record_is_a_conflict_and_of_a_settled_one_is_not(world, run):
    after = await rebased(world, 2, to=2)
    (own,) = [row for key, row in (await overlay(world, after)).items() if key == "a"]
    await world.submit(after, 1, {"key": "a", "content": "mine", "base": own[1]})
    await world.work()
    settled = await note(world, after, "a", "both", based_on="2")
    await world.submit(after, 2, {"key": "b", "content": "third", "base": settled.base_revision})
    await world.work()
    outcomes = await world.outcomes()
    assert (outcomes["a"][0][0], outcomes["b"]) == ("waiting", [("published", "")])


async def test_a_run_is_rebased_once_and_the_same_again_writes_nothing(world, run):
    after = await rebased(world, 2, to=2)
    again = await rebased(world, 2, to=2)
    assert again == after
    async with world.db.connection() as conn:
        lineage = await rebases.lineage(conn, line=run.line, branch_id=run.branch_id)
    assert [(row.from_generation, row.to_generation, row.conflicts) for row in lineage] == [(1, 2, 1)]


async def test_the_lineage_is_told_newest_first_and_the_last_five_of_it(world, run):
    for generation, target in enumerate([2, 1, 2, 1, 2, 1, 2], 2):
        await rebased(world, generation, to=target)
    state = await status(world, run)
    assert [row.from_generation for row in state.lineage] == [1, 2, 1, 2, 1]
    assert [row.ordinal for row in state.lineage] == [7, 6, 5, 4, 3]
    page = await rebasing.conflicts(world.db, state.branch, to=None, scopes=SCOPES, after="", limit=1)
    assert [earlier.manifest.generation for earlier in page.lineage] == [1, 2, 1, 2, 1]


async def test_an_older_spec_does_not_take_a_run_back(world, run):
    await rebased(world, 3, to=2)
    assert (await rebased(world, 2, to=1)).parent_generation == 2


async def test_a_run_waits_for_a_generation_that_is_not_there_yet_and_keeps_its_parent(world, run):
    stays = await rebased(world, 2, to=3)
    assert (stays.parent_generation, await world.waits("Branch", "run")) == (1, rebasing.TARGET_UNKNOWN)
    state = await status(world, run)
    assert (state.obstacle.condition, state.obstacle.reason) == ("Stalled", rebasing.TARGET_UNKNOWN)
    assert state.branch.phase == "Active"

    await building.publish_versions(world.db, run.line, building.version("c", "third"))
    assert (await rebased(world, 2, to=3)).parent_generation == 3
    assert await world.waits("Branch", "run") is None
    assert (await status(world, run)).obstacle is None


async def test_a_generation_that_was_pruned_is_no_parent(world, run):
    for text in ("third", "fourth"):
        await building.publish_versions(world.db, run.line, building.version("c", text))
    assert await prune(world, run, 2) == [2]
    stays = await rebased(world, 2, to=2)
    assert (stays.parent_generation, await world.waits("Branch", "run")) == (1, rebasing.TARGET_PRUNED)
    with pytest.raises(GoneError):
        await conflicts(world, run, to="2")
    with pytest.raises(NotFoundError):
        await conflicts(world, run, to="9")


async def test_a_run_that_is_over_is_not_rebased(world, run):
    async with world.db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = 'Completed'")
    stays = await rebased(world, 2, to=2)
    assert (stays.parent_generation, await world.waits("Branch", "run")) == (1, rebasing.RUN_OVER)


async def test_a_prune_and_a_rebase_to_the_same_generation_do_not_both_happen(world, run):
    for text in ("third", "fourth"):
        await building.publish_versions(world.db, run.line, building.version("c", text))
    # The rebase first: the prune leaves the generation.
    async with world.db.transaction() as conn:
        outcome = await rebases.rebase(
            conn, line=run.line, branch_id=run.branch_id, generation=2, observed_generation=2, scopes=SCOPES
        )
        assert outcome == "moved"
        assert await prune(world, run, 2) == [], "it does not wait for what somebody takes hold of"
    assert await prune(world, run, 2) == []
    # The prune first: generation 1 has no run any more.
    async with world.db.transaction() as conn:
        assert await pruning.drop(conn, line=run.line, generations=[1]) == [1]
        moving = asyncio.create_task(rebased(world, 3, to=1))
        await blocked(world.db, moving)
    assert (await moving).parent_generation == 2
    assert await world.waits("Branch", "run") == rebasing.TARGET_PRUNED


async def test_nothing_follows_from_records_that_the_agent_may_not_read(world):
    branch = await world.apply_branch("run")
    await note(world, branch, "secret", "guessed")
    await building.publish_versions(world.db, branch.line, building.version("secret", "guessed", scope="other"))
    world.permissions.deny(grants.SCOPE_READ, name="other")
    after = await rebased(world, 2, to=2)
    assert (await overlay(world, after))["secret"][1] == 0, "that it says the same is not told"
    assert await conflicts(world, after) == {}
    assert await conflicts(world, after, scopes=["shared", "other"]) == {}, "to whoever may read it, it is the same"


async def test_conflicts_come_in_pages_by_key(world, run):
    await note(world, run, "c", "mine")
    await building.publish_versions(world.db, run.line, building.version("c", "third"))
    assert list(await conflicts(world, run, to="head")) == ["a", "c"]
    assert list(await conflicts(world, run, to="head", limit=1)) == ["a"]
    assert list(await conflicts(world, run, to="head", after="a")) == ["c"]


async def test_a_deleted_record_contradicts_and_a_deleted_note_does_not(world, run):
    await note(world, run, "c", "mine")
    await building.publish_versions(world.db, run.line, building.version("c"))
    assert set(await conflicts(world, run, to="3")) == {"a", "c"}
    await private.delete(world.db, branch=run, key="a", expected=None)
    assert set(await conflicts(world, run, to="3")) == {"c"}
    after = await rebased(world, 2, to=3)
    assert (await note(world, after, "a", "anew")).base_revision == 2, "a note made anew is based on what is there"


async def test_a_note_that_has_expired_contradicts_nothing(world, run):
    async with world.db.connection() as conn:
        await conn.execute("UPDATE private_records SET expires_at = now() WHERE key = 'a'")
    assert await conflicts(world, run, to="2") == {}
    await rebased(world, 2, to=2)
    assert (await status(world, run)).lineage[0].conflicts == 0


async def test_after_a_rebase_a_run_follows_behind_what_its_parent_includes(world, run):
    assert (await following.place(world.db, SEALER, branch=run)).sequence == 0
    after = await rebased(world, 2, to=2)
    assert (await following.place(world.db, SEALER, branch=after)).sequence == 3


async def test_the_fork_of_a_rebased_run_is_still_the_fork_that_was_asked_for(world, run):
    after = await rebased(world, 2, to=2)
    async with world.db.connection() as conn:
        assert await branches.get(conn, run.branch_id) == after
    assert after.forked_generation == 1


async def prune(world, run, generation):
    async with world.db.transaction() as conn:
        return await pruning.drop(conn, line=run.line, generations=[generation])
