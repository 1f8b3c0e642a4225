"""Does a line stay as small and as fast after thousands of publications as it was after a hundred?

Publishes to a line, with retention taking its turns beside it, and tells at some points how large the tables are and
how long a publication takes. That is compared, in turn and in the same moment, with a young line of the same size on
the same server: a ratio holds on a noisy machine where a time does not. Promises end at once here (only generations are
counted), so that five thousand publications in some minutes leave as much to remove as five thousand in a year.

    python benchmarks/growth.py                      # on a Postgres of its own, for some minutes
    ANABRANCH_DSN=postgresql://… python benchmarks/growth.py --publications 1000
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
import statistics
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import click

from anabranch.baselines import retention
from anabranch.devcluster import choose, databases, ephemeral
from anabranch.devcluster.postgres import with_database
from anabranch.domain.facts import Fact
from anabranch.domain.retention import RetentionPolicy
from anabranch.store import importing, lines, migrate, publish
from anabranch.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
OWNER = "benchmark"


@dataclass
class Line:
    """A line that is published to.

    Attributes:
        line: Its id.
        chance: Which records change, and to what.
        times: How long each publication took, in ms.
    """

    line: str
    chance: random.Random
    times: list[float] = field(default_factory=list)


@click.command()
@click.option("--records", default=10_000, show_default=True, help="Records of the line.")
@click.option("--changes", default=100, show_default=True, help="Changes of a publication.")
@click.option("--publications", default=5_000, show_default=True, help="How many.")
@click.option("--generations", default=50, show_default=True, help="How many are kept.")
@click.option("--every", default=100, show_default=True, help="Publications between two turns of retention.")
@click.option("--without", is_flag=True, help="Without retention, to see what it is for.")
def main(records: int, changes: int, publications: int, generations: int, every: int, *, without: bool) -> None:
    """Publish, and tell how the line grows."""
    run = Growth(records=records, changes=changes, generations=generations, every=None if without else every)
    with ephemeral.folder("anabranch-benchmark-") as folder:
        server = choose.postgres_server(folder / "postgres", durable=True)
        try:
            asyncio.run(run.on(server.dsn, publications))
        finally:
            server.stop()


class Growth:
    """The benchmark."""

    def __init__(self, *, records: int, changes: int, generations: int, every: int | None) -> None:
        self.records = records
        self.changes = changes
        self.every = every
        now = timedelta()
        self.policy = RetentionPolicy(
            generations=generations, age=now, events=now, completed_runs=now, tombstones=now, transitions=now
        )

    async def on(self, server: str, publications: int) -> None:
        """Publish, and report after 100, 1,000 and all publications."""
        points = sorted({point for point in (YOUNG, 1_000, publications) if point <= publications})
        report_head()
        async with opened(server) as db:
            old = await self.new_line(db, seed=1)
            for point in points:
                while len(old.times) < point:
                    await self.publish_with_retention(db, old, min(self.every or point, point - len(old.times)))
                async with opened(server) as another:
                    ratios = await self.compare(db, old, another, seed=point)
                took = await self.retain(db, old) if self.every else 0
                await report(db, old, point=point, ratios=ratios, took=took)

    async def compare(self, db: Database, old: Line, another: Database, *, seed: int) -> list[float]:
        """How much longer a publication takes than in a young line: a ratio of medians for each round."""
        young = await self.new_line(another, seed=seed)
        await self.publish_with_retention(another, young, YOUNG)
        # The first change of a page after a checkpoint costs more: let both begin with the same.
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
            async with db.connection() as conn:
                await conn.execute("CHECKPOINT")
        ratios = []
        for _ in range(ROUNDS):
            before = len(old.times), len(young.times)
            for _ in range(PER_ROUND):
                await self.publish(db, old)
                await self.publish(another, young)
            ratios.append(statistics.median(old.times[before[0] :]) / statistics.median(young.times[before[1] :]))
        return ratios

    async def publish_with_retention(self, db: Database, line: Line, count: int) -> None:
        """Publish so often, while retention removes what those before have left."""
        turn = asyncio.create_task(self.retain(db, line)) if self.every else None
        for _ in range(count):
            await self.publish(db, line)
        if turn:
            await turn

    async def retain(self, db: Database, line: Line) -> float:
        """Turns of retention until nothing is left to remove; how long they took, in s."""
        began = time.perf_counter()
        while await retention.retain(db, line=line.line, policy=self.policy):
            pass
        return time.perf_counter() - began

    async def new_line(self, db: Database, *, seed: int) -> Line:
        chance = random.Random(seed)

        async def records() -> AsyncIterator[importing.ImportRecord]:
            for number in range(self.records):
                body = content(chance)
                yield importing.ImportRecord(
                    key=key(number),
                    scope="shared",
                    content_hash=hashlib.sha256(body).digest(),
                    content_body=body,
                    fact_body=Fact(source_locators=(f"import:{number % 100}.md@sha256:{'0' * 64}",)).canonical(),
                )

        async with db.transaction() as conn:
            state = await lines.adopt_or_create(
                conn, namespace="bench", namespace_uid="n", name=f"line-{seed}", uid=f"uid-{seed}"
            )
        await importing.import_first(
            db, line=state.line.line, records=records(), origin={"kind": "import"}, import_digest=None
        )
        return Line(state.line.line, chance)

    async def publish(self, db: Database, line: Line) -> None:
        """One publication, as the service does it."""
        new = []
        for number in line.chance.sample(range(self.records), self.changes):
            body = content(line.chance)
            fact = Fact(origin_runs=(f"run_{line.chance.getrandbits(64):x}",))
            new.append(
                publish.NewVersion(
                    key=key(number),
                    scope="shared",
                    content_hash=hashlib.sha256(body).digest(),
                    content_body=body,
                    fact_body=fact.canonical(),
                )
            )
        events = [
            publish.NewEvent(kind="published", scope=one.scope, key=one.key, content_hash=one.content_hash)
            for one in new
        ]
        began = time.perf_counter()
        async with db.connection() as conn:
            prepared = await publish.prepare(conn, head=await lines.head(conn, line.line), versions=new)
        async with db.transaction() as conn:
            head = await lines.lock_head(conn, line.line)
            await publish.write_generation(
                conn, head=head, prepared=prepared, events=events, origin={"kind": "publication"}
            )
        line.times.append((time.perf_counter() - began) * 1e3)


def key(number: int) -> str:
    return f"platform/topic-{number % 997}/note-{number}"


def content(chance: random.Random) -> bytes:
    return b'{"note":"%x, and some words that make it as long as a short note is"}' % chance.getrandbits(256)


@contextlib.asynccontextmanager
async def opened(server: str) -> AsyncIterator[Database]:
    """A migrated database of its own."""
    name = f"growth_{secrets.token_hex(4)}"
    await databases.create(server, name, owner=OWNER)
    try:
        dsn = with_database(server, name)
        await migrate.upgrade(dsn)
        db = await Database.open(dsn, application_name="benchmark")
        try:
            yield db
        finally:
            await db.close()
    finally:
        await databases.drop(server, name)


def report_head() -> None:
    columns = f"{'after':>6} {'ms p50':>7} {'p95':>6} {'old : young':>17} {'turn s':>6} {'MB':>5}"
    print(columns + "".join(f"{title:>10}" for title in TABLES))


async def report(db: Database, line: Line, *, point: int, ratios: list[float], took: float) -> None:
    """A row of the table: times of the last hundred publications, ratios, time of the last turn, sizes and rows."""
    last = sorted(line.times[-YOUNG:])
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    async with db.connection() as conn:
        size = await conn.fetchval("SELECT pg_database_size(current_database())")
        rows = [
            await conn.fetchval(f"SELECT count(*) FROM {table} WHERE line = $1", line.line) for table in TABLES.values()
        ]
    times = f"{statistics.median(last):>7.1f} {last[int(len(last) * 0.95)]:>6.1f}"
    columns = f"{point:>6} {times} {ratio:>17} {took:>6.2f} {size / 1e6:>5.0f}"
    print(columns + "".join(f"{count:>10,}" for count in rows), flush=True)


if __name__ == "__main__":
    main()
