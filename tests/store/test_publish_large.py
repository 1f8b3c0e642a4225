"""Large generations are written before the head's lock, which others need meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building
from tests.store.building import event, publish_versions, snapshot, version
from tests.store.world import AUTOMATIC, World

from anabranch.consolidation import publishing
from anabranch.store import lines, publish, trie


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"key-{number}": number for number in range(100)})
    return line


async def prepare(db, line, *versions):
    async with db.connection() as conn:
        return await publish.prepare(conn, head=await lines.head(conn, line), versions=versions)


async def test_a_large_generation_is_written_before_the_heads_lock(db, line):
    many = [version(f"many-{number:03}", number) for number in range(200)] + [version("key-1", "changed")]
    prepared = await prepare(db, line, *many)
    async with db.transaction() as conn:
        ahead = await publish.write_ahead(conn, prepared=prepared)
        async with db.connection() as other, asyncio.timeout(30):
            await other.execute("UPDATE line_heads SET suspended = suspended WHERE line = $1", line)  # does not wait
        manifest = await publish.write_generation(
            conn,
            head=await lines.lock_head(conn, line),
            prepared=prepared,
            events=[event(new) for new in many],
            origin={"kind": "publication"},
            ahead=ahead,
        )
    assert manifest.generation == 2
    contents = await snapshot(db, line)
    assert (contents["key-1"], contents["many-199"], manifest.records) == ("changed", 199, len(contents))
    async with db.transaction() as conn:
        assert await trie.recompute_root(conn, line=line, generation=2) == manifest.manifest_hash


async def test_others_are_told_to_come_back_while_a_large_generation_is_written(db, line):
    prepared = await prepare(db, line, version("large", 1))

    async def publish_another_meanwhile():
        async with db.transaction() as conn:
            await publish.write_ahead(conn, prepared=prepared)
            await publish_versions(db, line, version("small", 1))

    with pytest.raises(publish.RestoreUnderWayError):
        await publish_another_meanwhile()
    await publish_versions(db, line, version("small", 1))  # the large one was rolled back


async def test_a_large_generation_is_not_written_when_the_head_has_moved(db, line):
    prepared = await prepare(db, line, version("large", 1))
    await publish_versions(db, line, version("small", 1))
    async with db.transaction() as conn:
        with pytest.raises(publish.HeadMovedError):
            await publish.write_ahead(conn, prepared=prepared)
    assert "large" not in await snapshot(db, line)


async def test_a_large_job_is_published_by_that_way_and_a_pin_need_not_wait_for_it(db, monkeypatch):
    monkeypatch.setattr(publishing, "LARGE", 3)
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    branch = await world.apply_branch("run")
    source = {"import": {"configMap": {"name": "facts"}}, **AUTOMATIC}
    write_ahead, ways = publish.write_ahead, []

    async def pinned_meanwhile(conn, **what):
        written = await write_ahead(conn, **what)
        if not ways:
            async with asyncio.timeout(30):
                await world.apply_baseline(generation=2, pin={"generation": 1}, **source)
        ways.append(written)
        return written

    monkeypatch.setattr(publish, "write_ahead", pinned_meanwhile)
    await world.submit(branch, 1, *({"key": f"k-{number}", "content": number} for number in range(3)))
    await world.work()
    assert ways == [3]
    assert (await world.state(line)).head.head_generation == 1  # the pin came first

    await world.apply_baseline(generation=3, **source)
    await world.work()
    assert ways == [3, 3]
    assert sorted(await world.contents(line)) == ["a", "k-0", "k-1", "k-2"]
    assert await world.check_roots(line) == 2
