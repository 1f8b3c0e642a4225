"""Generations: all or nothing, in order, and with a hash that the tables bear out."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.domain import trie as domain_trie
from anabranch.model.errors import (
    ConflictError,
    GoneError,
    NotFoundError,
    NotReadyError,
    TooLargeError,
    UnavailableError,
)
from anabranch.model.ids import new_job_id
from anabranch.store import events, lines, manifests, publications, publish, trie


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"key-{number}": number for number in range(100)})
    return line


async def head_of(db, line):
    async with db.connection() as conn:
        return await lines.head(conn, line)


async def prepare(db, line, *versions):
    async with db.connection() as conn:
        return await publish.prepare(conn, head=await lines.head(conn, line), versions=versions)


async def write(db, line, prepared, *, then=None):
    async with db.transaction() as conn:
        manifest = await publish.write_generation(
            conn,
            head=await lines.lock_head(conn, line),
            prepared=prepared,
            events=[building.event(new) for new in prepared.versions],
            origin={"kind": "publication"},
        )
        if then:
            await then(conn, manifest)
        return manifest


async def recomputed(db, line, generation):
    async with db.transaction() as conn:
        return await trie.recompute_root(conn, line=line, generation=generation)


async def nodes_are_those_of_a_rebuild(db, line, generation):
    stored, rebuilt = await building.nodes(db, line, generation)
    return stored == rebuilt


async def feed(db, line):
    async with db.connection() as conn:
        return await events.after(conn, line=line, after_sequence=0, limit=1_000, scopes=None)


async def everything(db, line):
    """All rows of a line, in all tables that a publication writes."""
    async with db.connection() as conn:
        return {
            table: await conn.fetch(f"SELECT * FROM {table} AS t WHERE line = $1 ORDER BY t", line)
            for table in ("record_versions", "trie_nodes", "manifests", "events", "line_heads", "facts", "line_scopes")
        }


async def test_a_publication_makes_the_next_generation(db, line):
    before = await head_of(db, line)
    manifest = await building.publish_versions(db, line, version("key-1", "new"), version("new", 1), version("key-2"))
    head = await head_of(db, line)
    assert (manifest.generation, manifest.parent_generation, manifest.records, manifest.revision) == (2, 1, 100, 2)
    assert (head.head_generation, head.current_generation, head.previous_generation) == (2, 2, 1)
    assert head.revision == before.revision + 1
    assert manifest.feed_watermark == head.event_sequence == 3
    assert manifest.baseline_id.startswith("bl_")


async def test_the_generation_before_is_unchanged_bit_for_bit(db, line):
    before = await building.snapshot(db, line)
    root = await recomputed(db, line, 1)
    await building.publish_versions(db, line, version("key-1", "new"), version("key-2"), version("other", 1))
    assert await building.snapshot(db, line, 1) == before
    assert await recomputed(db, line, 1) == root


@pytest.mark.parametrize("seed", range(3))
async def test_root_and_nodes_of_every_generation_are_those_of_its_records(db, seed):
    """Puts, changes of scope and deletions at random, across splits and collapses of leaves."""
    chance = random.Random(seed)
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": 0 for number in range(chance.choice([0, 60, 1_500]))})
    expected = await building.snapshot(db, line)
    snapshots = {1: dict(expected)}
    for generation in range(2, 9):
        changed = chance.sample([f"k{number}" for number in range(1_600)], chance.choice([1, 40, 700]))
        deleting = chance.random()
        new = [
            version(key, None if chance.random() < deleting else generation, scope=chance.choice(["shared", "team"]))
            for key in changed
        ]
        manifest = await building.publish_versions(db, line, *new)
        expected.update({item.key: generation for item in new if not item.tombstone})
        for item in new:
            if item.tombstone:
                expected.pop(item.key, None)
        snapshots[generation] = dict(expected)
        assert manifest.records == len(expected)
        assert await recomputed(db, line, generation) == manifest.manifest_hash
    for generation, contents in snapshots.items():
        async with db.connection() as conn:
            stored = await manifests.get(conn, line=line, generation=generation)
        assert stored.records == len(contents)
        assert await recomputed(db, line, generation) == stored.manifest_hash
        assert await nodes_are_those_of_a_rebuild(db, line, generation)


async def test_a_record_is_proved_present_and_absent(db, line):
    await building.publish_versions(db, line, version("key-1", "new"))
    async with db.connection() as conn:
        manifest = await manifests.resolve(conn, line=line, ref="current")
        present = await trie.prove(conn, line=line, generation=2, key="key-1")
        absent = await trie.prove(conn, line=line, generation=2, key="never")
        with pytest.raises(NotFoundError):
            await trie.prove(conn, line=line, generation=3, key="key-1")
    new = version("key-1", "new")
    descriptor = domain_trie.Descriptor(
        key="key-1", revision=2, scope="shared", content_hash=new.content_hash, fact_hash=new.fact_hash
    )
    domain_trie.verify(present, key="key-1", descriptor=descriptor, root=manifest.manifest_hash)
    domain_trie.verify(absent, key="never", descriptor=None, root=manifest.manifest_hash)


async def test_an_altered_row_gives_another_root(db, line, database):
    async with db.transaction() as conn:
        await conn.execute("UPDATE record_versions SET scope = 'team' WHERE line = $1 AND key = 'key-7'", line)
    async with db.connection() as conn:
        stored = await manifests.resolve(conn, line=line, ref=1)
    assert await recomputed(db, line, 1) != stored.manifest_hash


async def test_an_altered_node_stops_the_publication(db, line):
    async with db.connection() as conn:
        await conn.execute("UPDATE trie_nodes SET body = '\\x00' WHERE line = $1 AND path = ''", line)
    with pytest.raises(domain_trie.CorruptNodeError):
        await prepare(db, line, version("key-1", "new"))


async def test_nothing_is_written_when_the_head_has_moved(db, line):
    late = await prepare(db, line, version("key-1", "late"))
    await building.publish_versions(db, line, version("key-2", "early"))
    before = await everything(db, line)
    with pytest.raises(publish.HeadMovedError):
        await write(db, line, late)
    assert await everything(db, line) == before


async def test_a_crash_before_the_commit_leaves_nothing(db, line):
    async def crash(_conn, _manifest):
        raise ConnectionAbortedError

    prepared = await prepare(db, line, version("key-1", "new"), version("key-2"), version("new", 1, scope="other"))
    before = await everything(db, line)
    with pytest.raises(UnavailableError):
        await write(db, line, prepared, then=crash)
    assert await everything(db, line) == before
    assert (await write(db, line, prepared)).generation == 2


async def test_many_publishers_make_one_line_of_generations_without_gaps(db, line):
    async def publish_one(number):
        while True:
            try:
                await building.publish_versions(db, line, version(f"key-{number}", "new"), version(f"new-{number}", 1))
            except publish.HeadMovedError:
                continue
            return

    await asyncio.gather(*(publish_one(number) for number in range(8)))
    head = await head_of(db, line)
    page = await feed(db, line)
    async with db.connection() as conn:
        history = await manifests.history(conn, line, 100)
    assert [row.generation for row in history] == list(range(9, 0, -1))
    assert [row.revision for row in history] == list(range(9, 0, -1))
    assert [event.sequence for event in page.events] == list(range(1, 17))
    assert [event.generation for event in page.events] == sorted(event.generation for event in page.events)
    assert page.watermark == head.event_sequence == 16
    assert await recomputed(db, line, 9) == history[0].manifest_hash


async def test_a_reader_never_sees_events_without_their_generation(db, line):
    """Sequence, manifest and records come with one commit."""
    stop = asyncio.Event()

    async def watch():
        seen = 0
        while not stop.is_set():
            page = await feed(db, line)
            head = await head_of(db, line)
            assert [event.sequence for event in page.events] == list(range(1, len(page.events) + 1))
            assert page.watermark == len(page.events)
            assert all(event.generation <= head.head_generation for event in page.events)
            seen = page.watermark
        return seen

    watcher = asyncio.create_task(watch())
    for number in range(10):
        await building.publish_versions(db, line, version(f"key-{number}", "new"))
    stop.set()
    await watcher


async def test_events_speak_of_the_revision_that_came_unless_they_name_one(db, line):
    prepared = await prepare(db, line, version("key-1", "new"))
    async with db.transaction() as conn:
        await publish.write_generation(
            conn,
            head=await lines.lock_head(conn, line),
            prepared=prepared,
            events=[
                publish.NewEvent(kind="superseded", scope="shared", key="key-1", revision=1),
                publish.NewEvent(kind="published", scope="shared", key="key-1", origin_branch="br_x"),
            ],
            origin={"kind": "publication"},
        )
    superseded, published = (await feed(db, line)).events
    assert (superseded.kind, superseded.revision) == ("superseded", 1)
    assert (published.kind, published.revision, published.origin_branch) == ("published", 2, "br_x")
    assert published.published_baseline_id.startswith("bl_")


async def test_a_job_publishes_once_whatever_happens(db, line):
    job = new_job_id(line)
    async with db.connection() as conn:
        await conn.execute(
            "INSERT INTO jobs (line, job_id, namespace, name, automatic, origin) "
            "VALUES ($1, $2, 'n', 'j', true, 'Import')",
            line,
            job,
        )

    async def record(conn, manifest):
        await publications.record(conn, line=line, job_id=job, generation=manifest.generation)

    await write(db, line, await prepare(db, line, version("key-1", "new")), then=record)
    before = await everything(db, line)
    with pytest.raises(publications.AlreadyPublishedError, match="generation 2") as caught:
        await write(db, line, await prepare(db, line, version("key-1", "again")), then=record)
    assert caught.value.extra == {"generation": 2}
    assert await everything(db, line) == before
    async with db.connection() as conn:
        assert await publications.of_job(conn, line=line, job_id=job) == 2
        assert await publications.of_job(conn, line=line, job_id=new_job_id(line)) is None


async def test_two_versions_of_one_key_are_refused(db, line):
    with pytest.raises(ConflictError, match="one key"):
        await prepare(db, line, version("key-1", 1), version("key-1", 2))


async def test_a_version_whose_content_is_not_stored_is_refused(db, line):
    bare = publish.NewVersion(key="key-1", scope="shared", content_hash=building.digest("nowhere"), fact_body=b"{}")
    before = await everything(db, line)
    with pytest.raises(UnavailableError, match="not stored"):
        await write(db, line, await prepare(db, line, bare))
    assert await everything(db, line) == before


async def test_a_version_may_refer_to_content_that_is_stored(db, line):
    known = publish.NewVersion(key="key-1", scope="shared", content_hash=building.digest(5), fact_body=b"{}")
    await write(db, line, await prepare(db, line, known))
    assert (await building.snapshot(db, line))["key-1"] == 5


async def test_a_generation_without_changes_keeps_the_root(db, line):
    manifest = await building.publish_versions(db, line)
    async with db.connection() as conn:
        assert manifest.manifest_hash == (await manifests.get(conn, line=line, generation=1)).manifest_hash


async def test_a_line_without_a_manifest_cannot_be_published_to(db):
    with pytest.raises(NotReadyError):
        await prepare(db, await building.new_line(db, name="empty"), version("a", 1))


async def test_a_line_that_is_full_takes_no_more(db, line, monkeypatch):
    monkeypatch.setattr(publish, "LINE_RECORDS", 100)
    await building.publish_versions(db, line, version("key-1", "replaced"))
    with pytest.raises(TooLargeError, match="101 records; 100"):
        await building.publish_versions(db, line, version("one-more", 1))


async def test_new_scopes_are_the_lines_scopes(db, line):
    await building.publish_versions(db, line, version("a", 1, scope="team/build"))
    async with db.connection() as conn:
        assert await lines.scopes(conn, line) == ["shared", "team/build"]


async def test_a_pin_moves_what_readers_see_and_the_head_stays(db, line):
    await building.publish_versions(db, line, version("key-1", "second"))
    await building.move(db, line, to=1, kind="rollback", pinned=1)
    head = await head_of(db, line)
    assert (head.head_generation, head.current_generation, head.previous_generation) == (2, 1, 2)
    assert head.pinned_generation == 1
    assert head.paused
    assert (await building.snapshot(db, line))["key-1"] == 1

    await building.move(db, line, to=2, kind="resumed", pinned=None)
    head = await head_of(db, line)
    assert (head.current_generation, head.previous_generation, head.paused) == (2, 1, False)
    kinds = [(event.kind, event.generation, event.scope, event.key) for event in (await feed(db, line)).events]
    assert kinds[1:] == [("rollback", 1, None, None), ("resumed", 2, None, None)]


async def test_what_is_published_under_a_pin_is_not_seen_yet(db, line):
    await building.move(db, line, to=1, kind="rollback", pinned=1)
    await building.publish_versions(db, line, version("key-1", "second"))
    head = await head_of(db, line)
    assert (head.head_generation, head.current_generation, head.previous_generation) == (2, 1, 1)
    assert (await building.snapshot(db, line))["key-1"] == 1


async def test_a_pin_to_nothing_moves_nothing(db, line):
    await building.publish_versions(db, line, version("key-1", "second"))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", line)
    before = await everything(db, line)
    for target, error in ((1, GoneError), (9, NotFoundError)):
        with pytest.raises(error):
            await building.move(db, line, to=target, kind="rollback", pinned=target)
    assert await everything(db, line) == before


async def test_status_has_something_new_after_each_move(db, line):
    async def number():
        async with db.connection() as conn:
            return (await lines.get(conn, line)).line.version

    before = await number()
    await building.publish_versions(db, line, version("key-1", "second"))
    await building.move(db, line, to=1, kind="rollback", pinned=1)
    assert await number() == before + 2
