"""Candidates of merges that were proposed, made by whoever holds the job: nobody else may add to what it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.consolidation import merge_inputs
from anabranch.consolidation.outcomes import compared, read_head
from anabranch.domain.merging import Inheritance, inherit
from anabranch.model.errors import AnabranchError, ConflictError
from anabranch.store import candidates, contents, leases, merges

if TYPE_CHECKING:
    from anabranch.consolidation.services import Services
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.merges import MergeRow


async def make(services: Services, job: JobRow) -> None:
    """Make the candidates of the merges that were proposed for a job.

    Args:
        services: The parts.
        job: The job in ``awaiting_review``, held.

    Raises:
        FencedError: If the job is somebody else's by now; nothing was written.
    """
    async with services.db.connection() as conn:
        if not await merges.requested(conn, line=job.line, job_id=job.job_id):
            return
    async with services.db.transaction() as conn:
        if not await leases.hold(conn, jobs=[job]):
            raise leases.fenced(job)
        ordinal = await candidates.next_ordinal(conn, line=job.line, origin_job=job.job_id)
        outcomes: dict[str, tuple[merges.State, str]] = {}
        bodies: dict[bytes, bytes] = {}
        made: list[CandidateRow] = []
        for merge, body in await merges.requested(conn, line=job.line, job_id=job.job_id):
            if body is None:
                continue
            try:
                candidate = await _candidate(conn, job, merge, ordinal=ordinal + len(made))
            except AnabranchError as error:
                outcomes[merge.candidate_id] = ("void", str(error))
            else:
                outcomes[merge.candidate_id] = ("made", "")
                bodies[merge.content_hash] = body
                made.append(candidate)
        # A reviewer may look at once: they must see what it would replace.
        head = await read_head(conn, job.line, made)
        await contents.put_many(conn, line=job.line, bodies=bodies)
        await candidates.insert(conn, [compared(row, head)[0] for row in made])
        await merges.settle(conn, line=job.line, outcomes=outcomes)


async def _candidate(conn: Connection, job: JobRow, merge: MergeRow, *, ordinal: int) -> CandidateRow:
    """The candidate of a merge.

    Raises:
        AnabranchError: If none can be made any more.
    """
    rows = await merge_inputs.waiting(conn, job, merge.inputs)
    if merge.origin == "merge":
        merge_inputs.common_key(rows)
    record = await merge_inputs.record(conn, job.line, merge.key, merge.base_revision) if merge.with_record else None
    if len(rows) + (record is not None) < 2:
        raise ConflictError("A merge is made of two sides at least.", hint="Name another candidate, or the record.")
    return _of(job, merge, inherit(rows, record), ordinal=ordinal)


def _of(job: JobRow, merge: MergeRow, inherited: Inheritance, *, ordinal: int) -> CandidateRow:
    what = "a model" if merge.model is not None else "a reviewer"
    return candidates.CandidateRow(
        line=job.line,
        candidate_id=merge.candidate_id,
        job_id=job.job_id,
        origin_job=job.job_id,
        ordinal=ordinal,
        branch_id=None,
        run_id=None,
        author=merge.author,
        op="put",
        key=merge.key,
        scope=inherited.scope,
        visibility=inherited.visibility,
        content_hash=merge.content_hash,
        base_revision=merge.base_revision,
        sources=inherited.sources,
        origin_runs=inherited.origin_runs,
        observed_at=merge.proposed_at,
        state="waiting",
        reason="MergeProposed" if merge.origin == "merge" else "SummaryProposed",
        detail=f"{what} wrote it of {len(merge.inputs)} findings{' and the record' if merge.with_record else ''}",
        origin=merge.origin,
        inputs=merge.inputs,
        contributors=inherited.contributors,
        model=merge.model,
    )
