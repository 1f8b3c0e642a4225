"""How consolidation jobs come to be: from batches that came, from a person's resource, or split off from another job.

A batch belongs to one job for ever. Whoever hands out batches of a branch holds the branch's row, so two operators,
or an operator and a person, decide one after the other; receipts go on meanwhile, for they take a weaker lock. A
hand-made job reserves its range before the batches are there.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Literal

from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError
from anabranch.model.ids import LineId, new_job_id
from anabranch.model.limits import BATCH_CHANGES, BULK_BATCHES, BULK_BYTES
from anabranch.store import branches, queries
from anabranch.store.jobs import JobRow, from_row
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_JOB_BATCHES: Final = BULK_BATCHES
_JOB_CHANGES: Final = 2 * BATCH_CHANGES
_JOB_BYTES: Final = BULK_BYTES

TTL_SECONDS: Final = 86_400
"""For how long the resources of jobs that the operator makes are kept after the end, unless they say otherwise."""

_HELD: Final = re.compile(r"(?P<root>.+?)-held(?:-(?P<depth>[0-9]+))?(?:-[0-9a-f]{8})?")

_sql = queries.load("openings")


class BatchesTakenError(ConflictError):
    """Another job has, or waits for, some of the batches."""

    code = "BatchesTaken"


async def open_automatic(conn: Connection, *, line: str, branch_id: str, namespace: str) -> JobRow | None:
    """Put the next gap-free run of a branch's batches into a job of its own.

    Hand-made jobs whose batches are all there now are made due on the way. A branch has one automatic job before
    ``awaiting_review`` at a time, of at most 100 batches, 20,000 changes and 32 MiB (but for a single batch), so that a
    job's transactions stay short; the rest goes into the next one.

    Args:
        conn: A connection; a transaction of its own is opened on it.
        line: The branch's.
        branch_id: The branch.
        namespace: Of the Baseline: the job's resource goes there.

    Returns:
        The new job, or None when there is nothing for it.
    """
    async with conn.transaction():
        name = await _sql.lock_branch(conn, line=line, branch_id=branch_id)
        if name is None:
            return None
        through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
        await _sql.settle(conn, line=line, branch_id=branch_id, through=through)
        row = await _sql.open_automatic(
            conn,
            line=line,
            branch_id=branch_id,
            job_id=new_job_id(LineId(line)),
            namespace=namespace,
            name=f"{name[:40].rstrip('-.')}-{_digest(branch_id)}",
            through=through,
            max_batches=_JOB_BATCHES,
            max_changes=_JOB_CHANGES,
            max_bytes=_JOB_BYTES,
            ttl_seconds=TTL_SECONDS,
        )
    return row and from_row(row)


async def register_manual(  # noqa: PLR0913  (the columns of a job)
    conn: Connection,
    *,
    line: str,
    job_id: str,
    namespace: str,
    name: str,
    uid: str,
    observed_generation: int,
    branch_id: str,
    from_sequence: int,
    through_sequence: int,
    lease_seconds: int,
    retry_limit: int,
    ttl_seconds: int | None = None,
) -> JobRow:
    """Register a job that a person applied, and reserve its batches; the same resource again gives the same job.

    The job is due at once if the branch's batches are gap-free through its last one; else it waits, with the reason
    ``BatchesMissing``, until `open_automatic` of the branch finds that they are.

    Args:
        conn: A connection; a transaction of its own is opened on it.
        line: The branch's.
        job_id: A fresh id, used if the job is new.
        namespace: Of the resource.
        name: Of the resource.
        uid: Of the resource: the key of idempotence.
        observed_generation: ``metadata.generation`` of the resource.
        branch_id: The branch.
        from_sequence: First batch.
        through_sequence: Last batch.
        lease_seconds: How long a claim lasts unless renewed.
        retry_limit: How often it is tried again.
        ttl_seconds: For how long its resource is kept after the end; None: until somebody deletes it.

    Raises:
        BatchesTakenError: If another job has, or waits for, some of the batches.
        NotFoundError: If there is no such branch.
        InvalidInputError: If the range is empty.
    """
    if not 0 < from_sequence <= through_sequence:
        raise InvalidInputError(
            f"batches {from_sequence} to {through_sequence} are none.",
            hint="Give from and through, from 1 on, in order.",
        )
    async with conn.transaction():
        if await _sql.lock_branch(conn, line=line, branch_id=branch_id) is None:
            raise NotFoundError(f"There is no branch {branch_id}.", hint="Apply the Branch first.")
        if row := await _sql.of_resource(conn, line=line, namespace=namespace, name=name, uid=uid):
            return from_row(row)
        taken = await _sql.overlapping(
            conn, line=line, branch_id=branch_id, from_sequence=from_sequence, through_sequence=through_sequence
        )
        if taken is not None:
            raise BatchesTakenError(
                f"Batches {taken['from_sequence']} to {taken['through_sequence']} belong to the job "
                f"{taken['namespace']}/{taken['name']}.",
                hint="Delete this ConsolidationJob, and follow that one; or apply one for other batches.",
                job=taken["name"],
            )
        await _sql.register(
            conn,
            line=line,
            job_id=job_id,
            namespace=namespace,
            name=name,
            uid=uid,
            observed_generation=observed_generation,
            branch_id=branch_id,
            from_sequence=from_sequence,
            through_sequence=through_sequence,
            lease_seconds=lease_seconds,
            retry_limit=retry_limit,
            ttl_seconds=ttl_seconds,
        )
        through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
        await _sql.settle(conn, line=line, branch_id=branch_id, through=through)
        return from_row(await _sql.of_resource(conn, line=line, namespace=namespace, name=name, uid=uid))


async def open_held(conn: Connection, *, job: JobRow, counts: dict[str, int]) -> JobRow:
    """The job that a job's waiting candidates go to, in the caller's transaction.

    A job is split off once. If more of its candidates must wait later, they join the split-off job while that is
    open, or else a job split off from that one. A worker on the joined job is fenced off: it decides again, over all
    candidates.

    Args:
        conn: A connection in the transaction that also moves the candidates.
        job: The job to split.
        counts: Of the new job.
    """
    match = _HELD.fullmatch(job.name) if job.origin == "Held" else None
    root, depth = (match["root"], int(match["depth"] or 1)) if match else (job.name[:200].rstrip("-."), 0)
    origin = job.job_id
    while True:
        depth += 1
        if row := await _sql.join_held(conn, line=job.line, held_from=origin):
            return from_row(row)
        further = await _sql.held_of(conn, line=job.line, held_from=origin)
        if further is None:
            row = await _sql.open_held(
                conn,
                line=job.line,
                job_id=new_job_id(LineId(job.line)),
                namespace=job.namespace,
                name=f"{root}-held" if depth == 1 else f"{root}-held-{depth}",
                suffix=_digest(origin),
                branch_id=job.branch_id,
                held_from=origin,
                counts=counts,
                lease_seconds=job.lease_seconds,
                retry_limit=job.retry_limit,
                ttl_seconds=TTL_SECONDS,
                traceparent=job.traceparent,
            )
            if row is not None:
                return from_row(row)
            depth -= 1
        else:
            origin = further


async def open_made(  # noqa: PLR0913  (the columns of a job)
    conn: Connection,
    *,
    line: str,
    namespace: str,
    name: str,
    origin: Literal["Import", "Retraction"],
    state: Literal["importing", "validating"] = "validating",
    detail: str = "",
) -> JobRow:
    """Make a job of the operator's own, or give the one that it made before under this name.

    Args:
        conn: A connection in the transaction that also puts the candidates in.
        line: Where.
        namespace: Of the Baseline.
        name: The key of idempotence.
        origin: What made it.
        state: Where it begins.
        detail: For the log of transitions.
    """
    await _sql.lock_line(conn, line=line)
    row = await _sql.made(conn, line=line, namespace=namespace, name=name, origin=origin)
    if row is None:
        job_id = new_job_id(LineId(line))
        row = await _sql.open_made(
            conn,
            line=line,
            job_id=job_id,
            namespace=namespace,
            name=name,
            origin=origin,
            state=state,
            detail=detail,
            ttl_seconds=TTL_SECONDS,
            traceparent=tracing.handed_on(),
        )
    return from_row(row)


def _digest(text: str) -> str:
    """Eight hex digits that tell two branches of the same name apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
