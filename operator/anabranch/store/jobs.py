"""Consolidation jobs: their rows, what is read of them, and what their resources may change.

A job's row comes first and its resource mirrors it, so a job is complete without Kubernetes. How jobs come to be is
told in `openings`, how they are worked on in `leases`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from anabranch.model.ids import line_of
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from anabranch.model.objects import JobState
    from anabranch.store.database import Connection

Origin: TypeAlias = Literal["Branch", "Held", "Import", "Retraction"]

BATCHES_MISSING: Final = "BatchesMissing"
"""The reason of a hand-made job that waits for its batches."""

_sql = queries.load("jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A consolidation job.

    Attributes:
        uid: Of its resource; None until that is made.
        automatic: Whether the operator made it, and so makes its resource.
        from_sequence: First of its batches; None unless the origin is ``Branch``.
        held_from: Id of the job that it was split off from.
        held_job: Name of the job that was split off from it.
        failed: Given up; the state is the last durable one.
        reason: CamelCase, for a condition.
        attempt: Failures and reclaimed leases since the last progress.
        fence: Raised with each claim; who holds an older one can write nothing.
        holder: The process that works on it.
        lease_seconds: How long a claim lasts unless renewed.
        kept: ``whole``, until retention removes its candidates and reviews (``leaving``, then ``log``), and then its
            log (``row``).
        ttl_seconds: For how long its resource is kept after the end; None: until somebody deletes it.
        traceparent: Of what made it; None: it is part of no trace.
        counts: ``received``, ``duplicates``, ``accepted``, ``rejected``, ``conflicting``, ``held``.
        version: Counts the changes that the resource's status shows.
    """

    line: str
    job_id: str
    namespace: str
    name: str
    uid: str | None
    automatic: bool
    observed_generation: int
    origin: Origin
    branch_id: str | None
    from_sequence: int | None
    through_sequence: int | None
    held_from: str | None
    held_job: str | None
    state: JobState
    failed: bool
    reason: str
    attempt: int
    fence: int
    holder: str | None
    lease_deadline: datetime | None
    lease_seconds: int
    retry_limit: int
    last_error: str | None
    retry_at: datetime | None
    due_at: datetime | None
    counts: dict[str, int]
    published_generation: int | None
    created_at: datetime
    finished_at: datetime | None
    deleted_at: datetime | None
    version: int
    kept: Literal["whole", "leaving", "log", "row"] = "whole"
    ttl_seconds: int | None = None
    traceparent: str | None = None


_FIELDS: Final = tuple(field.name for field in fields(JobRow))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRow:
    """One step of a job; states are equal where it failed, was taken over, or was tried again."""

    ordinal: int
    from_state: JobState | None
    to_state: JobState
    attempt: int
    fence: int
    holder: str | None
    detail: str
    at: datetime


def from_row(row: Mapping[str, Any]) -> JobRow:
    """A job from a row that has at least the columns of the table, whatever a later schema added to them."""
    return JobRow(**{name: row[name] for name in _FIELDS})


async def get(conn: Connection, job_id: str) -> JobRow | None:
    """A job by its id.

    Raises:
        InvalidInputError: If the text is no id.
    """
    row = await _sql.get(conn, line=line_of(job_id), job_id=job_id)
    return row and from_row(row)


async def by_name(conn: Connection, *, namespace: str, name: str) -> JobRow | None:
    """The job that a resource's name stands for; one whose resource was deleted only if there is no other."""
    row = await _sql.by_name(conn, namespace=namespace, name=name)
    return row and from_row(row)


async def page(  # noqa: PLR0913  (filters)
    conn: Connection,
    *,
    namespace: str,
    line: str | None = None,
    branch_id: str | None = None,
    state: JobState | None = None,
    after: str = "",
    limit: int,
) -> list[JobRow]:
    """The jobs of a namespace by name, beginning after one; of one line or branch, in one state, where these are given.

    Raises:
        InvalidInputError: If the branch's id is no id.
    """
    if branch_id is not None and line is None:
        line = line_of(branch_id)
    found = _sql.page(conn, namespace=namespace, line=line, branch_id=branch_id, state=state, after=after, limit=limit)
    return await queries.rows(found, from_row)


async def open_imports(conn: Connection, *, line: str) -> list[JobRow]:
    """The jobs that still have to decide what a changed import proposed, those split off from such a job included."""
    return await queries.rows(_sql.open_imports(conn, line=line), from_row)


async def transitions(conn: Connection, *, line: str, job_id: str, after: int = 0, limit: int) -> list[TransitionRow]:
    """What happened to a job, in order, beginning after one ordinal."""
    found = _sql.transitions(conn, line=line, job_id=job_id, after=after, limit=limit)
    return await queries.rows(found, lambda row: TransitionRow(**row))


async def since(conn: Connection, *, line: str, job_id: str, state: JobState) -> datetime:
    """When a job that has been in a state came to be in it, the last time."""
    found: datetime = await _sql.since(conn, line=line, job_id=job_id, state=state)
    return found


async def unborn(conn: Connection, *, limit: int) -> list[JobRow]:
    """Jobs of any line that the operator made and that have no resource yet."""
    return await queries.rows(_sql.unborn(conn, limit=limit), from_row)


async def set_uid(conn: Connection, *, line: str, job_id: str, uid: str, observed_generation: int) -> bool:
    """Tie a job to the resource that stands for it now; whether it was tied to another or none."""
    tag = await _sql.set_uid(conn, line=line, job_id=job_id, uid=uid, observed_generation=observed_generation)
    return queries.touched(tag) > 0


async def save_spec(  # noqa: PLR0913  (what identifies it, and what changes)
    conn: Connection,
    *,
    line: str,
    job_id: str,
    observed_generation: int,
    lease_seconds: int,
    retry_limit: int,
    ttl_seconds: int | None = None,
) -> JobRow | None:
    """Take over what a resource may change; a higher retry limit makes a failed job due again, if it is whole.

    Returns:
        The job, or None when nothing changed (or an older resource was given than one seen before).
    """
    row = await _sql.save_spec(
        conn,
        line=line,
        job_id=job_id,
        observed_generation=observed_generation,
        lease_seconds=lease_seconds,
        retry_limit=retry_limit,
        ttl_seconds=ttl_seconds,
    )
    return row and from_row(row)


async def mark_deleted(conn: Connection, *, line: str, job_id: str) -> None:
    """Note that a job's resource is gone.

    A job that has batches or candidates stays and goes on; one whose batches never came is forgotten, and its range
    is free.
    """
    await _sql.forget(conn, line=line, job_id=job_id)
    await _sql.mark_deleted(conn, line=line, job_id=job_id)


async def wake(conn: Connection, *, line: str, job_id: str) -> bool:
    """Make a job due now, or as soon as whoever works on it lets go; whether there is such a job, not finished."""
    return queries.touched(await _sql.wake(conn, line=line, job_id=job_id)) > 0


async def wake_waiting(conn: Connection, *, line: str) -> int:
    """Make every job of a line due that waits for review; how many."""
    return queries.touched(await _sql.wake_waiting(conn, line=line))
