"""Review: reviewers' decisions, wherever they came from, become the fate of a job's candidates.

Every time somebody knocks, the whole job is looked at again: the records that its candidates would replace may have
moved, and then the decisions that people made about them count no more, and show why.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from anabranch.consolidation import gating, holding, merge_making, outcomes, telling, withdrawing
from anabranch.consolidation.outcomes import (
    MERGED,
    Head,
    cited,
    compared,
    counts,
    marked,
    policy_of,
    read_head,
    says_nothing_new,
    went_into,
)
from anabranch.domain.review import Settlement, Verdict, settle, tally
from anabranch.store import candidates, leases, outbox, reviews

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.consolidation.services import Services
    from anabranch.domain.policy import ReviewPolicy
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow
    from anabranch.store.reviews import ReviewRow


async def review(services: Services, job: JobRow) -> JobRow | None:
    """Look at a waiting job again.

    Returns:
        The job in ``publishing`` if every candidate is decided; None if it goes on waiting, or nothing was accepted.
    """
    await merge_making.make(services, job)
    async with services.db.connection() as conn:
        rows = await candidates.of_job(conn, line=job.line, job_id=job.job_id)
        _, holds = await gating.heard(conn, line=job.line, job_ids=[job.job_id])
        decisions = await reviews.effective(
            conn, line=job.line, job_id=job.job_id, known=lambda decision: gating.is_heard(decision, holds)
        )
        waiting = [row for row in rows if row.state == "waiting"]
        head = await read_head(conn, job.line, waiting)
    settled = [row for row in rows if row.state != "waiting"]
    known = telling.in_conflict(waiting)
    policy = policy_of(head.state, job)
    open_rows, duplicates = _refreshed(waiting, head, policy)
    settlement = settle(open_rows, _verdicts(open_rows, decisions, policy))
    if settlement.open:
        await _keep_waiting(
            services, job, rows=[*open_rows, *duplicates], settled=settled, settlement=settlement, known=known
        )
        return None
    merged = went_into(settlement.accepted, rows)
    decided = [
        *(marked(row, "accepted") for row in settlement.accepted),
        *(marked(row, "rejected", "RejectedByReview", _why(row, decisions)) for row in settlement.rejected),
        *(_sibling(row, merged.get(row.candidate_id)) for row in settlement.siblings),
    ]
    if job.origin == "Retraction":
        decided = withdrawing.as_one(decided)
    moved = await holding.leave(
        services, job, decided=[*decided, *duplicates], settled=settled, revision=head.state.head.revision, known=known
    )
    outcomes.tell(decided, by="reviewers")
    return moved


def overruled(
    rows: Iterable[CandidateRow], decisions: Sequence[ReviewRow], policy: ReviewPolicy
) -> dict[str, CandidateRow]:
    """Accepted candidates that reviewers have thought better of before they were published.

    Args:
        rows: The candidates.
        decisions: The latest of each reviewer on each candidate, withdrawals among them.
        policy: Of their job.

    Returns:
        By candidate id, as they are to be: rejected, or waiting for a review again.
    """
    by_candidate = _by_candidate(decisions)
    changed: dict[str, CandidateRow] = {}
    for row in rows:
        own = by_candidate.get(row.candidate_id, [])
        verdict = _verdict(row, own, policy)
        if verdict.outcome == "reject":
            changed[row.candidate_id] = marked(row, "rejected", "RejectedByReview", _why(row, own))
        elif verdict.outcome == "open" and any(decision.action == "withdraw" for decision in own):
            detail = "a decision on it was taken back before it was published"
            changed[row.candidate_id] = marked(row, "waiting", "ReviewWithdrawn", detail)
    return changed


def _sibling(row: CandidateRow, merge: CandidateRow | None) -> CandidateRow:
    """An undecided candidate for whose key another one was accepted."""
    if merge is not None:
        return marked(row, "rejected", MERGED, f"it went into candidate {merge.candidate_id}, which was accepted")
    detail = "another finding for the key was accepted; decide against the record it makes"
    return marked(row, "waiting", "KeyHeld", detail)


def _refreshed(
    rows: Iterable[CandidateRow], head: Head, policy: ReviewPolicy
) -> tuple[list[CandidateRow], list[CandidateRow]]:
    """The candidates as they stand to the records of now; and those that meanwhile say nothing new."""
    open_rows: list[CandidateRow] = []
    duplicates: list[CandidateRow] = []
    for row in rows:
        candidate, assessment = compared(row, head)
        same = assessment.kind == "same" or row.mark is not None
        if same and says_nothing_new(candidate, head, cited=cited(row, verified_only=policy.require_sources)):
            duplicates.append(marked(candidate, "duplicate", "AlreadyKnown", "the baseline says so already"))
        elif assessment.kind == "conflict" and not (
            gating.is_held(row) and row.canonical_revision == candidate.canonical_revision
        ):
            open_rows.append(marked(candidate, "waiting", assessment.reason, assessment.detail))
        else:
            open_rows.append(candidate)
    return open_rows, duplicates


def _verdicts(rows: Sequence[CandidateRow], decisions: Iterable[ReviewRow], policy: ReviewPolicy) -> list[Verdict]:
    by_candidate = _by_candidate(decisions)
    return [_verdict(row, by_candidate.get(row.candidate_id, []), policy) for row in rows]


def _verdict(row: CandidateRow, decisions: Iterable[ReviewRow], policy: ReviewPolicy) -> Verdict:
    return tally(
        policy,
        decisions,
        content_hash=row.content_hash,
        canonical_revision=row.canonical_revision or 0,
        authors=row.authors,
    )


def _by_candidate(decisions: Iterable[ReviewRow]) -> Mapping[str, list[ReviewRow]]:
    found: defaultdict[str, list[ReviewRow]] = defaultdict(list)
    for decision in decisions:
        found[decision.candidate_id].append(decision)
    return found


def _why(row: CandidateRow, decisions: Iterable[ReviewRow]) -> str:
    """Who rejected a candidate, and the reason that they gave."""
    for decision in decisions:
        if decision.candidate_id == row.candidate_id and decision.action == "reject":
            return f"{decision.reviewer}: {decision.reason}" if decision.reason else f"rejected by {decision.reviewer}"
    return ""


async def _keep_waiting(  # noqa: PLR0913  (what the look has found out)
    services: Services,
    job: JobRow,
    *,
    rows: Sequence[CandidateRow],
    settled: Sequence[CandidateRow],
    settlement: Settlement[CandidateRow],
    known: Collection[str],
) -> None:
    """Save how the candidates stand now, and let go of the job."""
    decided = len(settlement.accepted) + len(settlement.rejected)
    held = next((row.reason for row in rows if gating.is_held(row)), None)
    reason, detail = held or "AwaitingReview", f"{decided} of {decided + len(settlement.open)} candidates are decided"
    if settlement.clashing:
        reason = "AmbiguousAcceptance"
        detail = f"two findings were accepted for each of {len(settlement.clashing)} keys; reject one of each"
    async with services.db.transaction() as conn:
        await candidates.save_outcomes(conn, rows)
        await outbox.add(conn, line=job.line, notices=telling.notices(job, rows, known=known))
        await leases.advance(
            conn,
            job=job,
            to_state="awaiting_review",
            reason=reason,
            detail=detail,
            counts=counts([*rows, *settled], job),
            release=True,
        )
