"""How an operator takes to more Branches: from ten to ten thousand that it had before it was started again.

It starts, compares each Branch with Postgres, and then has nothing to do: what it asks of Postgres in a quiet minute is
what it asks because it looks at things from time to time, and no query is about one object.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from anabranch.devcluster import assembly
from benchmarks import points
from benchmarks.crowd import Crowd
from benchmarks.starting import Audit, peak_mb, running, settled, transactions

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.stage import Stage

NAME = "scaling-branches"
BRANCHES, QUICK = (10, 100, 1_000, 10_000), (10, 20)
IDLE_SECONDS, QUICK_IDLE_SECONDS = 60.0, 2.0


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Measure with each number."""
    options = assembly.Options(durable=True, audit=True)
    stack = await asyncio.to_thread(assembly.up, place.folder / "stack", options=options)
    crowd = Crowd(stack)
    await asyncio.to_thread(crowd.home)
    await asyncio.to_thread(crowd.model, "crowd-forked", ready=True)
    await asyncio.to_thread(stack.stop, "operator")
    idle = QUICK_IDLE_SECONDS if quick else IDLE_SECONDS

    async def started(branches: int) -> dict[str, float]:
        namespace = f"crowd-{branches}"
        await crowd.copy("crowd-forked", namespace, branches, rows=True)
        log = Audit(stack, namespace)
        began = time.monotonic()
        async with running(stack, "ours", namespace) as process:
            await log.watching()
            start = time.monotonic() - began
            await settled(process, quick=quick)
            before = await transactions(stack)
            await asyncio.sleep(idle)
            asked = await transactions(stack) - before
            peak = peak_mb(process)
        await crowd.remove(namespace)
        return {
            "branches": branches,
            "start_s": start,
            "peak_mb": peak,
            "transactions_an_idle_minute": asked * 60 / idle,
        }

    try:
        found = await points.measured(NAME, place.dsn, QUICK if quick else BRANCHES, started, quick=quick)
    finally:
        await asyncio.to_thread(stack.start_operator)
    work = "an operator started again, by Branches that it had"
    return [
        points.row("scaling-start", f"{work}: until it watches them", found, "branches", "start_s"),
        points.row("scaling-memory", f"{work}: its peak memory", found, "branches", "peak_mb"),
        points.row("scaling-idle", f"{work}: idle queries", found, "branches", "transactions_an_idle_minute"),
    ]
