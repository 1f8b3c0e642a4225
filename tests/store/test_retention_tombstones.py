"""The marks of deleted records are taken out by a generation of their own, when nothing needs them any more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.branching import fork
from tests.store.building import version
from tests.store.retaining import LONG, NOW, generations, retain

from anabranch.domain import trie as domain_trie
from anabranch.store import database, diffs, events, lines, manifests, publish, records, restoring, tombstones, trie

DAY = timedelta(days=1)


@pytest.fixture
async def line(db):
    """Two records of three are deleted, and no generation shows them any more."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 1, "c": 1})
    await building.publish_versions(db, line, version("a"), version("b"))
    await building.publish_versions(db, line, version("c", 2))
    await retain(db, line)
    return line


async def tombstones_of(db, line, generation=None):
    async with db.connection() as conn:
        page = await records.page(conn, line=line, generation=generation, limit=100, scopes=None, tombstones=True)
    return [record.key for record in page.records if record.tombstone]


async def purge(db, line, *, overdue=NOW, expired=NOW):
    async with db.connection() as conn:
        now = await database.now(conn)
        planned = await tombstones.plan(conn, line=line, overdue=now - overdue, expired=now - expired)
    if planned is None:
        return None
    async with db.transaction() as conn:
        return await tombstones.purge(conn, planned=planned)


async def test_a_purge_is_a_generation_that_says_so_and_tells_followers_nothing(db, line):
    before = await retaining.head_of(db, line)
    await retain(db, line, tombstones=NOW)
    head = await retaining.head_of(db, line)
    assert (head.head_generation, head.current_generation, head.previous_generation) == (4, 4, 3)
    assert (head.revision, head.event_sequence) == (before.revision + 1, before.event_sequence)
    async with db.connection() as conn:
        manifest = await manifests.resolve(conn, line=line, ref="head")
        page = await events.after(conn, line=line, after_sequence=0, limit=10, scopes=None)
    assert (manifest.origin, manifest.records) == ({"kind": "purge", "tombstones": 2}, 1)
    assert manifest.feed_watermark == page.watermark
    assert await tombstones_of(db, line) == []
    assert await tombstones_of(db, line, 3) == ["a", "b"]
    await retaining.check(db, line)


async def test_a_purged_key_is_proved_absent_and_its_tombstone_present_before(db, line):
    await retain(db, line, tombstones=NOW)
    async with db.connection() as conn:
        _, record = await records.read(conn, line=line, generation=3, key="a", scopes=None)
        mark = domain_trie.Descriptor(
            key="a",
            revision=record.revision,
            scope=record.scope,
            content_hash=record.content_hash,
            fact_hash=record.fact_hash,
            tombstone=True,
        )
        for generation, descriptor in ((3, mark), (4, None)):
            manifest = await manifests.resolve(conn, line=line, ref=generation)
            proof = await trie.prove(conn, line=line, generation=generation, key="a")
            domain_trie.verify(proof, key="a", descriptor=descriptor, root=manifest.manifest_hash)


async def test_a_tombstone_stays_as_long_as_it_was_promised_and_a_tenth_longer(db, line):
    async def after(days):
        async with db.connection() as conn:
            await retaining.set_back(conn, line, by=timedelta(days=days))
        await retain(db, line, tombstones=10 * DAY)
        return await tombstones_of(db, line)

    assert await after(10.5) == ["a", "b"]
    assert await after(0.6) == []


async def test_what_is_expired_goes_together_with_what_is_overdue(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 1, "c": 1})
    for key, days in (("a", 1), ("b", 9), ("c", 2)):
        await building.publish_versions(db, line, version(key))
        async with db.connection() as conn:
            await retaining.set_back(conn, line, by=days * DAY)
    await retain(db, line)
    await building.publish_versions(db, line, version("d", 1))
    await retain(db, line)
    # They are 12, 11 and 2 days old.
    assert await purge(db, line, overdue=13 * DAY, expired=10 * DAY) is None
    assert (await purge(db, line, overdue=12 * DAY - timedelta(hours=1), expired=10 * DAY)).origin["tombstones"] == 2
    assert await tombstones_of(db, line) == ["c"]


async def test_ages_are_known_of_generations_whose_manifests_are_gone_and_even_forgotten(db, line):
    await building.publish_versions(db, line, version("d", 1))
    await building.publish_versions(db, line, version("d", 2))
    async with db.connection() as conn:
        await retaining.set_back(conn, line, by=200 * DAY)
    await building.publish_versions(db, line, version("c", 3))
    await building.publish_versions(db, line, version("c", 4))
    await retain(db, line, tombstones=150 * DAY, age=NOW)
    async with db.connection() as conn:
        assert await manifests.named(conn, line=line, generation=2) is None
    assert await tombstones_of(db, line) == []


async def test_a_tombstone_stays_while_a_kept_generation_shows_its_record(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 1})
    async with db.connection() as conn:
        branch = await fork(conn, line, generation=1)
    await building.publish_versions(db, line, version("a"))
    for number in range(3):
        await building.publish_versions(db, line, version("b", number))
    await retain(db, line, tombstones=NOW, completed_runs=LONG)
    assert await tombstones_of(db, line) == ["a"]
    assert await generations(db, line) == [1, 4, 5]

    async with db.connection() as conn:
        await conn.execute("UPDATE branches SET phase = 'Completed' WHERE branch_id = $1", branch.branch_id)
    await retain(db, line, tombstones=NOW, completed_runs=LONG)  # now the record goes
    await retain(db, line, tombstones=NOW, completed_runs=LONG)  # and now its mark
    assert await tombstones_of(db, line) == []


async def test_a_key_that_comes_again_after_a_purge_is_a_new_record_with_a_new_revision(db, line):
    await retain(db, line, tombstones=NOW)
    await building.publish_versions(db, line, version("a", "again"))
    async with db.connection() as conn:
        _, record = await records.read(conn, line=line, key="a", scopes=None)
        found = await diffs.page(conn, line=line, from_generation=3, to_generation=5, limit=10, scopes=None)
    assert record.revision == 5
    assert [(row.key, row.before and row.before.tombstone, row.after.revision) for row in found] == [("a", True, 5)]
    await retaining.check(db, line)
    await retain(db, line, tombstones=NOW)
    await restoring.restore(db, line=line, generation=5, restore_id="same")
    assert await building.snapshot(db, line) == {"a": "again", "c": 2}
    await retaining.check(db, line)


async def test_what_a_purge_took_out_is_swept_with_the_last_generation_that_shows_it(db, line):
    await retain(db, line, tombstones=NOW)
    for number in range(2):
        await building.publish_versions(db, line, version("c", f"later {number}"))
    await retain(db, line, tombstones=NOW)
    async with db.connection() as conn:
        assert await conn.fetchval("SELECT count(*) FROM record_versions WHERE line = $1 AND tombstone", line) == 0
    assert await retaining.rubbish(db, line) == {}


async def test_a_paused_line_is_not_purged(db, line):
    async with db.connection() as conn:
        planned = await tombstones.plan(conn, line=line, overdue=await later(conn), expired=await later(conn))
    await building.move(db, line, to=3, kind="rollback", pinned=3)
    assert await purge(db, line) is None
    async with db.transaction() as conn:
        assert await tombstones.purge(conn, planned=planned) is None  # paused after it was planned
    assert (await retaining.head_of(db, line)).head_generation == 3


async def test_a_purge_that_was_planned_for_another_head_writes_nothing(db, line):
    async with db.connection() as conn:
        planned = await tombstones.plan(conn, line=line, overdue=await later(conn), expired=await later(conn))
    await building.publish_versions(db, line, version("a", "again"))
    async with db.transaction() as conn:
        with pytest.raises(publish.HeadMovedError):
            await tombstones.purge(conn, planned=planned)
    assert await building.snapshot(db, line) == {"a": "again", "c": 2}


async def test_a_turn_that_loses_the_head_to_a_publication_comes_again(db, line, monkeypatch):
    plan = tombstones.plan

    async def plan_and_publish(conn, **what):
        planned = await plan(conn, **what)
        if await building.snapshot(db, line) == {"c": 2}:
            await building.publish_versions(db, line, version("d", 1))
        return planned

    monkeypatch.setattr(tombstones, "plan", plan_and_publish)
    await retain(db, line, tombstones=NOW)
    assert await tombstones_of(db, line) == []
    assert await building.snapshot(db, line) == {"c": 2, "d": 1}
    await retaining.check(db, line)


async def test_many_tombstones_go_some_at_a_time(db, monkeypatch):
    monkeypatch.setattr(tombstones, "KEYS", 30)
    line = await building.new_line(db)
    keys = [f"k{number}" for number in range(80)]
    await building.import_records(db, line, dict.fromkeys(keys, 1) | {"kept": 1})
    await building.publish_versions(db, line, *(version(key) for key in keys))
    await building.publish_versions(db, line, version("kept", 2))
    await retain(db, line)
    await retain(db, line, tombstones=NOW)
    assert await tombstones_of(db, line) == []
    async with db.connection() as conn:
        made = [row.origin.get("tombstones") for row in await manifests.history(conn, line, 2)]
    assert made == [20, 30]  # the first of the three is not kept any more
    await retaining.check(db, line)


async def test_a_restore_and_a_purge_at_once_leave_one_history(db, line):
    await building.publish_versions(db, line, version("c", "newest"))
    await asyncio.gather(
        restoring.restore(db, line=line, generation=3, restore_id="back"),
        retain(db, line, tombstones=NOW, generations=10),
    )
    assert await building.snapshot(db, line) == {"c": 2}
    await retaining.check(db, line)


async def later(conn):
    return await database.now(conn) + DAY


async def test_the_head_of_a_line_without_tombstones_does_not_move(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    await retain(db, line, tombstones=NOW)
    async with db.connection() as conn:
        assert (await lines.head(conn, line)).head_generation == 1
