"""How long a publication of a hundred changes takes in a million records, next to one in ten thousand.

Both lines are on one server, in databases of their own, and both begin after a checkpoint: the first change of a page
after one costs more, and in a large line nearly each change is such a first one. What is timed is what the service
does: nodes fetched and hashed before the lock, then versions, nodes, manifest and events in one durable transaction.

What limits the ratio is the trie's depth. A hundred changes in ten thousand records rewrite 99 nodes, of 2.2 KB since
their records hang right below; in a million they rewrite 298, of 0.7 KB: as many bytes, in three times the rows, each
on a page of its own. Half of the difference is Postgres fetching, closing and inserting them (18 of 39 ms in
statements, next to 9 of 24), most of the rest is Python parsing and hashing them.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from benchmarks import stage

NAME = "publish"
LARGE, SMALL = 1_000_000, 10_000
QUICK_LARGE, QUICK_SMALL = 5_000, 1_000
CHANGES = 100
PER_ROUND, ROUNDS, QUICK_PER_ROUND = 20, 7, 3
RATIO = 1.5


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Publish to both lines in turn."""
    large, small = [await place.line(records) for records in ((QUICK_LARGE, QUICK_SMALL) if quick else (LARGE, SMALL))]
    times = QUICK_PER_ROUND if quick else PER_ROUND
    first = [await publication(large) for _ in range(times)]
    await timed(small, times)
    await place.checkpoint()
    found = await interleaved(lambda: timed(large, times), lambda: timed(small, times), rounds=1 if quick else ROUNDS)
    return [
        Row(
            name=NAME,
            work=f"publish {CHANGES} changes in {large.records:,} records",
            peer=f"the same in {small.records:,}",
            bar=f"≤ {RATIO}x",
            ratio=found.ratio,
            spread=found.spread,
            reached=found.ratio <= RATIO,
            figures={
                "ms": statistics.median(found.ours),
                "peer_ms": statistics.median(found.peer),
                "ms_of_the_first": statistics.median(first),
                "ms_at_most_of_the_first": max(first),
            },
        )
    ]


async def timed(line: stage.Line, times: int = PER_ROUND) -> float:
    """The median of some publications, in ms."""
    return statistics.median([await publication(line) for _ in range(times)])


async def publication(line: stage.Line) -> float:
    """How long one takes, in ms."""
    new = line.versions(CHANGES)
    began = time.perf_counter()
    await line.write(new)
    return (time.perf_counter() - began) * 1e3
