"""A restore: the old content as a new generation, once, and without holding others up."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import events, lines, manifests, pruning, publish, records, restoring, trie

CONTENTS = {f"key-{number}": number for number in range(80)}


@pytest.fixture
async def line(db):
    """Three generations: changed, moved to another scope, deleted, come since, come and gone."""
    line = await building.new_line(db)
    await building.import_records(db, line, CONTENTS)
    await building.publish_versions(
        db, line, version("key-1", "changed"), version("key-2", 2, scope="team"), version("key-3"), version("since", 1)
    )
    await building.publish_versions(db, line, version("key-1", "twice"), version("gone-again", 1))
    await building.publish_versions(db, line, version("gone-again"))
    return line


async def head_of(db, line):
    async with db.connection() as conn:
        return await lines.head(conn, line)


async def read(db, line, key):
    async with db.connection() as conn:
        return (await records.read(conn, line=line, key=key, scopes=None))[1]


async def root_holds(db, line):
    async with db.transaction() as conn:
        manifest = await manifests.resolve(conn, line=line, ref="head")
        live = await records.count(conn, line=line, generation=manifest.generation, scopes=None)
        root = await trie.recompute_root(conn, line=line, generation=manifest.generation)
    return (root, live) == (manifest.manifest_hash, manifest.records)


async def test_the_new_head_says_what_the_old_generation_said(db, line):
    row = await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert (row.from_generation, row.generation) == (1, 5)
    assert await building.snapshot(db, line) == CONTENTS
    assert await root_holds(db, line)
    head = await head_of(db, line)
    assert (head.head_generation, head.current_generation, head.previous_generation, head.revision) == (5, 5, 4, 5)


async def test_what_came_since_gets_a_tombstone_and_the_rest_its_old_facts(db, line):
    before = await read(db, line, "key-1")
    await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert (await read(db, line, "since")).tombstone
    restored = await read(db, line, "key-1")
    assert restored.revision == 5
    assert restored.fact_hash != before.fact_hash
    assert b"import:key-1.md" in restored.fact_body
    assert (await read(db, line, "key-2")).scope == "shared"
    # Nothing is written for what did not change, nor for what is absent on both sides.
    assert (await read(db, line, "key-4")).revision == 1
    assert (await read(db, line, "gone-again")).revision == 4


async def test_the_generations_before_stay_as_they_were(db, line):
    before = [await building.snapshot(db, line, generation) for generation in range(1, 5)]
    await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert [await building.snapshot(db, line, generation) for generation in range(1, 5)] == before


async def test_one_event_tells_of_it(db, line):
    sequence = (await head_of(db, line)).event_sequence
    await restoring.restore(db, line=line, generation=2, restore_id="first")
    async with db.connection() as conn:
        page = await events.after(conn, line=line, after_sequence=sequence, limit=10, scopes=[])
        manifest = await manifests.resolve(conn, line=line, ref="head")
    [event] = page.events
    assert (event.kind, event.generation, event.key, event.revision) == ("restored", 5, None, None)
    assert manifest.origin == {"kind": "restore", "generation": 2, "id": "first"}


async def test_a_restore_forwards_undoes_a_restore(db, line):
    newest = await building.snapshot(db, line)
    await restoring.restore(db, line=line, generation=1, restore_id="back")
    await restoring.restore(db, line=line, generation=4, restore_id="and forth")
    assert await building.snapshot(db, line) == newest
    assert await root_holds(db, line)


async def test_a_restore_of_the_head_is_a_generation_like_it(db, line):
    row = await restoring.restore(db, line=line, generation=4, restore_id="same")
    async with db.connection() as conn:
        same, before = [await manifests.get(conn, line=line, generation=number) for number in (row.generation, 4)]
    assert same.manifest_hash == before.manifest_hash


async def test_an_id_acts_once_for_ever(db, line):
    first = await restoring.restore(db, line=line, generation=1, restore_id="once")
    await building.publish_versions(db, line, version("key-1", "after"))
    assert await restoring.restore(db, line=line, generation=2, restore_id="once") == first
    assert (await head_of(db, line)).head_generation == 6
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation <= 5", line)
    assert await restoring.restore(db, line=line, generation=1, restore_id="once") == first


async def test_an_id_acts_once_however_many_ask_at_once(db, line):
    done = await asyncio.gather(*(restoring.restore(db, line=line, generation=1, restore_id="once") for _ in range(4)))
    assert {row.generation for row in done} == {5}
    assert (await head_of(db, line)).head_generation == 5


async def test_a_publication_in_between_is_restored_over(db, line, monkeypatch):
    stage, staged = restoring._stage, []

    async def stage_and_be_overtaken(conn, *, head, generation):
        result = await stage(conn, head=head, generation=generation)
        if not staged:
            await building.publish_versions(db, line, version("key-7", "overtaken"), version("late", 1))
        staged.append(head.head_generation)
        return result

    monkeypatch.setattr(restoring, "_stage", stage_and_be_overtaken)
    row = await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert staged == [4, 5]
    assert row.generation == 6
    assert await building.snapshot(db, line) == CONTENTS
    assert await root_holds(db, line)


async def test_a_line_that_never_rests_is_restored_too(db, line, monkeypatch):
    stage, kept_out = restoring._stage, []

    async def stage_and_be_overtaken(conn, *, head, generation):
        result = await stage(conn, head=head, generation=generation)
        try:
            await building.publish_versions(db, line, version("key-7", len(kept_out)))
        except publish.RestoreUnderWayError:
            kept_out.append(True)
        else:
            kept_out.append(False)
        return result

    monkeypatch.setattr(restoring, "_ATTEMPTS", 2)
    monkeypatch.setattr(restoring, "_stage", stage_and_be_overtaken)
    await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert kept_out == [False, False, True]
    assert await building.snapshot(db, line, 7) == CONTENTS


async def test_a_crash_leaves_nothing_and_the_id_unused(db, line, monkeypatch):
    async def crash(*_args, **_kwargs):
        raise ZeroDivisionError

    before = await building.snapshot(db, line)
    with monkeypatch.context() as patched:
        patched.setattr(restoring.publish, "seal", crash)
        with pytest.raises(ZeroDivisionError):
            await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert await building.snapshot(db, line) == before
    async with db.connection() as conn:
        assert await restoring.find(conn, line=line, restore_id="first") is None
    assert (await restoring.restore(db, line=line, generation=1, restore_id="first")).generation == 5


async def test_under_a_pin_readers_do_not_see_it_yet(db, line):
    await building.move(db, line, to=2, kind="rollback", pinned=2)
    await restoring.restore(db, line=line, generation=1, restore_id="first")
    head = await head_of(db, line)
    assert (head.head_generation, head.current_generation) == (5, 2)


async def test_a_pruned_or_unknown_generation_cannot_be_restored(db, line):
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", line)
    for generation, error in ((1, GoneError), (9, NotFoundError)):
        with pytest.raises(error):
            await restoring.restore(db, line=line, generation=generation, restore_id="first")


async def test_a_generation_that_is_being_restored_is_not_pruned_meanwhile(db, line, monkeypatch):
    stage = restoring._stage
    pruned = []

    async def stage_and_prune(conn, *, head, generation):
        result = await stage(conn, head=head, generation=generation)
        async with db.transaction() as other:
            pruned.extend(await pruning.drop(other, line=line, generations=[1, 2]))
        return result

    monkeypatch.setattr(restoring, "_stage", stage_and_prune)
    assert (await restoring.restore(db, line=line, generation=1, restore_id="first")).generation == 5
    assert pruned == [2]
    assert await building.snapshot(db, line) == CONTENTS


async def test_a_generation_that_was_pruned_cannot_be_restored(db, line):
    async with db.transaction() as conn:
        assert await pruning.drop(conn, line=line, generations=[1]) == [1]
    with pytest.raises(GoneError, match="Generation 1 was removed by retention"):
        await restoring.restore(db, line=line, generation=1, restore_id="first")
    assert (await head_of(db, line)).head_generation == 4
