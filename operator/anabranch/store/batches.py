"""Batches of findings that are here (see `receipts`): never written again but for the job that has them.

Consolidation takes gap-free runs of a branch, each batch into one job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.store import lines, queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow

_sql = queries.load("batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """A batch without its body.

    Attributes:
        content_hash: 32 bytes.
        changes: How many it holds.
        job_id: Of the consolidation job that has it, once one does.
    """

    sequence: int
    receipt_id: str
    content_hash: bytes
    changes: int
    final: bool
    received_at: datetime
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow(BatchHeader):
    """A batch.

    Attributes:
        body: The FindingBatch in canonical JSON.
    """

    line: str
    branch_id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A branch with batches that could go into a job now.

    Attributes:
        namespace: Of the Baseline, where the job goes.
        oldest_received_at: When the first of them came.
    """

    line: str
    branch_id: str
    namespace: str
    oldest_received_at: datetime


async def get(conn: Connection, *, line: str, branch_id: str, sequence: int) -> BatchRow | None:
    """A batch with its body."""
    row = await _sql.get(conn, line=line, branch_id=branch_id, sequence=sequence)
    return row and BatchRow(**row)


async def of_range(
    conn: Connection, *, line: str, branch_id: str, from_sequence: int, through_sequence: int
) -> list[BatchRow]:
    """The batches of a job in order, with their bodies."""
    found = _sql.of_range(
        conn, line=line, branch_id=branch_id, from_sequence=from_sequence, through_sequence=through_sequence
    )
    return await queries.rows(found, lambda row: BatchRow(**row))


async def page(conn: Connection, *, line: str, branch_id: str, after: int = 0, limit: int) -> list[BatchHeader]:
    """The receipts of a branch in order, beginning after one."""
    found = _sql.page(conn, line=line, branch_id=branch_id, after=after, limit=limit)
    return await queries.rows(found, lambda row: BatchHeader(**row))


async def traces(conn: Connection, *, job: JobRow, limit: int) -> list[str]:
    """The recorded traces that a job's batches came with, each once, in order."""
    found = _sql.traces(
        conn,
        line=job.line,
        branch_id=job.branch_id,
        from_sequence=job.from_sequence,
        through_sequence=job.through_sequence,
        limit=limit,
    )
    return await queries.rows(found, lambda row: str(row["traceparent"]))


async def ages(conn: Connection, *, jobs: Sequence[JobRow], limit: int = 1_000) -> list[float]:
    """Since when the batches of some jobs are here, in seconds.

    Args:
        conn: A connection.
        jobs: Of one line, made of batches.
        limit: How many batches at most.
    """
    found = _sql.ages(
        conn,
        line=jobs[0].line,
        branch_ids=[job.branch_id for job in jobs],
        from_sequences=[job.from_sequence for job in jobs],
        through_sequences=[job.through_sequence for job in jobs],
        limit=limit,
    )
    return await queries.rows(found, lambda row: float(row["age"]))


async def unassigned(conn: Connection, *, limit: int) -> list[Unassigned]:
    """Branches for which `openings.open_automatic` would find something to do now, of any line that is not paused."""
    return await queries.rows(_sql.unassigned(conn, limit=limit), lambda row: Unassigned(**row))


async def tell_paused(conn: Connection, *, limit: int) -> int:
    """Have the statuses of branches and their Baselines tell of batches that came while their line is paused.

    A batch that is received writes to nothing but its own table. In other lines it shows once it is in a job.

    Args:
        conn: A connection.
        limit: Branches at most.

    Returns:
        How many had news.
    """
    found = await queries.rows(_sql.untold(conn, limit=limit), dict)
    # Baselines first: if this process dies in between, the branches are found again.
    for line in {row["line"] for row in found}:
        await lines.touch(conn, line)
    for row in found:
        await _sql.tell(conn, **row)
    return len(found)
