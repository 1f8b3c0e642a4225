"""The status of a ConsolidationJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.model.crd import ConsolidationJobStatus, JobCounts

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.model.objects import JobState
    from anabranch.store.jobs import JobRow
    from anabranch.store.projection import JobStatusRow

_UNDER_WAY: Final[dict[JobState, tuple[str, str]]] = {
    "received": ("Received", "The job waits for a worker."),
    "importing": ("Importing", "Batches are being taken apart into candidates."),
    "validating": ("Validating", "Candidates are being checked: duplicates, sources, conflicts."),
    "awaiting_review": ("AwaitingReview", "A reviewer must decide: see `anabranch job show`."),
    "publishing": ("Publishing", "What was accepted is about to be published."),
}
_REASONS: Final = {
    "BackupAwaited": "A backup must be recorded first: see the condition BackedUp of the Baseline.",
    "BatchesMissing": "Not all of the batches are there yet: the branch has still to submit them.",
    "RecallRegressed": "Publishing it would lower recall more than spec.recall allows: see `anabranch job show`.",
    "RecallBelowFloor": "Publishing it would leave recall below spec.recall.floor: see `anabranch job show`.",
    "RecallTasksUnavailable": "There is no set of questions that spec.recall could be decided by.",
    "NothingToPublish": "Nothing of it was accepted, so nothing was published.",
}


def job_status(row: JobStatusRow, *, seen: Seen, now: datetime, store: str | None = None) -> ConsolidationJobStatus:
    """What the status of a ConsolidationJob says.

    Args:
        row: What Postgres has.
        seen: What the status said before.
        now: For conditions that change.
        store: Where it lies; None: in the default one.
    """
    job = row.job
    return ConsolidationJobStatus(
        observed_generation=job.observed_generation,
        job_id=job.job_id,
        store=store,
        state=job.state,
        attempt=job.attempt,
        lease_deadline=job.lease_deadline,
        holder=job.holder,
        counts=JobCounts(**_known(job.counts)),
        accepted=row.accepted,
        rejected=row.rejected,
        conflicts=row.conflicts,
        held_job=job.held_job,
        published_baseline_id=row.published_baseline_id,
        published_generation=job.published_generation,
        last_error=job.last_error,
        retry_at=job.retry_at,
        conditions=dated([*_drafts(job), *_misplaced(row)], generation=job.observed_generation, seen=seen, now=now),
    )


def _drafts(job: JobRow) -> list[Draft]:
    """Ready equals Complete; the rest is there only while it is true."""
    if job.state == "published" and not job.failed:
        made = f"Published as generation {job.published_generation}."
        done = (job.reason or "Published", _REASONS.get(job.reason, made))
        return [Draft("Ready", "True", *done), Draft("Complete", "True", *done)]
    if job.failed:
        last = f"{job.last_error} " if job.last_error else ""
        why = (job.reason or "GivenUp", f"{last}The job was given up: raise spec.retryLimit to try again.")
        more = [Draft("Failed", "True", *why), Draft("Stalled", "True", *why)]
    else:
        reason, message = _UNDER_WAY[job.state]
        why = (job.reason or reason, _REASONS.get(job.reason, message))
        more = [Draft("Reconciling", "True", *why)]
        if job.state == "awaiting_review":
            more.append(Draft("AwaitingReview", "True", *why))
    return [Draft("Ready", "False", *why), Draft("Complete", "False", *why), *more]


def _misplaced(row: JobStatusRow) -> list[Draft]:
    """Whoever decides in a resource is told when that counts for nothing there."""
    if not row.misplaced_decisions:
        return []
    message = (
        f"Decisions in spec.reviews on candidates that the job {row.misplaced_job} has by now:"
        f" {row.misplaced_decisions}. They do not count here: decide in that job."
    )
    return [Draft("DecisionsMisplaced", "True", "CandidatesMoved", message)]


def _known(counts: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name in JobCounts.model_fields}
