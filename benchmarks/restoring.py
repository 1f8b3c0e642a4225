"""How long a restore that changes 200,000 keys holds the head's lock, and how long publications wait for it.

The lock is asked for by another client every two milliseconds, without waiting: the longest time in which it was always
refused is how long it was held. In a second restore somebody publishes twice a second, who comes back at once whenever
the restore turns him away: that tells how long a publication waits at most, and what a busy line costs the restore.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import asyncpg

from anabranch.store import lines, publish, restoring
from benchmarks.measure import Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from benchmarks import stage

NAME = "restore"
RECORDS, KEYS, QUICK, QUICK_KEYS = 1_000_000, 200_000, 5_000, 1_000
AT_ONCE = 10_000
HELD = 2.0
PROBE_SECONDS, AGAIN_SECONDS, PACE_SECONDS = 0.002, 0.02, 0.5
PROBE = "SELECT FROM line_heads WHERE line = $1 FOR NO KEY UPDATE NOWAIT"


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Change many keys, then restore what was before, twice."""
    line = await place.line(QUICK if quick else RECORDS)
    keys = QUICK_KEYS if quick else KEYS
    before = await head(line)
    await change(line, keys)
    changed = await head(line)
    async with beside(lambda tell: probe(line, tell)) as refused:
        calm = await restored(line, before, "calm")
    async with beside(lambda tell: keep_publishing(line, tell)) as waited:
        busy = await restored(line, changed, "busy")
    held = max(refused, default=0.0)
    return [
        Row(
            name=NAME,
            work=f"restore that changes {keys:,} of {line.records:,} keys",
            peer="-",
            bar=f"head lock held ≤ {HELD:.0f} s",
            reached=held <= HELD,
            figures={
                "lock_held_s": held,
                "restore_s": calm,
                "restore_s_beside_publications": busy,
                "publication_waits_s_at_most": max(waited, default=0.0),
                "publications": len(waited),
            },
        )
    ]


async def change(line: stage.Line, keys: int) -> None:
    """Publish new contents of so many records, each once."""
    numbers = line.chance.sample(range(line.records), keys)
    for start in range(0, keys, AT_ONCE):
        await line.write(line.versions_of(numbers[start : start + AT_ONCE]))


async def head(line: stage.Line) -> int:
    async with line.db.connection() as conn:
        return (await lines.head(conn, line.line)).head_generation


async def restored(line: stage.Line, generation: int, restore_id: str) -> float:
    began = time.perf_counter()
    await restoring.restore(line.db, line=line.line, generation=generation, restore_id=restore_id)
    return time.perf_counter() - began


@contextlib.asynccontextmanager
async def beside(work: Callable[[list[float]], Coroutine[None, None, None]]) -> AsyncIterator[list[float]]:
    """Run something until the block ends; what it tells."""
    told: list[float] = []
    task = asyncio.create_task(work(told))
    try:
        yield told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def probe(line: stage.Line, told: list[float]) -> None:
    """Ask for the head's lock all the time; tells each time for how long it was refused, in s."""
    since = None
    async with line.db.connection() as conn:
        await conn.execute("SET synchronous_commit = off")
        while True:
            try:
                await conn.execute(PROBE, line.line)
            except asyncpg.LockNotAvailableError:
                since = since or time.perf_counter()
            else:
                if since:
                    told.append(time.perf_counter() - since)
                since = None
            await asyncio.sleep(PROBE_SECONDS)


async def keep_publishing(line: stage.Line, told: list[float]) -> None:
    """Publish a change now and then; tells each time how long that took, in s, with all attempts."""
    while True:
        new = line.versions(1)
        began = time.perf_counter()
        while True:
            with contextlib.suppress(publish.HeadMovedError, publish.RestoreUnderWayError):
                await line.write(new)
                break
            await asyncio.sleep(AGAIN_SECONDS)
        told.append(time.perf_counter() - began)
        await asyncio.sleep(PACE_SECONDS)
