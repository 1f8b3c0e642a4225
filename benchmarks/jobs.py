"""No-op jobs from claim to done, next to procrastinate and pgqueuer, each batching where it can.

Ours is the operator's own `Workers` on jobs whose batches hold no change: they are done by being taken, each fenced
and logged as ever, up to 500 a statement; those that need work get a task and a lease. pgqueuer fetches and finishes
in batches of the same size, which serve it as well as smaller ones. procrastinate fetches and finishes one job at a
time, by as many concurrent tasks as serve it best here. All jobs are there before the clock starts, on the same
durable server, and one process works on them with as many connections as the operator has.

What limits ours is Postgres, one statement after the other: 50 to 90 us a job, as much as pgqueuer has it spend. The
row of a job enters five indexes when it is done, for it is found by when it is due and by what its status does not
show yet; its batches and its line are looked at; and a line is written to its log. Python, which is most of
pgqueuer's time, takes 3 us a job.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import asyncpg
import procrastinate
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from anabranch.consolidation import work
from anabranch.consolidation.services import Services
from anabranch.consolidation.sources import SourceChecker
from anabranch.controllers.workers import Workers
from anabranch.store.database import Database
from benchmarks import serving
from benchmarks.acknowledgement import middle
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from pgqueuer.models import Job

    from benchmarks.stage import Line, Stage

NAME = "jobs"
BATCH = 500
CONNECTIONS = 10
PROCRASTINATE_TASKS = 10

_JOBS = """
WITH batch AS (
    INSERT INTO batches (line, branch_id, sequence, receipt_id, content_hash, body, changes, prefix)
    SELECT $1, $2, n, 'rc-' || $2 || n, '\\x00', '{}', 0, n FROM generate_series(1, $3::int) AS n
)
INSERT INTO jobs (line, job_id, namespace, name, automatic, uid, origin, branch_id, from_sequence, through_sequence,
                  due_at)
SELECT $1, 'job-' || $2 || n, 'bench', 'job-' || $2 || n, false, 'uid-' || $2 || n, 'Branch', $2, n, n, now()
FROM generate_series(1, $3::int) AS n
"""


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    ours_jobs, pgqueuer_jobs, procrastinate_jobs = (500, 300, 100) if quick else (20_000, 5_000, 1_000)
    line = await stage.new_line(1_000)
    queue, app = await stage.database_dsn(), await stage.database_dsn()
    against_pgqueuer = await interleaved(lambda: ours(line, ours_jobs), lambda: pgqueuer(queue, pgqueuer_jobs))
    against_procrastinate = await interleaved(
        lambda: ours(line, ours_jobs), lambda: with_procrastinate(app, procrastinate_jobs)
    )
    compared = min(against_pgqueuer, against_procrastinate, key=lambda one: one.ratio)
    better = "pgqueuer" if compared is against_pgqueuer else "procrastinate"
    return [
        Row(
            name=NAME,
            work=f"claim to done of no-op jobs, claimed and finished {BATCH} at a time",
            peer="procrastinate and pgqueuer, the better of them",
            bar="≥ 5x",
            ratio=compared.ratio,
            spread=compared.spread,
            reached=compared.ratio >= 5,
            figures={
                "ours_per_s": middle(compared.ours),
                "pgqueuer_per_s": middle(against_pgqueuer.peer),
                "procrastinate_per_s": middle(against_procrastinate.peer),
                "better": better,
            },
        )
    ]


async def ours(line: Line, jobs: int) -> float:
    """Finish jobs by the operator's workers; how many a second."""
    (branch,) = await serving.forked(line.db, line.line, [serving.Agent("agent", "")])
    async with line.db.connection() as conn:
        await conn.execute(_JOBS, line.line, branch.branch_id, jobs)
    db = await Database.open(line.dsn, application_name="benchmark", max_size=CONNECTIONS)
    # No job here cites a source or asks for a grant.
    services = Services(db=db, grants=None, sources=SourceChecker({}))  # type: ignore[arg-type]
    claimed = True

    def changed() -> None:
        nonlocal claimed
        claimed = True

    workers = Workers(
        db,
        advance=lambda job: work.advance(services, job),
        holder="benchmark",
        slots=BATCH,
        changed=changed,
    )
    began = time.perf_counter()
    while claimed:
        claimed = False
        await workers.look()
    took = time.perf_counter() - began
    await workers.stop(10)
    await db.close()
    async with line.db.connection() as conn:
        left = await conn.fetchval("SELECT count(*) FROM jobs WHERE state <> 'published' OR holder IS NOT NULL")
    if left:
        raise RuntimeError(f"{left} jobs were not done")
    return jobs / took


async def pgqueuer(dsn: str, jobs: int, *, batch: int = BATCH) -> float:
    """Work on jobs by pgqueuer until its queue is empty; how many a second."""
    async with asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        if not await queries.has_table("pgqueuer"):
            await queries.install()
        await queries.enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)
        queue = PgQueuer(driver)
        done = 0

        @queue.entrypoint("nothing")
        async def nothing(_job: Job) -> None:
            nonlocal done
            done += 1

        began = time.perf_counter()
        await queue.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
        took = time.perf_counter() - began
    if done != jobs:
        raise RuntimeError(f"pgqueuer did {done} of {jobs} jobs")
    return jobs / took


async def with_procrastinate(dsn: str, jobs: int) -> float:
    """Work on jobs by procrastinate until its queue is empty; how many a second."""
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=CONNECTIONS, max_size=CONNECTIONS)
    )
    done = 0

    @app.task(name="nothing")
    async def nothing() -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({} for _ in range(jobs)))
        began = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=PROCRASTINATE_TASKS, install_signal_handlers=False)
        took = time.perf_counter() - began
    if done != jobs:
        raise RuntimeError(f"procrastinate did {done} of {jobs} jobs")
    return jobs / took
