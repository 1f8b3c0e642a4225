"""However much is published, the tables stay as large as what is promised to be kept."""

from __future__ import annotations

import random

from tests.store import building, retaining
from tests.store.building import version
from tests.store.retaining import NOW, check, retain, rubbish, sizes

KEYS = 300
KEPT = 20


async def publish(db, line, count, chance):
    """Generations of five changes: new content mostly, at times what was there before, at times deletions."""
    for number in range(count):
        new = {}
        for key in chance.sample(range(KEYS), 5):
            content = None if chance.random() < 0.1 else chance.randrange(1_000_000 if chance.random() < 0.8 else 3)
            new[key] = version(f"k{key}", content, run=f"{number} {chance.random()}")
        await building.publish_versions(db, line, *new.values())


async def test_four_hundred_publications_leave_the_tables_as_large_as_one_hundred(db):
    chance = random.Random(1)
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": number for number in range(KEYS)})
    rows = []
    for _ in range(16):
        await publish(db, line, 25, chance)
        await retain(db, line, generations=KEPT, tombstones=NOW)
        rows.append(await sizes(db, line))
    early, late = rows[3], rows[-1]
    assert late["manifests"] == early["manifests"] == KEPT
    assert {table: count for table, count in late.items() if count > 1.15 * early[table] + 10} == {}
    # Every record once, and again for each change that a kept generation shows.
    assert late["record_versions"] <= KEYS + 5 * (KEPT + 1)
    await check(db, line)
    assert await rubbish(db, line) == {}


async def test_what_was_changed_before_retention_was_asked_for_goes_as_well(db):
    chance = random.Random(2)
    line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number}": number for number in range(KEYS)})
    await publish(db, line, 150, chance)
    await retain(db, line, generations=KEPT)
    assert (await sizes(db, line))["record_versions"] <= KEYS + 5 * (KEPT + 1)
    assert await retaining.generations(db, line) == list(range(132, 152))
    await check(db, line)
    assert await rubbish(db, line) == {}
