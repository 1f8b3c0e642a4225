"""Leases: who works on a job, and that nobody else's write counts.

A claim raises the job's fence and sets a deadline by the database's clock. Every later write names the fence, so a
worker that was away too long changes nothing when it comes back. Each step is one statement: the conditional update
and its line in the log of transitions commit together.

``due_at`` serves three ends. Free job: when it next needs a hand. Held job: the lease's deadline, at which another
may take it over. Held job, and earlier than that: somebody knocked (`jobs.wake`) after the worker had looked, so it
is due as soon as it is let go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import ConflictError
from anabranch.store import queries
from anabranch.store.jobs import JobRow, from_row
from anabranch.telemetry.of_operator import CLAIMS, GIVEN_UP, RECLAIMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from anabranch.model.objects import JobState
    from anabranch.store.database import Connection

_ERROR_CHARACTERS: Final = 1_024

_sql = queries.load("leases")


class FencedError(ConflictError):
    """Another worker has the job, or it has moved on: what this one decided does not count."""

    code = "Fenced"


@dataclass(frozen=True, slots=True)
class Claim:
    """What came of looking for due jobs.

    Attributes:
        jobs: To be worked on; held from now on.
        done: How many needed no work, and are published.
    """

    jobs: Sequence[JobRow]
    done: int


async def claim(conn: Connection, *, holder: str, limit: int, among: int = 0) -> Claim:
    """Take due jobs of any line that is not paused.

    A job whose last holder let the lease run out counts one more attempt; beyond its retry limit it is given up
    instead. A job whose batches hold no change is done by being taken: nobody has to hold it.

    Args:
        conn: A connection.
        holder: This process: a UUID made at its start.
        limit: Jobs to be held at most.
        among: How many due jobs are looked at, the limit at least. More than that is of use where most need no work.
    """
    rows = [row async for row in _sql.claim(conn, holder=holder, limit=limit, among=among)]
    taken = [row for row in rows if row["job_id"] is not None]
    claimed = [from_row(row) for row in taken if not row["failed"]]
    done: int = rows[0]["done"]
    CLAIMS.inc(len(claimed) + done)
    RECLAIMS.inc(sum(row["reclaimed"] for row in taken))
    GIVEN_UP.inc(len(taken) - len(claimed))
    return Claim(claimed, done)


async def claim_one(conn: Connection, *, line: str, job_id: str, holder: str) -> JobRow | None:
    """Take one job, due or not; None if somebody holds it, it is finished, or its line is paused."""
    row = await _sql.claim_one(conn, line=line, job_id=job_id, holder=holder)
    return row and from_row(row)


async def renew(conn: Connection, *, job: JobRow) -> JobRow:
    """Hold a job for another lease from now.

    Raises:
        FencedError: If it is not held under this fence any more.
    """
    row = await _sql.renew(conn, line=job.line, job_id=job.job_id, fence=job.fence, holder=job.holder)
    return _own(job, row)


async def advance(  # noqa: PLR0913  (what a transition may bring)
    conn: Connection,
    *,
    job: JobRow,
    to_state: JobState,
    reason: str = "",
    detail: str = "",
    counts: dict[str, int] | None = None,
    held_job: str | None = None,
    published_generation: int | None = None,
    release: bool = False,
    due_in: timedelta | None = None,
) -> JobRow:
    """Move a job to a state, or note progress within one.

    Args:
        conn: A connection, in the transaction that writes what the step is about.
        job: As last claimed, renewed or advanced: it names the state, the fence and the holder.
        to_state: ``published`` finishes the job and lets go of it.
        reason: CamelCase, for the resource's condition.
        detail: For the log of transitions.
        counts: New counts; None keeps them.
        held_job: Name of the job that was split off; None keeps it.
        published_generation: Of the manifest that the job made; None keeps it.
        release: Let go of the job; else the lease is renewed.
        due_in: With ``release``, when it needs a hand again, from now; None: when somebody wakes it.

    Raises:
        FencedError: If it is not in that state under this fence any more. The caller's transaction must end then.
    """
    row = await _sql.advance(
        conn,
        line=job.line,
        job_id=job.job_id,
        fence=job.fence,
        holder=job.holder,
        from_state=job.state,
        to_state=to_state,
        reason=reason,
        detail=detail,
        counts=counts,
        held_job=held_job,
        published_generation=published_generation,
        release=release or to_state == "published",
        due_in=due_in,
    )
    return _own(job, row)


async def hold(conn: Connection, *, jobs: Sequence[JobRow]) -> set[str]:
    """Keep jobs as they are until the transaction ends: nobody claims, knocks or reviews them meanwhile.

    Args:
        conn: Inside a transaction that has locked the line's row: every transaction locks that before a job.
        jobs: Of one line, as last claimed, renewed or advanced.

    Returns:
        The ids of those that are still in their state under their fence.
    """
    found = _sql.hold(
        conn,
        line=jobs[0].line,
        job_ids=[job.job_id for job in jobs],
        states=[job.state for job in jobs],
        fences=[job.fence for job in jobs],
        holders=[job.holder for job in jobs],
    )
    return set(await queries.rows(found, lambda row: str(row["job_id"])))


async def release(conn: Connection, *, job: JobRow, due_in: timedelta | None = None) -> None:
    """Let go of a job where it stands; nothing happens if somebody else has it.

    Args:
        conn: A connection.
        job: As last claimed, renewed or advanced.
        due_in: When it needs a hand again, from now; None: when somebody wakes it.
    """
    await _sql.release(conn, line=job.line, job_id=job.job_id, fence=job.fence, holder=job.holder, due_in=due_in)


async def fail(conn: Connection, *, job: JobRow, error: str, retry_in: timedelta | None) -> JobRow:
    """Count a failure and let go; the state stays the last durable one.

    Args:
        conn: A connection.
        job: As last claimed, renewed or advanced.
        error: For people; its first 1,024 characters are kept.
        retry_in: When to try again, from now; None: trying again cannot help.

    Returns:
        The job; ``failed`` if it was given up, by ``retry_in`` or because its attempts exceed its retry limit.

    Raises:
        FencedError: If it is not held under this fence any more.
    """
    row = await _sql.fail(
        conn,
        line=job.line,
        job_id=job.job_id,
        fence=job.fence,
        holder=job.holder,
        error=error.replace("\0", "")[:_ERROR_CHARACTERS],
        retry_in=retry_in,
    )
    return _own(job, row)


def fenced(job: JobRow) -> FencedError:
    """What a worker gets to hear whose job is another's by now."""
    return FencedError(
        f"The job {job.name} is not held under fence {job.fence} in {job.state} any more.",
        hint="Nothing is to be done: whoever holds it goes on.",
    )


def _own(job: JobRow, row: object) -> JobRow:
    if row is None:
        raise fenced(job)
    return from_row(row)  # type: ignore[arg-type]  # an asyncpg record is a mapping in all but name
