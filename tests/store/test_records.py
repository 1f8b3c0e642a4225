"""Records as of a generation, within scopes, and never from one that was pruned."""

from __future__ import annotations

import pytest
from tests.store import building
from tests.store.building import version

from anabranch.domain.facts import Fact
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.ids import new_line_id
from anabranch.store import diffs, records

ALL = None


@pytest.fixture
async def line(db):
    """Three generations; `secret` is in another scope, `gone` is deleted in the third, `moved` changes its scope."""
    line = await building.new_line(db)
    await building.import_records(
        db, line, {"a": 1, "gone": 1, "moved": 1, "secret": 1}, scopes={"secret": "team", "moved": "team"}
    )
    await building.publish_versions(db, line, version("a", 2), version("b", 2))
    await building.publish_versions(db, line, version("gone"), version("moved", 3))
    return line


async def read(db, line, key, generation=None, scopes=ALL):
    async with db.connection() as conn:
        return await records.read(conn, line=line, generation=generation, key=key, scopes=scopes)


async def page(db, line, **bounds):
    async with db.connection() as conn:
        return await records.page(conn, line=line, **{"limit": 100, "scopes": ALL} | bounds)


async def diff(db, line, before, after, **bounds):
    async with db.connection() as conn:
        return await diffs.page(
            conn, line=line, from_generation=before, to_generation=after, **{"limit": 100, "scopes": ALL} | bounds
        )


@pytest.mark.parametrize(("generation", "body"), [(1, b"1"), (2, b"2"), (3, b"2"), (None, b"2")])
async def test_a_record_is_read_as_of_any_generation(db, line, generation, body):
    at, record = await read(db, line, "a", generation)
    assert (at, record.body) == (generation or 3, body)


async def test_a_record_comes_with_its_provenance(db, line):
    _, record = await read(db, line, "b")
    assert Fact.parse(record.fact_body).origin_runs == ("run",)
    assert (record.revision, record.scope, record.content_hash) == (2, "shared", building.digest(2))


async def test_a_deleted_record_is_a_tombstone_without_content(db, line):
    _, record = await read(db, line, "gone")
    assert (record.tombstone, record.body, record.revision) == (True, None, 3)
    assert (await read(db, line, "gone", 2))[1].body == b"1"


async def test_what_has_not_come_yet_is_absent(db, line):
    assert await read(db, line, "b", 1) == (1, None)
    assert await read(db, line, "never") == (3, None)


async def test_a_scope_that_one_may_not_read_hides_the_record(db, line):
    assert (await read(db, line, "secret", scopes=["shared"]))[1] is None
    assert (await read(db, line, "secret", scopes=[]))[1] is None
    assert (await read(db, line, "secret", scopes=["shared", "team"]))[1].body == b"1"


async def test_the_scope_of_that_generation_counts(db, line):
    assert (await read(db, line, "moved", 2, scopes=["shared"]))[1] is None
    assert (await read(db, line, "moved", 3, scopes=["shared"]))[1].body == b"3"


async def test_pages_follow_the_keys_and_lose_none(db, line):
    first = await page(db, line, limit=2)
    second = await page(db, line, generation=first.generation, after_key=first.records[-1].key, limit=2)
    assert building.keys([*first.records, *second.records]) == ["a", "b", "moved", "secret"]
    assert building.keys((await page(db, line, tombstones=True)).records) == ["a", "b", "gone", "moved", "secret"]
    assert building.keys((await page(db, line, generation=1, scopes=["shared"])).records) == ["a", "gone"]
    assert (await page(db, line, after_key="secret")).records == []


async def test_a_page_of_a_prefix_ends_with_it(db):
    line = await building.new_line(db, name="prefixes")
    last = "\U0010ffff"
    names = ["a", "a/", "a/1", "a/é", f"a/{last}", f"a/{last}x", "a0", f"{last}", f"{last}{last}", "\ud7ff", "\ue000"]
    await building.import_records(db, line, dict.fromkeys(names, 1))
    for prefix in ("", "a", "a/", f"a/{last}", last, "\ud7ff", "zzz"):
        expected = sorted(name for name in names if name.startswith(prefix))
        assert building.keys((await page(db, line, prefix=prefix)).records) == expected, prefix
    assert building.keys((await page(db, line, prefix="a/", after_key="a/1", limit=1)).records) == ["a/é"]


async def test_some_records_at_once_with_bodies_or_without(db, line):
    async with db.connection() as conn:
        found = await records.current_of(conn, line=line, generation=3, keys=["a", "gone", "never"])
        with_bodies = await records.current_of(conn, line=line, generation=3, keys=["a"], bodies=True)
        assert await records.current_of(conn, line=line, generation=3, keys=[]) == {}
    assert {key: record.tombstone for key, record in found.items()} == {"a": False, "gone": True}
    assert found["a"].body is None
    assert with_bodies["a"].body == b"2"


async def test_a_difference_shows_both_sides(db, line):
    changes = {row.key: (row.before, row.after) for row in await diff(db, line, 1, 3)}
    assert sorted(changes) == ["a", "b", "gone", "moved"]
    assert [side.content_hash for side in changes["a"]] == [building.digest(1), building.digest(2)]
    assert changes["b"][0] is None
    assert changes["gone"][1].tombstone


async def test_a_difference_backwards_is_the_same_with_the_sides_swapped(db, line):
    forwards, backwards = await diff(db, line, 1, 3), await diff(db, line, 3, 1)
    assert [(row.key, row.after, row.before) for row in backwards] == [
        (row.key, row.before, row.after) for row in forwards
    ]
    assert await diff(db, line, 2, 2) == []


async def test_a_difference_comes_by_pages(db, line):
    first = await diff(db, line, 1, 3, limit=3)
    rest = await diff(db, line, 1, 3, limit=3, after_key=first[-1].key)
    assert building.keys([*first, *rest]) == ["a", "b", "gone", "moved"]


async def test_a_record_that_comes_into_sight_was_absent_before(db, line):
    changes = {row.key: row for row in await diff(db, line, 1, 3, scopes=["shared"])}
    assert changes["moved"].before is None
    assert changes["moved"].after is not None
    assert [row.key for row in await diff(db, line, 1, 3, scopes=["team"])] == ["moved"]


async def test_live_records_are_counted_by_scope(db, line):
    async with db.connection() as conn:
        assert await records.count(conn, line=line, generation=3, scopes=ALL) == 4
        assert await records.count(conn, line=line, generation=3, scopes=["team"]) == 1


async def test_a_pruned_generation_is_gone_and_never_a_short_page(db, line):
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", line)
        for ask in (
            records.read(conn, line=line, generation=1, key="a", scopes=ALL),
            records.page(conn, line=line, generation=1, limit=5, scopes=ALL),
            records.current_of(conn, line=line, generation=1, keys=["a"]),
            records.current_of(conn, line=line, generation=1, keys=[]),
            diffs.page(conn, line=line, from_generation=1, to_generation=3, limit=5, scopes=ALL),
            diffs.page(conn, line=line, from_generation=3, to_generation=1, limit=5, scopes=ALL),
            records.count(conn, line=line, generation=1, scopes=ALL),
        ):
            with pytest.raises(GoneError):
                await ask


async def test_a_version_that_ended_is_absent_from_then_on(db, line):
    """What a purge of tombstones leaves: an interval without a successor."""
    async with db.connection() as conn:
        await conn.execute(
            "UPDATE record_versions SET to_generation = 3 WHERE line = $1 AND key = 'b' AND from_generation = 2", line
        )
        assert (await records.current_of(conn, line=line, generation=2, keys=["b"])).keys() == {"b"}
        assert await records.current_of(conn, line=line, generation=3, keys=["b"]) == {}
    assert (await read(db, line, "b", 2))[1].body == b"2"
    assert (await read(db, line, "b", 3))[1] is None
    assert "b" not in building.keys((await page(db, line)).records)
    assert "b" not in building.keys(await diff(db, line, 1, 3))


async def test_a_generation_or_line_that_never_was_is_not_found(db, line):
    async with db.connection() as conn:
        for asked, generation in ((line, 4), (line, 0), (new_line_id(), 1), (new_line_id(), None)):
            with pytest.raises(NotFoundError):
                await records.page(conn, line=asked, generation=generation, limit=5, scopes=ALL)
        with pytest.raises(NotFoundError):
            await diffs.page(conn, line=new_line_id(), from_generation=1, to_generation=1, limit=5, scopes=ALL)


async def test_lines_do_not_see_each_other(db, line):
    other = await building.new_line(db, name="other")
    await building.import_records(db, other, {"a": "other", "z": "other"})
    assert (await read(db, other, "a"))[1].body == b'"other"'
    assert building.keys((await page(db, other)).records) == ["a", "z"]
    assert "z" not in building.keys((await page(db, line)).records)
