"""Decisions that come by HTTP, from a caller whom the API has verified as holding the grant to decide.

They are noted in the same append-only table as those of resources, and weigh the same. What cannot count is refused
here, with what stands now, so that a reviewer never believes to have decided something that has changed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.consolidation import gating, grouping
from anabranch.consolidation.outcomes import compared, policy_of, read_head
from anabranch.model.canonical import hash_bytes, hash_text
from anabranch.model.errors import ConflictError, ForbiddenError, NotFoundError
from anabranch.store import candidates, jobs, reviews

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.identity import Caller
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow
    from anabranch.store.recall import Hold


class SelfReviewError(ForbiddenError):
    """The reviewer wrote the candidate, and the Baseline wants somebody else's judgement."""

    code = "SelfReview"


class StaleReviewError(ConflictError):
    """The decision is about other content, or another record, than there is now."""

    code = "ReviewStale"


async def decide(
    db: Database,
    *,
    job: JobRow,
    caller: Caller,
    decisions: Sequence[DecisionRequest],
    groups: Sequence[GroupDecisionRequest] = (),
) -> list[reviews.ReviewRow]:
    """Note one reviewer's decisions on a job's candidates, all or none, and wake the job.

    Args:
        db: The store.
        job: The job.
        caller: The reviewer.
        decisions: What they decided.
        groups: What they decided of near-identical candidates together; ``decisions`` come before it.

    Returns:
        Their decisions on this job's candidates that stand now.

    Raises:
        NotFoundError: If a candidate is none of this job, or nothing of a group waits in it.
        ConflictError: If one is decided already, or has left the job meanwhile; or a group is another than the reviewer
            saw, or cannot be accepted as one.
        StaleReviewError: If one is not what the reviewer saw, or the recall gate has held it since; ``extra`` has what
            it is now.
        SelfReviewError: If the reviewer is its author, and the Baseline forbids that.
    """
    singly = [
        reviews.Decision(
            candidate_id=decision.candidate_id,
            reviewer=caller.username,
            content_hash=hash_bytes(decision.content_hash),
            base_revision=int(decision.base_revision),
            action=decision.action,
            reason=decision.reason,
            hold=decision.hold,
        )
        for decision in decisions
    ]
    together = [
        grouping.GroupDecision(
            group_id=decision.group_id,
            reviewer=caller.username,
            digest=decision.digest,
            action=decision.action,
            reason=decision.reason,
        )
        for decision in groups
    ]
    async with db.connection() as conn:
        spelled_out = await grouping.spelled_out(conn, job, together) if together else []
        noted = list({decision.candidate_id: decision for decision in (*spelled_out, *singly)}.values())
        rows = {row.candidate_id: row for row in await candidates.of_job(conn, line=job.line, job_id=job.job_id)}
        named = [_named(rows, decision) for decision in noted]
        head = await read_head(conn, job.line, named)
    policy = policy_of(head.state, job)
    for row, decision in zip(named, noted, strict=True):
        if policy.forbid_self_review and caller.username in row.authors:
            raise SelfReviewError(
                f"You wrote the candidate {row.candidate_id}, or part of it, and spec.review.forbidSelfReview is true.",
                hint="Ask another reviewer.",
                candidate_id=row.candidate_id,
            )
        _check(compared(row, head)[0], decision)
    ids = {row.candidate_id for row in named}
    async with db.transaction() as conn:
        await jobs.wake(conn, line=job.line, job_id=job.job_id)  # nobody ends the job from here on
        if await candidates.count_waiting(conn, line=job.line, job_id=job.job_id, candidate_ids=ids) < len(ids):
            raise ConflictError(
                "The job went on while your decisions came.",
                hint="List the job's candidates, and decide on those that wait still.",
            )
        _, holds = await gating.heard(conn, line=job.line, job_ids=[job.job_id])
        for decision in noted:
            _check_hold(decision, holds.get(job.job_id))
        await reviews.append(conn, line=job.line, job_id=job.job_id, decisions=noted, via="http")
        standing = await reviews.effective(conn, line=job.line, job_id=job.job_id)
    db.notify("work")
    return [row for row in standing if row.reviewer == caller.username]


def _named(rows: Mapping[str, CandidateRow], decision: reviews.Decision) -> CandidateRow:
    row = rows.get(decision.candidate_id)
    if row is None:
        raise NotFoundError(
            f"The job has no candidate {decision.candidate_id}.", hint="List the job's candidates; some may be held."
        )
    if row.state != "waiting":
        raise ConflictError(
            f"The candidate {row.candidate_id} does not wait for a review: it is {row.state}.",
            hint="List the job's candidates.",
            candidate_id=row.candidate_id,
            state=row.state,
        )
    return row


def _check_hold(decision: reviews.Decision, hold: Hold | None) -> None:
    """Refuse to let through what the recall gate holds, for somebody who does not say that they know of it."""
    if hold is not None and decision.action == "accept" and decision.hold != hold.number:
        raise StaleReviewError(
            f"The recall gate holds the candidate {decision.candidate_id}; this is hold {hold.number} of its job.",
            hint="Look at the candidate again, and name its `hold` if you accept it all the same.",
            candidate_id=decision.candidate_id,
            hold=hold.number,
        )


def _check(row: CandidateRow, decision: reviews.Decision) -> None:
    """Refuse a decision on anything but what is there now."""
    revision = row.canonical_revision or 0
    if (decision.content_hash, decision.base_revision) != (row.content_hash, revision):
        raise StaleReviewError(
            f"The decision on {row.candidate_id} is about other content, or another record, than there is now.",
            hint="Look at the candidate again, and decide on what you see.",
            candidate_id=row.candidate_id,
            content_hash=hash_text(row.content_hash),
            base_revision=str(revision),
        )
