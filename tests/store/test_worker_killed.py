"""A worker is killed at any moment, again and again: no acknowledged write is lost, and no event is applied twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter
from pathlib import Path

from tests.store.building import version
from tests.store.working import contents
from tests.store.world import AGENTS

from anabranch.model.objects import Receipt

ROUNDS = 4
ROOT = Path(__file__).parents[2]


async def until_killed(place, *, first, seconds):
    """What a worker had acknowledged when it was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.store.killed_worker",
        str(place.folder / "run.db"),
        place.served.url,
        str(first),
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
    )
    said = [await process.stdout.readline()]  # from here on it works
    await asyncio.sleep(seconds)
    process.kill()
    said += (await process.stdout.read()).splitlines(keepends=True)
    assert await process.wait() == -9
    return [line.decode().split() for line in said if line.endswith(b"\n")]


async def test_nothing_acknowledged_is_lost_and_nothing_happens_twice(place):
    chance = random.Random(20_261_130)
    written, submitted, published = {}, {}, {}
    first = 1
    worker = await place.open()
    await worker.sync()
    await worker._file.write(count_applied)
    await place.close(worker)
    for round_ in itertools.count():
        if round_ >= ROUNDS and submitted:  # a machine that is busy elsewhere may let one be killed too soon
            break
        others = asyncio.create_task(publish(place, published, round_))
        for what, where, number in await until_killed(place, first=first, seconds=chance.uniform(0.1, 0.6)):
            (written if what == "wrote" else submitted)[int(where)] = int(number)
            first = max(first, int(number) + 1)
        await others

    worker = await place.open()
    own = {int(key.removeprefix("mine/")): value for key, value in (await contents(worker, prefix="mine/")).items()}
    # The one write that was under way when it was killed may have happened, too.
    assert all(number <= own[at] <= first and own[at] % 40 == at for at, number in written.items())
    await worker.sync()
    status = await worker.status()
    assert (status.waiting, status.unsaved, status.refused) == (0, 0, 0)

    # What the API has is what is here: each batch at its place, once, and the private records as last written.
    client, branch = worker._client, status.branch_id
    batches = [one.sequence async for one in client.batches(AGENTS, branch)]
    assert batches == list(range(1, len(batches) + 1))
    assert set(submitted) <= set(batches)
    assert isinstance(await worker.outcome(max(submitted)), Receipt)
    async with place.served.world.db.connection() as conn:
        bodies = [row["body"] for row in await conn.fetch("SELECT body FROM batches ORDER BY sequence")]
    for sequence, number in submitted.items():
        assert b'"key":"found/%d"' % number in bodies[sequence - 1]
    found = Counter(body.split(b'"key":"found/')[1].split(b'"')[0] for body in bodies)
    assert max(found.values()) <= 2, "only a batch that was not acknowledged is made again"
    kept = {record.key: record.content async for record in client.private_records(AGENTS, branch)}
    assert kept == await contents(worker, prefix="mine/")

    # And every event was applied once, in order.
    assert await contents(worker, prefix="theirs/") == published
    applied = await worker._file.read(lambda db: [tuple(row) for row in db.execute("SELECT seen, times FROM applied")])
    assert applied == [(sequence, 1) for sequence in range(1, status.applied_sequence + 1)]


def count_applied(db):
    """Lets the file itself count how often each event is applied, in the transaction that applies it."""
    db.execute("CREATE TABLE applied (seen INTEGER PRIMARY KEY, times INTEGER NOT NULL)")
    db.execute(
        "CREATE TRIGGER count_applied AFTER UPDATE OF applied ON run BEGIN"
        " INSERT INTO applied VALUES (new.applied, 1) ON CONFLICT (seen) DO UPDATE SET times = times + 1; END"
    )


async def publish(place, published, round_):
    for step in range(4):
        key = f"theirs/{step}"
        published[key] = [round_, step]
        await place.publish(version(key, [round_, step]))
        await asyncio.sleep(0.1)
