"""Which manifest a reference names, and why none."""

from __future__ import annotations

import pytest
from tests.store import building

from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.ids import new_baseline_id, new_line_id
from anabranch.store import manifests


@pytest.fixture
async def line(db):
    """A line of three generations, of which readers see the second and the first is pruned."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    await building.publish_versions(db, line, building.version("a", 2))
    await building.publish_versions(db, line, building.version("a", 3))
    await building.move(db, line, to=2, kind="rollback", pinned=2)
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", line)
    return line


@pytest.mark.parametrize(("ref", "generation"), [("current", 2), ("head", 3), (2, 2), ("3", 3)])
async def test_a_reference_names_a_manifest(db, line, ref, generation):
    async with db.connection() as conn:
        assert (await manifests.resolve(conn, line=line, ref=ref)).generation == generation


async def test_a_baseline_id_names_a_manifest(db, line):
    async with db.connection() as conn:
        second = await manifests.get(conn, line=line, generation=2)
        assert await manifests.resolve(conn, line=line, ref=second.baseline_id) == second


async def test_a_pruned_generation_is_gone(db, line):
    async with db.connection() as conn:
        with pytest.raises(GoneError, match="Generation 1 was removed"):
            await manifests.resolve(conn, line=line, ref=1)


@pytest.mark.parametrize("ref", [0, 4, "04711", "-1", "latest", "", "²", "9" * 40])
async def test_what_never_was_is_not_found(db, line, ref):
    async with db.connection() as conn:
        with pytest.raises(NotFoundError):
            await manifests.resolve(conn, line=line, ref=ref)


async def test_another_lines_baseline_id_is_not_found(db, line):
    async with db.connection() as conn:
        with pytest.raises(NotFoundError):
            await manifests.resolve(conn, line=line, ref=new_baseline_id(new_line_id()))


async def test_a_line_without_manifests_says_so(db):
    line = await building.new_line(db, name="empty")
    async with db.connection() as conn:
        for ref in ("current", "head", 1):
            with pytest.raises(NotFoundError, match="no manifest yet"):
                await manifests.resolve(conn, line=line, ref=ref)


async def test_manifests_are_listed_newest_first_by_pages(db, line):
    async with db.connection() as conn:
        assert [row.generation for row in await manifests.history(conn, line, 5)] == [3, 2]
        [newest] = await manifests.page(conn, line=line, limit=1)
        assert [row.generation for row in await manifests.page(conn, line=line, before=3, limit=1)] == [2]
    assert newest.parent_generation == 2
    assert newest.origin == {"kind": "publication"}


async def test_a_held_manifest_cannot_be_pruned(db, line):
    async with db.transaction() as conn:
        assert (await manifests.hold(conn, line=line, generation=2)).generation == 2
        async with db.connection() as other:
            await other.execute("SET lock_timeout = '50ms'")
            with pytest.raises(Exception, match="lock timeout"):
                await other.execute("DELETE FROM manifests WHERE line = $1 AND generation = 2", line)
            await other.execute("RESET lock_timeout")
