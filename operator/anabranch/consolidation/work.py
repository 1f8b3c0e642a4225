"""The work on one job: one durable step after the other, as far as it can go now.

Whoever claims a job keeps its lease meanwhile, and records it when this raises. It may be killed between any two
statements: the lease runs out, another claim goes on from the last durable state, and whatever the first one still
tries is fenced off.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from anabranch.consolidation.importing import begin, import_batches
from anabranch.consolidation.publishing import publish_accepted
from anabranch.consolidation.reviewing import review
from anabranch.consolidation.validating import validate
from anabranch.model.errors import AnabranchError
from anabranch.store import batches, jobs
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from anabranch.consolidation.services import Services
    from anabranch.model.objects import JobState
    from anabranch.store.jobs import JobRow

    Step: TypeAlias = Callable[[Services, JobRow], Awaitable[JobRow | None]]

_log = structlog.get_logger(__name__)

_STEPS: Final[Mapping[JobState, Step]] = {
    "received": begin,
    "importing": import_batches,
    "validating": validate,
    "awaiting_review": review,
    "publishing": publish_accepted,
}

_NAMES: Final[Mapping[JobState, str]] = {
    "received": "begin",
    "importing": "import",
    "validating": "validate",
    "awaiting_review": "review",
    "publishing": "publish",
}


async def advance(services: Services, job: JobRow) -> None:
    """Take a claimed job as far as it can go: until it waits for somebody else, or is done.

    Args:
        services: The parts.
        job: As `leases.claim` or `leases.claim_one` gave it.

    Raises:
        FencedError: If somebody else has the job by now; nothing was written.
        UnreachableSourceError: If a source could not be asked, and the job has another try.
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    with tracing.work("work on job", job.traceparent) as span:
        if span.recorded:
            span.set(line=job.line, namespace=job.namespace, job=job.name, job_id=job.job_id, origin=job.origin)
            span.set(fence=job.fence, attempt=job.attempt)
            with _only_told(job):
                span.link(await _others(services, job))
        held: JobRow | None = job
        while held is not None and held.state != "published":
            held = await _step(services, held)


async def _step(services: Services, job: JobRow) -> JobRow | None:
    """One step, and what it shows of the wait that it ended."""
    with tracing.span(_NAMES[job.state]) as span:
        moved = await _STEPS[job.state](services, job)
        if span.recorded and job.state == "awaiting_review":
            with _only_told(job):
                await _tell_wait(services, job)
    return moved


@contextlib.contextmanager
def _only_told(job: JobRow) -> Iterator[None]:
    """What cannot be asked for a trace is left out of it: that is no failure of a job, which may have moved on."""
    try:
        yield
    except AnabranchError as error:
        _log.warning("a trace is incomplete", job_id=job.job_id, problem=error.code)


async def _others(services: Services, job: JobRow) -> Sequence[str]:
    """The traces of a job's batches that it does not go on with itself."""
    if job.origin != "Branch":
        return ()
    async with services.db.connection() as conn:
        found = await batches.traces(conn, job=job, limit=tracing.LINKS + 1)
    return [text for text in found if text != job.traceparent]


async def _tell_wait(services: Services, job: JobRow) -> None:
    """Show how long a job has waited for its reviewers, once it does no more."""
    async with services.db.connection() as conn:
        now = await jobs.get(conn, job.job_id)
        if now is not None and now.state != job.state:
            tracing.waited("await review", await jobs.since(conn, line=job.line, job_id=job.job_id, state=job.state))
