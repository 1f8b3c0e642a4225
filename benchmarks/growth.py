"""Does a line stay as small and as fast after thousands of publications as it was after a hundred?

Publishes to a line, with retention taking its turns beside it, and compares how long a publication takes, in turn and
in the same moment, with a young line of the same size on the same server. Promises end at once here (only generations
are counted), so that five thousand publications in some minutes leave as much to remove as five thousand in a year.

By itself it also tells at some points how large the tables are:

    python -m benchmarks.growth                      # on a Postgres of its own, for some minutes
    ANABRANCH_DSN=postgresql://… python -m benchmarks.growth --publications 1000
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from anabranch.baselines import retention
from anabranch.domain.retention import RetentionPolicy
from benchmarks import stage
from benchmarks.measure import Comparison, Row

if TYPE_CHECKING:
    from benchmarks.stage import Line, Stage

NAME = "growth"
TABLES = {
    "versions": "record_versions",
    "nodes": "trie_nodes",
    "contents": "contents",
    "facts": "facts",
    "events": "events",
    "kept": "manifests",
    "names": "pruned_manifests",
}
YOUNG = 100
ROUNDS = 5
PER_ROUND = 20
RATIO = 1.2


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Compare a line after many publications with one after a hundred."""
    growth = Growth(records=1_000, changes=10, generations=10, every=50) if quick else Growth()
    publications = 200 if quick else 5_000
    old = Aging(await place.new_line(growth.records))
    await growth.age(old, publications)
    found = await growth.compare(place, old)
    rows = await growth.rows(old)
    return [
        Row(
            name=NAME,
            work=f"publish {growth.changes} changes after {publications:,} publications, retention on",
            peer=f"the same after {YOUNG}",
            bar=f"≤ {RATIO}x",
            ratio=found.ratio,
            spread=found.spread,
            reached=found.ratio <= RATIO,
            figures={
                "ms": statistics.median(found.ours),
                "peer_ms": statistics.median(found.peer),
                "kept_manifests": rows["kept"],
                "versions": rows["versions"],
            },
        )
    ]


@click.command()
@click.option("--records", default=10_000, show_default=True, help="Records of the line.")
@click.option("--changes", default=100, show_default=True, help="Changes of a publication.")
@click.option("--publications", default=5_000, show_default=True, help="How many.")
@click.option("--generations", default=50, show_default=True, help="How many are kept.")
@click.option("--every", default=100, show_default=True, help="Publications between two turns of retention.")
@click.option("--without", is_flag=True, help="Without retention, to see what it is for.")
def main(records: int, changes: int, publications: int, generations: int, every: int, *, without: bool) -> None:
    """Publish, and tell how the line grows."""
    growth = Growth(records=records, changes=changes, generations=generations, every=None if without else every)
    asyncio.run(growth.told(publications))


@dataclass
class Aging:
    """A line that is published to, and how long each publication took, in ms."""

    line: Line
    times: list[float] = field(default_factory=list)


class Growth:
    """How a line is published to, and what is kept of it."""

    def __init__(
        self, *, records: int = 10_000, changes: int = 100, generations: int = 50, every: int | None = 100
    ) -> None:
        self.records = records
        self.changes = changes
        self.every = every
        now = timedelta()
        self.policy = RetentionPolicy(
            generations=generations, age=now, events=now, completed_runs=now, tombstones=now, transitions=now
        )

    async def told(self, publications: int) -> None:
        """Publish, and print a line of figures after 100, 1,000 and all publications."""
        points = sorted({point for point in (YOUNG, 1_000, publications) if point <= publications})
        columns = f"{'after':>6} {'ms p50':>7} {'p95':>6} {'old : young':>17} {'turn s':>6} {'MB':>5}"
        print(columns + "".join(f"{title:>10}" for title in TABLES))
        async with stage.opened() as place:
            old = Aging(await place.new_line(self.records))
            for point in points:
                await self.age(old, point)
                found = await self.compare(place, old)
                took = await self.retain(old) if self.every else 0
                await self._print(old, point=point, found=found, took=took)

    async def age(self, old: Aging, publications: int) -> None:
        """Publish until there were so many, with retention beside it."""
        while len(old.times) < publications:
            count = min(self.every or publications, publications - len(old.times))
            turn = asyncio.create_task(self.retain(old)) if self.every else None
            for _ in range(count):
                await self.publish(old)
            if turn:
                await turn

    async def compare(self, place: Stage, old: Aging) -> Comparison:
        """How long a publication takes in the old line and in a young one: medians in ms, in turn."""
        young = Aging(await place.new_line(self.records))
        await self.age(young, YOUNG)
        # The first change of a page after a checkpoint costs more: let both begin with the same.
        await place.checkpoint()
        found = Comparison([], [])
        for _ in range(ROUNDS):
            before = len(old.times), len(young.times)
            for _ in range(PER_ROUND):
                await self.publish(old)
                await self.publish(young)
            found.ours.append(statistics.median(old.times[before[0] :]))
            found.peer.append(statistics.median(young.times[before[1] :]))
        return found

    async def retain(self, old: Aging) -> float:
        """Turns of retention until nothing is left to remove; how long they took, in s."""
        began = time.perf_counter()
        while await retention.retain(old.line.db, line=old.line.line, policy=self.policy):
            pass
        return time.perf_counter() - began

    async def publish(self, old: Aging) -> None:
        """One publication."""
        new = old.line.versions(self.changes)
        began = time.perf_counter()
        await old.line.write(new)
        old.times.append((time.perf_counter() - began) * 1e3)

    async def rows(self, old: Aging) -> dict[str, int]:
        """How many rows the tables have."""
        async with old.line.db.connection() as conn:
            return {
                title: await conn.fetchval(f"SELECT count(*) FROM {table} WHERE line = $1", old.line.line)
                for title, table in TABLES.items()
            }

    async def _print(self, old: Aging, *, point: int, found: Comparison, took: float) -> None:
        last = sorted(old.times[-YOUNG:])
        least, most = found.spread
        ratio = f"{found.ratio:.2f} ({least:.2f}-{most:.2f})"
        async with old.line.db.connection() as conn:
            size = await conn.fetchval("SELECT pg_database_size(current_database())")
        times = f"{statistics.median(last):>7.1f} {last[int(len(last) * 0.95)]:>6.1f}"
        columns = f"{point:>6} {times} {ratio:>17} {took:>6.2f} {size / 1e6:>5.0f}"
        print(columns + "".join(f"{count:>10,}" for count in (await self.rows(old)).values()), flush=True)


if __name__ == "__main__":
    main()
