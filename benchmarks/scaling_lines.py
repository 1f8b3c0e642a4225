"""How work on many lines of one database adds up: from one line to sixty-four.

Lines wait for nothing but the database. Publications: a writer for each line publishes 10 changes in 1,000 records, one
after the other, as the service does it, all in one process. Receipts: 64 agents with a branch each, spread over the
lines, submit batches of one finding over HTTP, with all checks, to one API process.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks import acknowledgement, load, points, serving

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.stage import Line, Stage

NAME = "scaling-lines"
LINES, QUICK = (1, 4, 16, 64), (1, 2)
RECORDS, CHANGES, FINDINGS = 1_000, 10, 1
ROUNDS, WARM = 3, 5


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Measure with each number."""
    over, agents = (QUICK, 4) if quick else (LINES, LINES[-1])
    publications, batches, rounds = (8, 5, 1) if quick else (640, 100, ROUNDS)
    made = [await place.new_line(RECORDS)]
    while len(made) < over[-1]:
        made.append(await place.new_line(RECORDS, beside=made[0]))
    async with serving.opened(place, agents=agents) as servers:
        api = await servers.api(made[0].dsn)

        async def received(some: list[Line]) -> float:
            requests = []
            for number, agent in enumerate(servers.agents):
                line = some[number % len(some)]
                (branch,) = await serving.forked(line.db, line.line, [agent])
                path = f"/v1/namespaces/{serving.NAMESPACE}"
                requests.append(
                    [
                        acknowledgement.put(agent, path, branch.branch_id, sequence, findings=FINDINGS)
                        for sequence in range(1, batches + WARM + 1)
                    ]
                )
            return (await load.send(place.folder / NAME, port=api, connections=requests, warm=WARM)).rate

        async def worked(count: int) -> dict[str, float]:
            some = made[:count]
            publishing = [await published(some, publications) for _ in range(rounds)]
            receipts = [await received(some) for _ in range(rounds)]
            return {
                "lines": count,
                "publications_per_s": statistics.median(publishing),
                "receipts_per_s": statistics.median(receipts),
            }

        found = await points.measured(NAME, place.dsn, over, worked, quick=quick)
    work = f"publications of {CHANGES} changes by one process, and receipts of {agents} agents by one API, by lines"
    return [points.row(NAME, work, found, "lines", "publications_per_s", "receipts_per_s")]


async def published(some: list[Line], publications: int) -> float:
    """Publications a second, in all lines at once."""

    async def write(line: Line) -> None:
        for _ in range(publications // len(some)):
            await line.change(CHANGES)

    began = time.perf_counter()
    await asyncio.gather(*map(write, some))
    return publications // len(some) * len(some) / (time.perf_counter() - began)
