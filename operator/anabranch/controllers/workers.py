"""Working on consolidation jobs: claim what is due, keep the lease while it is worked on, let go.

A process claims no more than it works on at once, so that what it cannot get to is free for another one. A claimed job
runs in a task of its own while another renews its lease, at a third of it. A worker that lost the lease (it was paused,
or Postgres was away for too long) is stopped, and could do no harm if it were not: each of its writes names the fence
of its claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.domain import backoff
from anabranch.kube.errors import RightMissingError
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.store import jobs, leases
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.of_operator import ENDS, FAILURES, GIVEN_UP, JOBS_AT_HAND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow

_log = structlog.get_logger(__name__)

_OUTAGE_LIMIT_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0

_MOST_AMONG: Final = 500
"""Due jobs that one statement goes through; more save hardly anything, and their locks would be held for longer."""


class Workers:
    """Claims due jobs and works on them. A look of the wake queue.

    Args:
        db: Of the jobs.
        advance: Runs a claimed job as far as it goes.
        holder: This process: unique, and not used again after a restart.
        slots: Jobs at once.
        changed: Called when jobs were claimed or let go: there may be more to do, and a status to write.
    """

    name = "jobs"

    def __init__(
        self,
        db: Database,
        *,
        advance: Callable[[JobRow], Awaitable[None]],
        holder: str,
        slots: int,
        changed: Callable[[], None],
    ) -> None:
        self._db = db
        self._advance = advance
        self._holder = holder
        self._slots = slots
        self._changed = changed
        self._running: set[asyncio.Task[None]] = set()
        self._outages: Counter[str] = Counter()  # of a job, since it last got on
        self._among = 0  # due jobs that the next look goes through
        self._stopped = False

    async def look(self) -> bool:
        """Claim what is due and begin it. A job that ends makes another look happen."""
        free = self._slots - len(self._running)
        if free > 0 and not self._stopped:
            async with self._db.connection() as conn:
                claim = await leases.claim(conn, holder=self._holder, limit=free, among=self._among)
            for job in claim.jobs:
                ids = {"namespace": job.namespace, "job": job.name, "job_id": job.job_id, "branch_id": job.branch_id}
                with logs.bound(**ids, line=job.line), tracing.carried(job.traceparent):
                    task = asyncio.create_task(self._work(job), name=f"job {job.name}")
                self._running.add(task)
                JOBS_AT_HAND.set(len(self._running))
                task.add_done_callback(self._ended)
            # Where nothing needed work, there may be many more such jobs, and they take no slot.
            idle = claim.done and not claim.jobs
            self._among = min(4 * max(self._among, free), _MOST_AMONG) if idle else 0
            if claim.jobs or claim.done:
                self._changed()
        return False

    async def stop(self, seconds: float) -> None:
        """Claim no more, wait so long for the jobs at hand, then let go of them where they stand."""
        self._stopped = True
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        JOBS_AT_HAND.set(len(self._running))
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("job abandoned, its lease will run out", task=task.get_name(), error=str(error))
        self._changed()

    async def _work(self, job: JobRow) -> None:
        working = asyncio.ensure_future(self._advance(job))
        keeping = asyncio.create_task(self._keep(job))
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                self._outages.pop(job.job_id, None)
                ENDS.labels("advanced").inc()
            else:
                _log.warning("lease lost", **_named(job))
                ENDS.labels("lease_lost").inc()
        except leases.FencedError:
            _log.info("somebody else has the job", **_named(job))
            ENDS.labels("fenced").inc()
        except asyncio.CancelledError:
            ENDS.labels("stopped").inc()
            await _end(working)
            await self._let_go(job, timedelta())
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the job's row says so, and it is tried again)
            await self._failed(job, error)
        finally:
            await _end(working)
            await _end(keeping)

    async def _keep(self, job: JobRow) -> None:
        """Renew the lease until it is lost."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + job.lease_seconds
        while loop.time() < deadline:
            await asyncio.sleep(job.lease_seconds / 3)
            began = loop.time()
            try:
                async with asyncio.timeout_at(deadline), self._db.connection() as conn:
                    await leases.renew(conn, job=job)
                deadline = began + job.lease_seconds
            except leases.FencedError:
                return
            except (UnavailableError, TimeoutError) as error:
                _log.warning("lease not renewed yet", **_named(job), error=str(error))

    async def _failed(self, job: JobRow, error: Exception) -> None:
        """Count a failure of the job. An outage is none of it: it would give up every job in half a minute."""
        if isinstance(error, UnavailableError) and not isinstance(error, RightMissingError):
            self._outages[job.job_id] += 1
            wait = timedelta(seconds=_delay(self._outages[job.job_id], limit=_OUTAGE_LIMIT_SECONDS))
            ENDS.labels("outage").inc()
            _log.warning("job waits for an outage to end", **_named(job), wait=str(wait), error=str(error))
            await self._let_go(job, wait)
            return
        known = isinstance(error, AnabranchError)
        ENDS.labels("failed").inc()
        FAILURES.labels(error.code if isinstance(error, AnabranchError) else "Unexpected").inc()
        if known:
            _log.warning("job failed", **_named(job), error=str(error))
        else:
            _log.error("job failed", **_named(job), exc_info=error)
        with contextlib.suppress(leases.FencedError):
            async with self._db.connection() as conn:
                retry_in = timedelta(seconds=_delay(await _attempts(conn, job) + 1))
                told = str(error) if known else f"{type(error).__name__}: see the operator's log."
                if (await leases.fail(conn, job=job, error=told, retry_in=retry_in)).failed:
                    GIVEN_UP.inc()

    async def _let_go(self, job: JobRow, wait: timedelta) -> None:
        """Make the job due after a while, for whichever process, instead of when the lease runs out.

        Where Postgres is what is away, that is done once it is back.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + job.lease_seconds
        while True:
            try:
                async with self._db.connection() as conn:
                    await leases.release(conn, job=job, due_in=wait)
            except leases.FencedError:
                return
            except UnavailableError:
                if self._stopped or loop.time() > deadline:
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return


async def _attempts(conn: Connection, job: JobRow) -> int:
    """Failures since the last progress, which may have been made after the claim."""
    newest = await jobs.get(conn, job.job_id)
    return job.attempt if newest is None else newest.attempt


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _delay(attempt: int, *, limit: float = 300.0) -> float:
    return backoff.delay(attempt, chance=random.random(), limit=limit)  # noqa: S311  (jitter)


def _named(job: JobRow) -> dict[str, object]:
    return {"namespace": job.namespace, "job": job.name, "fence": job.fence}
