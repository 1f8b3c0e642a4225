"""What a run sees: its parent, what it has followed up to the place that it saved, and its own notes over both."""

from __future__ import annotations

import pytest
from tests.store import building
from tests.store.world import AUTOMATIC, World

from anabranch.branches import following, layers, private
from anabranch.domain.cursor import Sealer
from anabranch.feed.cursor import Position, seal
from anabranch.feed.expiry import CursorExpiredError
from anabranch.kv import records as kv_records
from anabranch.model.answers import ViewedRecord
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import private as private_rows
from anabranch.store import pruning, restoring

SEALER = Sealer([b"k" * 32])
SCOPES = ["shared"]


@pytest.fixture
async def world(db):
    found = World(db)
    await found.import_documents({"a": "first", "b": "first"}, **AUTOMATIC)
    return found


async def publish(world, run, *versions):
    await building.publish_versions(world.db, run.line, *versions)


async def follow(world, run, sequence):
    await following.save(world.db, SEALER, branch=run, cursor=seal(SEALER, run.line, Position(1, sequence)))


async def seen(world, run, key="a", layer="merged", scopes=SCOPES):
    found = ViewedRecord.model_validate_json(await layers.view(world.db, run, key, layer=layer, scopes=scopes))
    return found.layer, None if found.tombstone else found.content


async def test_what_was_published_shows_once_it_is_followed_and_the_base_stays(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second"))
    with pytest.raises(NotFoundError):
        await seen(world, run, layer="shared")
    assert await seen(world, run) == ("base", "first")

    await follow(world, run, 1)
    assert await seen(world, run, layer="shared") == ("shared", "second")
    assert await seen(world, run) == ("shared", "second")
    assert await seen(world, run, layer="base") == ("base", "first")
    await publish(world, run, building.version("a", "third"))
    assert await seen(world, run) == ("shared", "second"), "not followed yet"


async def test_a_key_that_is_not_changed_is_not_in_the_shared_layer(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second"))
    await follow(world, run, 1)
    with pytest.raises(NotFoundError):
        await seen(world, run, "b", layer="shared")
    assert await seen(world, run, "b") == ("base", "first")


async def test_a_publication_that_is_half_followed_shows_by_half(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second"), building.version("b", "second"))
    await follow(world, run, 1)
    assert await seen(world, run, "a") == ("shared", "second")
    assert await seen(world, run, "b") == ("base", "first")
    await follow(world, run, 2)
    assert await seen(world, run, "b") == ("shared", "second")


async def test_the_agents_own_notes_lie_over_what_it_follows(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second"))
    await follow(world, run, 1)
    own = await private.put(
        world.db, branch=run, key="a", content="mine", scope="shared", visibility=None, expected=None, readable=SCOPES
    )
    assert own.base_revision == 2, "it was written on what the agent saw beneath"
    assert await seen(world, run) == ("private", "mine")
    assert await seen(world, run, layer="shared") == ("shared", "second")


async def test_an_agent_that_holds_can_look_and_its_view_stays(world):
    run = await world.apply_branch("run", follow="Hold")
    await publish(world, run, building.version("a", "second"))
    await follow(world, run, 1)
    assert await seen(world, run, layer="shared") == ("shared", "second")
    assert await seen(world, run) == ("base", "first")
    own = await private.put(
        world.db, branch=run, key="a", content="mine", scope="shared", visibility=None, expected=None, readable=SCOPES
    )
    assert own.base_revision == 1


async def test_a_deletion_is_followed_as_one(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a"))
    await follow(world, run, 1)
    assert await seen(world, run, layer="shared") == ("shared", None)
    assert await seen(world, run) == ("shared", None)


async def test_what_a_rollback_took_away_is_gone_from_the_view_and_not_from_the_base(world):
    first = await world.apply_branch("first")
    await publish(world, first, building.version("new", "second"))
    run = await world.apply_branch("run")
    await building.move(world.db, run.line, to=1, kind="rollback", pinned=1)
    assert await seen(world, run, "new") == ("base", "second")
    await follow(world, run, 2)
    assert await seen(world, run, "new") == ("shared", None)
    found = ViewedRecord.model_validate_json(await layers.view(world.db, run, "new", layer="shared", scopes=SCOPES))
    assert (found.revision, found.base_revision) == ("0", "0"), "who writes it anew begins with nothing"
    assert await seen(world, run, "new", layer="base") == ("base", "second")


async def test_what_a_restore_brought_back_shows(world):
    first = await world.apply_branch("first")
    await publish(world, first, building.version("a", "second"))
    run = await world.apply_branch("run")
    await restoring.restore(world.db, line=run.line, generation=1, restore_id="back")
    await follow(world, run, 2)
    assert await seen(world, run) == ("shared", "first")


async def test_scopes_decide_in_every_layer(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "moved away", scope="other"), building.version("b", "second"))
    await follow(world, run, 2)
    assert await seen(world, run, "a") == ("shared", None), "to this agent it is gone"
    assert await seen(world, run, "a", scopes=["shared", "other"]) == ("shared", "moved away")
    with pytest.raises(NotFoundError):
        await seen(world, run, "b", scopes=[])


async def test_a_place_whose_generation_was_pruned_has_to_be_left(world):
    run = await world.apply_branch("run")
    for text in ("second", "third", "fourth"):
        await publish(world, run, building.version("a", text))
    await follow(world, run, 1)
    async with world.db.transaction() as conn:
        assert await pruning.drop(conn, line=run.line, generations=[2]) == [2]
    with pytest.raises(GoneError):
        await seen(world, run)
    own = await private.put(
        world.db, branch=run, key="a", content="mine", scope="shared", visibility=None, expected=None, readable=SCOPES
    )
    assert own.base_revision == 1, "the older of what it may have seen: that can only find conflicts"
    await private.delete(world.db, branch=run, key="a", expected=None)
    await follow(world, run, 3)
    assert await seen(world, run) == ("shared", "fourth")


async def test_after_a_restore_from_backup_a_place_of_before_shows_nothing(world):
    run = await world.apply_branch("run")
    await publish(world, run, building.version("a", "second"))
    await follow(world, run, 1)
    async with world.db.connection() as conn:
        await conn.execute("UPDATE line_heads SET epoch = 2")
    with pytest.raises(CursorExpiredError):
        await seen(world, run)
    assert await seen(world, run, layer="base") == ("base", "first")


async def test_a_key_value_record_is_based_on_what_the_agent_saw_when_it_wrote_it(world):
    run = await world.apply_branch("run")

    async def put():
        await kv_records.put(
            world.db, run, namespace="notes", key="tide", raw=b"1", ttl_seconds=None, expected=None, readable=SCOPES
        )
        async with world.db.connection() as conn:
            row = await private_rows.get(conn, line=run.line, branch_id=run.branch_id, key="kv/notes/tide")
        return row.base_revision

    assert await put() == 0
    await publish(world, run, building.version("kv/notes/tide", "published"))
    await follow(world, run, 1)
    assert await put() == 0, "it is written over, and has the base that it had"
    await kv_records.delete(world.db, run, namespace="notes", key="tide", expected=None)
    assert await put() == 2, "it is written anew, on what is followed by now"
