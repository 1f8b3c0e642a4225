"""Counters of quality are what the records say, at each generation, whatever made it and whoever dies counting it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.store import building
from tests.store.building import version
from tests.store.served import serving
from tests.store.world import AUTOMATIC, TEAM, World, decisions

from anabranch.domain import quality as domain
from anabranch.domain.facts import Fact
from anabranch.identity import grants
from anabranch.model.canonical import canonical_bytes
from anabranch.quality import counting, reading
from anabranch.store import lines, publish, quality, restoring

NOW = datetime.now(UTC)


async def counted(db):
    """Count all lines up to their heads; how many turns that took."""
    turns = 0
    while await counting.turn(db, every=timedelta()):
        turns += 1
    return turns


def fact(key, content, *, scope="shared", age=None, sources=()):
    """A version that was validated so many days ago."""
    validated = None if age is None else NOW - timedelta(days=age)
    body = canonical_bytes(content)
    return publish.NewVersion(
        key=key,
        scope=scope,
        content_hash=building.digest(content),
        content_body=body,
        fact_body=Fact(source_locators=tuple(sources), validated_at=validated).canonical(),
    )


def test_a_record_is_not_verified_whose_source_was_withdrawn():
    fact = Fact(source_locators=("record:a@1",), validated_at=datetime(2026, 11, 30, tzinfo=UTC))
    marked = replace(fact, retracted_sources=fact.source_locators)
    assert [domain.Counts.of(one).verified for one in (fact, marked)] == [1, 0]
    assert [domain.Counts.of(one).sourced for one in (fact, marked)] == [1, 1]


async def recounted(db, line, generation):
    """What the records of a generation say, counted one by one."""
    async with db.connection() as conn:
        rows = await conn.fetch(
            """
            SELECT r.scope, f.body FROM record_versions AS r JOIN facts AS f USING (line, fact_hash)
            WHERE r.line = $1 AND r.from_generation <= $2 AND r.to_generation > $2 AND NOT r.tombstone
            """,
            line,
            generation,
        )
    found = {}
    for row in rows:
        counts = found.setdefault(row["scope"], {"records": 0, "sourced": 0, "verified": 0, "weeks": Counter()})
        one = Fact.parse(row["body"])
        imported = any(locator.startswith("import:") for locator in one.source_locators)
        counts["records"] += 1
        counts["sourced"] += bool(one.source_locators)
        counts["verified"] += (
            bool(one.source_locators) and (imported or one.validated_at is not None) and not one.retracted_sources
        )
        if one.validated_at is not None:
            counts["weeks"][domain.week(one.validated_at)] += 1
    return found


async def kept(db, line, generation):
    async with db.connection() as conn:
        found = await quality.counts(conn, line=line, generation=generation)
    return {
        scope: {"records": one.records, "sourced": one.sourced, "verified": one.verified, "weeks": one.weeks}
        for scope, one in found.items()
        if one.records
    }


async def test_each_generation_has_what_its_records_say_however_many_are_counted_at_once(db):
    chance = random.Random(5)
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{n}": n for n in range(30)}, scopes={"k1": "team/build"})
    assert await counted(db) == 1
    keys = [f"k{n}" for n in range(40)]
    for number in range(25):
        changes = [
            version(key)
            if chance.random() < 0.3
            else fact(
                key,
                chance.random(),
                scope=chance.choice(["shared", "team/build", "team/run"]),
                age=chance.choice([0, 5, 40, 500]),
                sources=chance.choice([(), ("git:a@b:c",)]),
            )
            for key in chance.sample(keys, 8)
        ]
        await building.publish_versions(db, line, *changes)
        if number % 7 == 0:
            await counted(db)
    await restoring.restore(db, line=line, generation=3, restore_id="back")
    await building.publish_versions(db, line, version("k0", "again"))
    await counted(db)
    for generation in range(1, 29):
        assert await kept(db, line, generation) == await recounted(db, line, generation), generation


async def test_a_line_that_was_never_counted_is_counted_from_its_head_on(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 2})
    await building.publish_versions(db, line, version("a"))
    await counted(db)
    async with db.connection() as conn:
        told = [(await quality.told(conn, line=line, generation=g)).counted for g in (1, 2, 3)]
    assert told == [False, True, False]
    assert await kept(db, line, 2) == await recounted(db, line, 2)


async def test_much_is_counted_from_the_records(db, monkeypatch):
    monkeypatch.setattr(counting, "_MUCH", 3)
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    await counted(db)
    await building.publish_versions(db, line, *(version(f"n{n}", n) for n in range(4)))
    await counted(db)
    async with db.connection() as conn:
        assert [(await quality.told(conn, line=line, generation=g)).counted for g in (1, 2)] == [False, True]
    assert await kept(db, line, 2) == await recounted(db, line, 2)


async def test_counters_that_do_not_add_up_are_made_anew(db):
    """Retention may remove a version before anybody has counted that it ended."""
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 2})
    await counted(db)
    await building.publish_versions(db, line, version("a", 3))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM record_versions WHERE line = $1 AND key = 'a' AND from_generation = 1", line)
    await counted(db)
    assert await kept(db, line, 2) == await recounted(db, line, 2)


async def test_who_dies_while_counting_leaves_the_line_as_it_was(db, monkeypatch):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    await counted(db)
    await building.publish_versions(db, line, version("b", 2))

    async def killed(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(counting.lines, "touch", killed)
        with pytest.raises(ZeroDivisionError):
            await counting.turn(db, every=timedelta())
    assert await kept(db, line, 2) == await kept(db, line, 1), "nothing of it is there"
    await counted(db)
    assert await kept(db, line, 2) == await recounted(db, line, 2)


async def test_a_line_that_fails_does_not_hold_up_another(db, monkeypatch):
    first, second = [await building.new_line(db, name=name, uid=name) for name in ("one", "two")]
    for line in (first, second):
        await building.import_records(db, line, {"a": 1})
    count = counting._count

    async def failing(conn, progress):
        if progress.line == first:
            raise ZeroDivisionError
        await count(conn, progress)

    monkeypatch.setattr(counting, "_count", failing)
    for _ in range(2):
        try:
            await counting.turn(db, every=timedelta())
        except ZeroDivisionError:
            continue
    assert await kept(db, second, 1)
    assert not await kept(db, first, 1)


async def test_a_line_is_not_counted_all_the_time(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    assert not await counting.turn(db), "whoever imports it counts it, and tells of both at once"
    await counting.begin(db, namespace="team", name="facts")
    assert await kept(db, line, 1) == await recounted(db, line, 1)
    await building.publish_versions(db, line, version("b", 2))
    await counting.begin(db, namespace="team", name="facts")
    assert not await counting.turn(db), "a moment ago"
    assert await kept(db, line, 2) == await kept(db, line, 1)
    assert await counting.turn(db, every=timedelta())


async def test_a_baseline_without_a_manifest_has_nothing_to_count(db):
    await building.new_line(db)
    await counting.begin(db, namespace="team", name="facts")
    await counting.begin(db, namespace="team", name="none")
    async with db.connection() as conn:
        assert not await conn.fetchval("SELECT count(*) FROM quality_progress")


async def test_counters_that_no_retained_generation_needs_are_forgotten(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1, "b": 2}, scopes={"b": "team/b"})
    for number in range(4):
        await counted(db)
        await building.publish_versions(db, line, fact("a", f"v{number}", age=7 * number))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation < 4", line)
    await counted(db)
    async with db.connection() as conn:
        rows = await conn.fetch("SELECT scope, generation FROM quality_counts WHERE line = $1", line)
    assert sorted(tuple(row) for row in rows) == [("shared", 4), ("shared", 5), ("team/b", 1)]
    assert await kept(db, line, 4) == await recounted(db, line, 4)


async def test_duplicates_are_counted_once_a_job_where_its_end_is_noted(db):
    world = World(db)
    state = await world.import_documents({"a": "one", "b": "two"}, **AUTOMATIC)
    await counted(db)
    run = await world.apply_branch("run")
    same = {"op": "put", "key": "n", "content": "new", "scope": "shared"}
    await world.submit(run, 1, same, same, {"op": "put", "key": "a", "content": "one", "scope": "shared", "base": 1})
    await world.work()
    known = await world.outcomes()
    expected = sum(outcome[0] == "duplicate" for outcomes in known.values() for outcome in outcomes)
    assert expected >= 1
    await counted(db)
    told = await reading.tell(db, line=state.line.line, ref=None, scopes=["shared"], history=5)
    assert told.duplicates_removed == expected
    assert (told.manifest.generation, told.total.records) == (2, 3)
    assert [point.generation for point in told.history] == [1]


async def test_duplicates_of_a_job_that_is_reviewed_are_counted_once_too(db):
    world = World(db)
    line = (await world.import_documents({"a": "one"})).line.line
    run = await world.apply_branch("run")
    same = {"op": "put", "key": "n", "content": "new", "scope": "shared"}
    await world.submit(run, 1, same, same)
    await world.work()

    async def removed():
        return (await reading.tell(db, line=line, ref=None, scopes=[], history=0)).duplicates_removed

    assert await removed() == 0, "the job is not at its end"
    (job,) = await world.jobs()
    waiting = [row for row in await world.candidates(job) if row.state == "waiting"]
    await world.apply_job(
        job.name,
        generation=2,
        uid=job.uid or "",
        origin="Branch",
        branchRef={"namespace": "agents", "name": "run"},
        batches={"from": 1, "through": 1},
        reviews=[{"reviewer": "rita", "decisions": decisions(waiting)}],
    )
    await world.work()
    assert (await world.job(job.name)).state == "published"
    assert await removed() == 1


async def test_a_conflict_is_told_by_its_scope_until_it_is_decided(db):
    world = World(db)
    state = await world.import_documents({"a": "one"}, **AUTOMATIC)
    first, second = [await world.apply_branch(name) for name in ("first", "second")]
    for branch, content in ((first, "two"), (second, "three")):
        await world.submit(branch, 1, {"op": "put", "key": "a", "content": content, "scope": "shared", "base": 1})
        await world.work()
    await counted(db)

    async def told():
        found = await reading.tell(db, line=state.line.line, ref=None, scopes=["shared"], history=0)
        return found.open_conflicts, found.scopes[0].open_conflicts

    assert await told() == (1, 1)
    (job,) = [job for job in await world.jobs() if job.state == "awaiting_review"]
    await world.apply_job(
        job.name,
        generation=2,
        uid=job.uid or "",
        origin="Branch",
        branchRef={"namespace": "agents", "name": "second"},
        batches={"from": 1, "through": 1},
        reviews=[{"reviewer": "rita", "decisions": decisions(await world.candidates(job), "reject")}],
    )
    await world.work()
    assert await told() == (0, 0)


async def test_the_api_tells_totals_to_all_and_scopes_to_who_may_read_them(db, database):
    async with serving(db, database.api) as served:
        world = served.world
        await world.import_documents({"a": "one"}, **AUTOMATIC)
        client = await served.client()
        assert (await client.quality(TEAM, "facts")).total is None, "nobody has counted"
        await counted(db)
        told = await client.quality(TEAM, "facts")
        assert (told.total.records, told.total.sourced, told.total.verified) == (1, 1, 1)
        assert [one.scope for one in told.scopes] == ["shared"]
        assert told.total.ages.undated == 1
        world.permissions.deny(grants.SCOPE_READ, name="shared", account="eve")
        eve = await (await served.client("eve")).quality(TEAM, "facts")
        assert (eve.scopes, eve.total) == ((), told.total)
        spec = {"import": {"configMap": {"name": "facts"}}, "review": {"requireSources": False}}
        await world.apply_baseline(generation=2, **spec)
        assert (await client.quality(TEAM, "facts")).total.verified is None


async def test_a_line_that_is_given_up_is_not_counted(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    async with db.connection() as conn:
        await conn.execute("UPDATE lines SET condemned_at = now() WHERE line = $1", line)
    assert not await counting.turn(db, every=timedelta())


async def test_counting_has_the_status_written_again(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    async with db.connection() as conn:
        before = (await lines.get(conn, line)).line.version
    await counted(db)
    async with db.connection() as conn:
        assert (await lines.get(conn, line)).line.version > before
