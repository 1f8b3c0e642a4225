"""Whoever takes hold of a generation and whoever removes it: one of them comes first, and the other one is told."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import timedelta

import pytest
from tests.store import building, retaining
from tests.store.branching import blocked, fork
from tests.store.building import version
from tests.store.retaining import LONG, generations, retain

from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import contents, lines, pruning, records, restoring, versions

KEYS = 90


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": number for number in range(KEYS)})
    for number in range(5):
        await building.publish_versions(db, line, version(f"k{number}", "changed"))
    return line


async def test_a_fork_that_came_first_keeps_its_generation(db, line):
    async with db.transaction() as forking:
        branch = await fork(forking, line, generation=2)
        await asyncio.wait_for(retain(db, line), 30)  # it does not wait for the fork, but passes it over
        assert await generations(db, line) == [2, 5, 6]
    await retain(db, line)
    assert await generations(db, line) == [2, 5, 6]
    assert branch.parent_generation == 2
    await retaining.check(db, line)


async def test_a_fork_that_comes_second_waits_and_is_told(db, line):
    async with db.connection() as conn:
        async with db.transaction() as pruning_it:
            assert await pruning.drop(pruning_it, line=line, generations=[2]) == [2]
            forking = asyncio.create_task(fork(conn, line, generation=2))
            await blocked(db, forking)
        with pytest.raises(GoneError, match="Generation 2 was pruned"):
            await forking


async def test_a_fork_that_gave_up_leaves_its_generation_to_the_next_turn(db, line):
    async with db.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await fork(conn, line, generation=2)
        await retain(db, line)
        await transaction.rollback()
    assert 2 in await generations(db, line)
    await retain(db, line)
    assert await generations(db, line) == [5, 6]


async def test_a_prune_that_gives_up_lets_the_fork_have_its_generation(db, line):
    async with db.connection() as conn, db.connection() as other:
        transaction = conn.transaction()
        await transaction.start()
        await pruning.drop(conn, line=line, generations=[2])
        forking = asyncio.create_task(fork(other, line, generation=2))
        await blocked(db, forking)
        await transaction.rollback()
        assert (await forking).parent_generation == 2


async def test_a_run_that_began_after_the_prune_had_looked_keeps_its_generation(db, line):
    """The prune chooses first and locks then: what it chose is asked again with the locks held."""
    async with db.connection() as conn:
        chosen = await pruning.standings(conn, line=line, below=6, limit=10)
        await fork(conn, line, generation=2)
    async with db.transaction() as conn:
        assert await pruning.drop(conn, line=line, generations=[row.generation for row in chosen]) == [1, 3, 4]


async def test_a_pin_that_came_first_keeps_its_generation(db, line):
    async with db.connection() as conn:
        chosen = await pruning.standings(conn, line=line, below=6, limit=10)
    await building.move(db, line, to=2, kind="rollback", pinned=2)
    async with db.transaction() as conn:
        assert await pruning.drop(conn, line=line, generations=[row.generation for row in chosen]) == [1, 3, 4]


async def test_a_pin_that_comes_second_waits_and_is_told(db, line):
    async with db.transaction() as conn:
        await pruning.drop(conn, line=line, generations=[2])
        pinning = asyncio.create_task(building.move(db, line, to=2, kind="rollback", pinned=2))
        await blocked(db, pinning)
    with pytest.raises(GoneError, match="Generation 2 was removed"):
        await pinning
    assert (await retaining.head_of(db, line)).current_generation == 6


async def test_content_that_is_stored_again_while_it_is_removed_is_there_in_the_end(db, line):
    """A finding proposes what an old version said, at the moment in which the version's content goes."""
    bodies = {building.digest(1): b"1"}
    await building.publish_versions(db, line, version("k1", "again"), version("k2", "again"))
    async with db.transaction() as conn:
        await pruning.drop(conn, line=line, generations=[1, 2, 3, 4, 5])
    async with db.connection() as conn:
        await pruning.sweep_versions(conn, line=line, after=0, through=7)
    async with db.transaction() as conn:
        assert await pruning.release(conn, line=line, limit=1_000)
        storing = asyncio.create_task(store(db, line, bodies))
        await blocked(db, storing)
    await storing
    async with db.connection() as conn:
        assert await contents.get(conn, line=line, content_hash=building.digest(1)) == b"1"


async def test_content_that_somebody_stores_just_now_is_not_removed(db, line):
    bodies = {building.digest(1): b"1"}
    await building.publish_versions(db, line, version("k1", "again"))
    async with db.transaction() as storing:
        await contents.put_many(storing, line=line, bodies=bodies)
        await asyncio.wait_for(retain(db, line), 30)  # it passes over, and waits for nobody
    async with db.connection() as conn:
        assert await contents.get(conn, line=line, content_hash=building.digest(1)) == b"1"


async def test_provenance_that_somebody_stores_just_now_is_not_removed(db, line):
    once = version("k1", "with a run of its own", run="its own")
    await building.publish_versions(db, line, once)
    for number in range(3):
        await building.publish_versions(db, line, version("k1", f"later {number}"))
    async with db.transaction() as storing:
        await versions.add_facts(storing, line=line, bodies={once.fact_hash: once.fact_body})
        await asyncio.wait_for(retain(db, line), 30)
    async with db.connection() as conn:
        assert await records.facts(conn, line=line, hashes=[once.fact_hash]) == {once.fact_hash: once.fact_body}


async def store(db, line, bodies):
    async with db.transaction() as conn:
        await contents.put_many(conn, line=line, bodies=bodies)


async def test_a_hash_that_is_released_again_while_it_is_looked_at_is_looked_at_again(db, line):
    """Two turns at once: one looks at a content that a version has, while the other one removes that version."""
    for key in ("k1", "k2"):
        await building.publish_versions(db, line, version(key, "twice"))
    await building.publish_versions(db, line, version("k1", "once"))
    await retain(db, line)  # has released and looked at "twice", which k2 has
    async with db.connection() as conn:
        await conn.execute("INSERT INTO released_hashes VALUES ($1, $2)", line, building.digest("twice"))
    await building.publish_versions(db, line, version("k2", "once"))
    await building.publish_versions(db, line, version("k3", "once"))
    async with db.transaction() as conn:
        await pruning.drop(conn, line=line, generations=await old(db, line))
    async with db.transaction() as sweeping:
        for gap in await pruning.unswept(sweeping, line):
            await pruning.sweep_versions(sweeping, line=line, after=gap.after, through=gap.through)
        async with db.transaction() as looking:
            await pruning.release(looking, line=line, limit=1_000)
    await retain(db, line)
    assert await retaining.rubbish(db, line) == {}


async def old(db, line):
    return (await generations(db, line))[:-2]


@pytest.mark.parametrize("seed", range(3))
async def test_everybody_at_once(db, line, seed):
    """Publications, forks, ends of runs, restores and two turns of retention, all at the same time."""
    chance = random.Random(seed)
    refused = await asyncio.gather(
        publish(db, line, chance), fork_and_end(db, line, chance), restore(db, line, chance), prune(db, line, chance),
        prune(db, line, chance),
    )  # fmt: skip
    assert sum(refused) > 0
    await retain(db, line, completed_runs=LONG)
    await retaining.check(db, line)
    assert await retaining.rubbish(db, line) == {}
    async with db.connection() as conn:
        live = await conn.fetch("SELECT parent_generation FROM branches WHERE line = $1 AND phase = 'Active'", line)
    assert {row["parent_generation"] for row in live} <= set(await generations(db, line))


async def publish(db, line, chance):
    published = 0
    while published < 15:
        new = retaining.some_versions(chance, keys=KEYS, run=published)
        with contextlib.suppress(building.publish.RestoreUnderWayError):
            async with db.transaction() as conn:
                head = await lines.lock_head(conn, line)
                prepared = await building.publish.prepare(conn, head=head, versions=new)
                events = [building.event(one) for one in new]
                await building.publish.write_generation(conn, head=head, prepared=prepared, events=events, origin={})
            published += 1
    return 0


async def fork_and_end(db, line, chance):
    """How many forks were told that their generation is gone."""
    refused = 0
    for number in range(25):
        try:
            async with db.transaction() as conn:
                await fork(conn, line, name=f"run-{number}", generation=chance.randint(1, 12))
                await asyncio.sleep(chance.random() / 100)
        except GoneError:
            refused += 1
        except NotFoundError:
            pass  # it is still to come
        async with db.connection() as conn:
            await conn.execute("UPDATE branches SET phase = 'Completed' WHERE random() < 0.3")
    return refused


async def restore(db, line, chance):
    """How many restores were told that their generation is gone."""
    refused = 0
    for number in range(8):
        try:
            await restoring.restore(db, line=line, generation=chance.randint(1, 10), restore_id=str(number))
        except GoneError:
            refused += 1
        except NotFoundError:
            pass  # it is still to come
        await asyncio.sleep(chance.random() / 50)
    return refused


async def prune(db, line, chance):
    for _ in range(12):
        await retain(db, line, tombstones=timedelta(), completed_runs=LONG)
        await asyncio.sleep(chance.random() / 100)
    return 0
