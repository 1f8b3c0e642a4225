"""What is told of consolidation jobs: to reviewers, and to the agent whose findings they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.canonical import hash_text
from anabranch.model.errors import ReclaimedError
from anabranch.model.ids import is_id
from anabranch.model.objects import ConsolidationJob
from anabranch.model.reviewing import ReviewEntry, Transition
from anabranch.model.trace import trace_id_of
from anabranch.store import branches, candidates, jobs, lines, projection, recall, reviews

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.model.objects import JobState
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow
    from anabranch.store.reviews import ReviewRow


async def find(db: Database, *, namespace: str, ref: str) -> JobRow | None:
    """A job of a namespace by its id or its resource's name."""
    async with db.connection() as conn:
        if not is_id("job", ref):
            return await jobs.by_name(conn, namespace=namespace, name=ref)
        row = await jobs.get(conn, ref)
    return row if row is not None and row.namespace == namespace else None


async def page(  # noqa: PLR0913  (filters)
    db: Database,
    *,
    namespace: str,
    baseline: str | None,
    branch_id: str | None,
    state: JobState | None,
    after: str,
    limit: int,
) -> list[JobRow]:
    """The jobs of a namespace by name; of one Baseline, one branch, in one state, where these are given."""
    async with db.connection() as conn:
        line = await lines.find(conn, namespace=namespace, name=baseline) if baseline else None
        if baseline and line is None:
            return []
        return await jobs.page(
            conn,
            namespace=namespace,
            line=line.head.line if line else None,
            branch_id=branch_id,
            state=state,
            after=after,
            limit=limit,
        )


def check_whole(job: JobRow, what: str) -> None:
    """Check that retention has left what a job decided about.

    Args:
        job: The job.
        what: What of it is asked for, as a person calls it.

    Raises:
        ReclaimedError: If it has not.
    """
    if job.kept != "whole":
        raise ReclaimedError(
            f"The job is done, and retention has removed its {what}.", hint="What it published is in the baseline."
        )


async def origins(db: Database, rows: Iterable[JobRow]) -> dict[str, BranchRow]:
    """The branches that jobs come from, by branch id."""
    async with db.connection() as conn:
        found = [await branches.get(conn, branch_id) for branch_id in {row.branch_id for row in rows if row.branch_id}]
    return {branch.branch_id: branch for branch in found if branch is not None}


async def describe(db: Database, rows: Sequence[JobRow]) -> list[ConsolidationJob]:
    """Jobs as they travel, in the same order; of candidates' ids the first 20."""
    async with db.connection() as conn:
        found = await projection.job_status(conn, job_ids=[row.job_id for row in rows])
        known = {state.job.job_id: state for state in found}
        runs = {branch_id: branch.run_id for branch_id, branch in (await origins(db, rows)).items()}
    return [_job(known[row.job_id], runs) for row in rows if row.job_id in known]


async def transition_page(db: Database, job: JobRow, *, after: int, limit: int) -> list[Transition]:
    """What happened to a job, in order.

    Raises:
        ReclaimedError: If retention has removed its log.
    """
    if job.kept == "row":
        raise ReclaimedError(
            "The job is done, and retention has removed its log.", hint="What it published is in the baseline."
        )
    async with db.connection() as conn:
        found = await jobs.transitions(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
    return [
        Transition(
            ordinal=row.ordinal,
            from_state=row.from_state,
            to_state=row.to_state,
            attempt=row.attempt,
            holder=row.holder,
            detail=row.detail,
            at=row.at,
            trace_id=trace_id_of(job.traceparent),
        )
        for row in found
    ]


async def review_page(
    db: Database, job: JobRow, *, branch_id: str | None, after: int, limit: int
) -> tuple[list[ReviewEntry], int | None]:
    """What reviewers have decided on a job's candidates, in order, decisions that were taken back included.

    Args:
        db: The store.
        job: The job.
        branch_id: Only on those that this branch submitted; None: on all.
        after: The last ordinal of the page before.
        limit: How many at most.

    Returns:
        Those to be seen, and the ordinal to go on after; None when there are no more.

    Raises:
        ReclaimedError: If retention has removed them.
    """
    check_whole(job, "reviews")
    async with db.connection() as conn:
        found = await reviews.history(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
        rows = await candidates.of_job(conn, line=job.line, job_id=job.job_id) if branch_id and found else []
        # Where a Baseline asks nothing of its recall, nothing is held.
        gated = bool(found) and await recall.gate(conn, line=job.line) is not None
        held = (await recall.holds(conn, line=job.line, job_ids=[job.job_id])).get(job.job_id) if gated else None
    own = {row.candidate_id for row in rows if row.branch_id == branch_id}
    shown = [
        review_entry(row, before_hold=held is not None and not held.is_known_to(row))
        for row in found
        if branch_id is None or row.candidate_id in own
    ]
    return shown, found[-1].ordinal if len(found) == limit else None


def review_entry(row: ReviewRow, *, before_hold: bool = False) -> ReviewEntry:
    """A decision as it travels.

    Args:
        row: The decision.
        before_hold: Whether the recall gate holds its job, and its reviewer did not know of that.
    """
    return ReviewEntry(
        ordinal=row.ordinal,
        candidate_id=row.candidate_id,
        reviewer=row.reviewer,
        action=row.action,
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        reason=row.reason,
        via=row.via,
        at=row.at,
        hold=row.hold,
        before_hold=before_hold,
    )


def _job(state: projection.JobStatusRow, runs: dict[str, str]) -> ConsolidationJob:
    job = state.job
    return ConsolidationJob(
        job_id=job.job_id,
        name=job.name,
        namespace=job.namespace,
        origin=job.origin,
        run_id=job.branch_id and runs.get(job.branch_id),
        branch_id=job.branch_id,
        batch_sequence=job.through_sequence,
        state=job.state,
        failed=job.failed,
        reason=job.reason,
        attempt=job.attempt,
        lease_deadline=job.lease_deadline,
        accepted=state.accepted,
        rejected=state.rejected,
        conflicts=state.conflicts,
        counts=job.counts,
        held_job=job.held_job,
        published_baseline_id=state.published_baseline_id,
        last_error=job.last_error,
        retry_at=job.retry_at,
        created_at=job.created_at,
        trace_id=trace_id_of(job.traceparent),
    )
