"""The first import: the whole of it or nothing, in batches, and once."""

from __future__ import annotations

import asyncio

import pytest
from tests.store import building

from anabranch.domain.trie import EMPTY_ROOT, Descriptor, root_of
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import ConflictError, TooLargeError
from anabranch.store import importing, lines, manifests, records, trie


@pytest.fixture
async def line(db):
    return await building.new_line(db)


def record(key, content=1, scope="shared", fact=b"{}"):
    return importing.ImportRecord(
        key=key,
        scope=scope,
        content_hash=building.digest(content),
        content_body=canonical_bytes(content),
        fact_body=fact,
    )


async def stream(*items):
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, Exception):
            raise item
        yield item


async def load(db, line, *items):
    return await importing.import_first(
        db, line=line, records=stream(*items), origin={"kind": "import"}, import_digest=b"d" * 32
    )


async def rows(db, line):
    """How many rows of a line the import's tables have."""
    async with db.connection() as conn:
        return {
            table: await conn.fetchval(f"SELECT count(*) FROM {table} WHERE line = $1", line)
            for table in ("record_versions", "contents", "facts", "trie_nodes", "manifests", "line_scopes")
        }


async def test_an_import_makes_generation_1(db, line):
    manifest = await load(db, line, record("b", 2), record("a", 1, scope="team"))
    assert (manifest.generation, manifest.parent_generation, manifest.records, manifest.revision) == (1, 0, 2, 1)
    assert manifest.origin == {"kind": "import"}
    assert await building.snapshot(db, line) == {"a": 1, "b": 2}
    async with db.connection() as conn:
        state = await lines.get(conn, line)
        assert await lines.scopes(conn, line) == ["shared", "team"]
    assert (state.head.head_generation, state.head.current_generation, state.head.revision) == (1, 1, 1)
    assert (state.line.import_digest, state.head.event_sequence) == (b"d" * 32, 0)


async def test_the_root_is_that_of_the_records_in_whatever_order_and_batches(db, line, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH", 7)
    monkeypatch.setattr(importing, "_NODES", 11)
    monkeypatch.setattr(trie, "_ROWS", 11)
    given = [record(f"key-{number}", number) for number in range(500)]
    manifest = await load(db, line, *given)
    descriptors = [
        Descriptor(
            key=item.key,
            revision=1,
            scope=item.scope,
            content_hash=item.content_hash,
            fact_hash=importing.sha256(item.fact_body),
        ).pair
        for item in given
    ]
    assert manifest.manifest_hash == root_of(sorted(descriptors))
    # The stored nodes hang together: a publication over them gives the root that its records have.
    after = await building.publish_versions(db, line, building.version("key-3", "new"), building.version("key-4"))
    async with db.transaction() as conn:
        assert await trie.recompute_root(conn, line=line, generation=2) == after.manifest_hash


async def test_a_batch_ends_by_size_too(db, line, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH_BYTES", 1_000)
    batches = [batch async for batch in importing._batches(stream(*(record(f"k{n}", "x" * 400) for n in range(7))))]
    assert [len(batch) for batch in batches] == [3, 3, 1]


async def test_equal_contents_are_stored_once_within_a_batch_and_beyond(db, line, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH", 3)
    await load(db, line, *(record(f"k{number}", number % 2) for number in range(10)))
    counts = await rows(db, line)
    assert (counts["record_versions"], counts["contents"], counts["facts"]) == (10, 2, 1)
    async with db.connection() as conn:
        page = await records.page(conn, line=line, limit=100, scopes=None)
    assert [item.body for item in page.records] == [b"0", b"1"] * 5


async def test_no_records_make_an_empty_manifest(db, line):
    manifest = await load(db, line)
    assert (manifest.records, manifest.manifest_hash) == (0, EMPTY_ROOT)
    assert (await building.publish_versions(db, line, building.version("first", 1))).records == 1


@pytest.mark.parametrize("batch", [2, 100])
async def test_a_key_that_comes_twice_is_named_and_leaves_nothing(db, line, monkeypatch, batch):
    monkeypatch.setattr(importing, "_BATCH", batch)
    with pytest.raises(importing.DuplicateKeyError, match=r"twice: .*same"):
        await load(db, line, record("same"), record("other"), record("third"), record("same", 2))
    assert set((await rows(db, line)).values()) == {0}


async def test_a_source_that_breaks_leaves_nothing(db, line, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH", 2)
    with pytest.raises(ZeroDivisionError):
        await load(db, line, *(record(f"k{number}") for number in range(5)), ZeroDivisionError())
    assert set((await rows(db, line)).values()) == {0}
    assert (await load(db, line, record("again"))).generation == 1


async def test_an_import_that_is_cancelled_leaves_nothing(db, line):
    started = asyncio.Event()

    async def endless():
        number = 0
        while True:
            yield record(f"k{number}")
            number += 1
            if number > 6_000:
                started.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(
        importing.import_first(db, line=line, records=endless(), origin={"kind": "import"}, import_digest=None)
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set((await rows(db, line)).values()) == {0}


async def test_a_second_first_import_is_refused(db, line):
    await load(db, line, record("a"))
    with pytest.raises(ConflictError, match="records already"):
        await load(db, line, record("b"))


async def test_of_two_imports_at_once_one_is_refused(db, line):
    results = await asyncio.gather(load(db, line, record("a")), load(db, line, record("b")), return_exceptions=True)
    assert sorted(type(result) for result in results if isinstance(result, Exception)) == [ConflictError]
    async with db.connection() as conn:
        assert len(await manifests.history(conn, line, 5)) == 1


async def test_too_many_records_are_refused(db, line, monkeypatch):
    monkeypatch.setattr(importing, "LINE_RECORDS", 3)
    with pytest.raises(TooLargeError, match="more than 3"):
        await load(db, line, *(record(f"k{number}") for number in range(4)))
    assert set((await rows(db, line)).values()) == {0}


async def test_too_many_scopes_are_refused(db, line):
    with pytest.raises(TooLargeError, match="33 scopes"):
        await load(db, line, *(record(f"k{number}", scope=f"s{number:02}") for number in range(33)))
