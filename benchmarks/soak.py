"""An hour of mixed work on one installation: does memory creep, do tables bloat, does anything fail?

Eight agents fork, submit findings with evidence, complete their runs and fork again, in automatic mode; four readers
read records, search and page; four followers stream; and retention is so short that it removes all the while. They
pause between calls, so that what grows is not a queue. Operator and API are processes of their own, as installed.

The slope is that of a straight line through the resident memory, without the first quarter, in which caches fill. Its
interval (95 %) allows for samples that follow each other being alike. Dead and free space of the tables are Postgres'
own count (`pgstattuple`) at the end.

ANABRANCH_SOAK_MINUTES says how long.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import math
import os
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.client import AnabranchClient
from anabranch.devcluster import accounts, assembly
from anabranch.model.canonical import content_hash
from anabranch.model.errors import AnabranchError
from anabranch.model.objects import BranchManifest, Change, RunCompletion
from anabranch.model.requests import BranchRequest
from benchmarks.crowd import BASELINE, HOME, Crowd
from benchmarks.measure import Row
from benchmarks.sizes import running_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anabranch.devcluster.stack import Stack
    from benchmarks.stage import Stage

NAME: Final = "soak"
MINUTES, QUICK_MINUTES = 60.0, 0.25
AGENTS, READERS, FOLLOWERS = 8, 4, 4
BATCHES: Final = 10
"""Of a run."""

PAUSE_SECONDS: Final = 0.3
SAMPLES: Final = 120
WARM: Final = 0.25
"""Of the time: what is left out of the slope."""

RETENTION: Final = {
    "generations": 20, "age": "1m", "events": "2m", "completedRuns": "2m", "tombstones": "2m", "transitions": "2m",
}  # fmt: skip


@dataclass
class Load:
    """What goes on.

    Attributes:
        stack: What it goes on in.
        token: Of the agents, who are one ServiceAccount here.
        calls: How many of each kind were answered.
        failed: How many were not, by what was said.
        keys: Published ones, to be read.
    """

    stack: Stack
    token: str
    calls: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)

    async def agent(self, number: int) -> None:
        """One run after the other."""
        chance = random.Random(number)
        async with AnabranchClient(self.stack.api_url, token=self.token) as client:
            for run in itertools.count():
                await self._call("runs", functools.partial(self._run, client, f"soak-{number}-{run}", chance))

    async def reader(self, number: int) -> None:
        """Reads and searches."""
        chance = random.Random(-number)
        async with AnabranchClient(self.stack.api_url, token=self.token) as client:
            while True:
                await asyncio.sleep(PAUSE_SECONDS)
                word = f"word{chance.randrange(50)}"
                await self._call("searches", functools.partial(client.search, HOME, BASELINE, word, limit=5))
                if self.keys:
                    key = chance.choice(self.keys)
                    await self._call("reads", functools.partial(client.record, HOME, BASELINE, key))

    async def follower(self) -> None:
        """Follows from now on."""
        async with (
            AnabranchClient(self.stack.api_url, token=self.token) as client,
            contextlib.aclosing(client.follow(HOME, BASELINE, generation="current")) as events,
        ):
            async for item in events:
                if item.event is not None:
                    self.calls["events"] += 1
                    self.keys = [*self.keys[-500:], item.event.key] if item.event.key else self.keys

    async def _run(self, client: AnabranchClient, name: str, chance: random.Random) -> None:
        request = BranchRequest(name=name, baseline=BASELINE, ttl_after_finished=timedelta(minutes=1))
        made = await client.create_branch(HOME, request)
        while not isinstance(made, BranchManifest):
            await asyncio.sleep(PAUSE_SECONDS)
            made = await client.create_branch(HOME, request)
        for sequence in range(1, BATCHES + 1):
            await asyncio.sleep(PAUSE_SECONDS)
            locator = await client.put_evidence(HOME, made.branch_id, chance.randbytes(256))
            text = " ".join(f"word{chance.randrange(50)}" for _ in range(30))
            change = Change(
                key=f"soak/{name}/{sequence}", content=text, scope="shared", visibility="shareable"
            )  # fmt: skip
            await client.submit_batch(
                HOME, made.branch_id, sequence=sequence, changes=[change], sources=[[locator]], base_revisions=["0"]
            )
            self.calls["batches"] += 1
        completion = RunCompletion(
            run_id=made.run_id,
            branch_id=made.branch_id,
            agent_id=made.agent_id,
            baseline_id=made.parent_snapshot_id,
            last_submitted_sequence=BATCHES,
            delta_hash=content_hash([]),
        )
        await client.complete(HOME, made.branch_id, completion)

    async def _call(self, kind: str, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except AnabranchError as error:
            self.failed[f"{type(error).__name__}: {error.detail}"[:200]] += 1
            await asyncio.sleep(1)
        else:
            self.calls[kind] += 1


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Let it work, and look at it."""
    minutes = QUICK_MINUTES if quick else float(os.environ.get("ANABRANCH_SOAK_MINUTES", MINUTES))
    stack = await asyncio.to_thread(
        assembly.up, stage.folder / "stack", options=assembly.Options(durable=True, audit=True)
    )
    await asyncio.to_thread(_prepare, stack)
    life = timedelta(minutes=minutes + 30)
    token = await asyncio.to_thread(
        accounts.mint, stack.cluster, namespace=HOME, name="soaker", audience=stack.audience, life=life
    )
    load = Load(stack, token.value)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(load.agent(number)) for number in range(AGENTS)]
        tasks += [group.create_task(load.reader(number)) for number in range(READERS)]
        tasks += [group.create_task(load.follower()) for _ in range(FOLLOWERS)]
        points = await _sampled(stack, minutes)
        for task in tasks:
            task.cancel()
    settled = points[int(len(points) * WARM) :]
    slopes = {
        name: slope([point["minutes"] / 60 for point in settled], [point[f"{name}_mib"] for point in settled])
        for name in ("operator", "api")
    }
    for said, count in load.failed.most_common():
        print(f"{count} times {said}")
    return [
        Row(
            name=NAME,
            work=f"{minutes:g} minutes of mixed work: resident memory",
            peer="-",
            bar="no call fails",
            reached=not load.failed,
            figures={
                **{
                    f"{name}_mib_an_hour": f"{found:+.2f} ({found - wide:+.2f} to {found + wide:+.2f})"
                    for name, (found, wide) in slopes.items()
                },
                "failed_calls": load.failed.total(),
                **dict(sorted(load.calls.items())),
                **await _bloat(stack),
            },
            points=points,
        )
    ]


def slope(at: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Of the straight line through some values, and how far to either side it may be (95 %).

    Samples that follow each other are alike: there are as many of them as would tell as much if they were not.
    """
    found = statistics.linear_regression(at, values)
    errors = [value - (found.slope * place + found.intercept) for place, value in zip(at, values, strict=True)]
    spread = sum(error**2 for error in errors)
    if not spread:
        return found.slope, 0.0
    alike = sum(one * two for one, two in itertools.pairwise(errors)) / spread
    alike = min(max(alike, 0.0), 0.99)
    telling = max(len(at) * (1 - alike) / (1 + alike), 3.0)
    middle = statistics.fmean(at)
    width = sum((place - middle) ** 2 for place in at) * telling / len(at)
    return found.slope, 1.96 * math.sqrt(spread / len(at) * telling / (telling - 2) / width)


def _prepare(stack: Stack) -> None:
    Crowd(stack).home()
    stack.cluster.kubectl(
        "patch", "baseline", BASELINE, f"--namespace={HOME}", "--type=merge",
        f"--patch={json.dumps({'spec': {'retention': RETENTION}})}",
    )  # fmt: skip
    metadata = {"name": "soaker", "namespace": HOME}
    stack.cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}])


async def _sampled(stack: Stack, minutes: float) -> list[dict[str, float]]:
    """The memory of both processes, at equal distances."""
    pause = minutes * 60 / SAMPLES
    processes = {name: running_process(stack, name) for name in ("operator", "api")}
    began = time.monotonic()
    points = []
    for number in range(1, SAMPLES + 1):
        await asyncio.sleep(max(began + number * pause - time.monotonic(), 0))
        point = {"minutes": round((time.monotonic() - began) / 60, 3)}
        points.append(point | {f"{name}_mib": one.memory_info().rss / 2**20 for name, one in processes.items()})
    return points


async def _bloat(stack: Stack) -> dict[str, float | int | str]:
    """How much of the tables is dead or free, of all and of the one where most is."""
    conn = await asyncpg.connect(stack.admin_dsn)
    try:
        await conn.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
        rows = await conn.fetch(
            "SELECT relname, table_len, dead_tuple_len, free_space FROM pg_stat_user_tables,"
            " LATERAL pgstattuple(relid::regclass) WHERE table_len > 0 ORDER BY dead_tuple_len + free_space DESC"
        )
    finally:
        await conn.close()
    total = sum(row["table_len"] for row in rows)
    worst = rows[0]
    return {
        "tables_mib": round(total / 2**20, 1),
        "dead_percent": round(100 * sum(row["dead_tuple_len"] for row in rows) / total, 1),
        "free_percent": round(100 * sum(row["free_space"] for row in rows) / total, 1),
        "most_in": worst["relname"],
        "most_mib": round((worst["dead_tuple_len"] + worst["free_space"]) / 2**20, 1),
    }
