"""What is told of consolidation jobs: to reviewers, and to the agent whose findings they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch.baselines.records import fact
from anabranch.domain.sharing import KEPT_BACK
from anabranch.model.answers import ReviewEntry, Transition
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError, ReclaimedError
from anabranch.model.ids import is_id
from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate, SourceCheck
from anabranch.store import branches, candidates, evidence, jobs, lines, projection, reviews

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from anabranch.identity import Caller
    from anabranch.model.objects import JobState
    from anabranch.store.branches import BranchRow
    from anabranch.store.candidates import CandidateRow, CandidateView
    from anabranch.store.database import Connection, Database
    from anabranch.store.evidence import EvidenceRow
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


async def candidate_page(  # noqa: PLR0913  (a page has that many bounds)
    db: Database,
    job: JobRow,
    *,
    caller: Caller,
    branch_id: str | None,
    readable: Collection[str] | None,
    after: str,
    limit: int,
) -> tuple[list[KnowledgeCandidate], str | None]:
    """A job's candidates by id, with both sides of what a reviewer decides.

    Args:
        db: The store.
        job: The job.
        caller: Who asks. What a branch keeps back is told to its own agent; others learn that there is something.
        branch_id: Only those that this branch submitted; None: all.
        readable: Scopes whose records may be shown beside a candidate; None: all. Whoever proposes something for a key
            must not be shown what stands there if they may not read it: guessing keys would be reading.
        after: The last id of the page before.
        limit: How many at most; where they are large, fewer come.

    Returns:
        Those to be seen, and the id to go on after; None when there are no more.

    Raises:
        ReclaimedError: If retention has removed them.
    """
    if job.kept != "whole":
        raise ReclaimedError(
            "The job is done, and retention has removed its candidates.", hint="What it published is in the baseline."
        )
    async with db.connection() as conn:
        found, more = await candidates.with_content(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
        own = await _own_branches(conn, caller, found)
    shown = [
        _kept_back(view.candidate)
        if view.candidate.reason in KEPT_BACK and view.candidate.branch_id not in own
        else _candidate(view, readable)
        for view in found
        if branch_id is None or view.candidate.branch_id == branch_id
    ]
    return shown, found[-1].candidate.candidate_id if more else None


async def cited_evidence(db: Database, job: JobRow, *, branch_id: str | None, digest: bytes) -> EvidenceRow:
    """A blob that a finding of the job cites: whoever is to judge the finding must be able to read what it rests on.

    Nothing else of a branch's evidence is shown, and nothing that a change cites which its branch keeps back.

    Args:
        db: The store.
        job: The job.
        branch_id: Only what candidates of this branch cite; None: of any.
        digest: SHA-256 of the blob, 32 bytes.

    Raises:
        NotFoundError: If no candidate that is shown cites it, or it is gone: in the same words.
    """
    locator = f"evidence:{hash_text(digest)}"
    async with db.connection() as conn:
        for branch, reason in await candidates.citing(conn, line=job.line, job_id=job.job_id, locator=locator):
            if reason in KEPT_BACK or branch_id not in {None, branch}:
                continue
            row = await evidence.get(conn, line=job.line, branch_id=branch, digest=digest)
            if row is not None:
                return row
    raise NotFoundError(
        f"No candidate of the job cites evidence {hash_text(digest)}, or it is kept no more.",
        hint="List the job's candidates: `sources` names what each cites.",
    )


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
    if job.kept != "whole":
        raise ReclaimedError(
            "The job is done, and retention has removed its reviews.", hint="What it published is in the baseline."
        )
    async with db.connection() as conn:
        found = await reviews.history(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
        rows = await candidates.of_job(conn, line=job.line, job_id=job.job_id) if branch_id and found else []
    own = {row.candidate_id for row in rows if row.branch_id == branch_id}
    shown = [review_entry(row) for row in found if branch_id is None or row.candidate_id in own]
    return shown, found[-1].ordinal if len(found) == limit else None


def review_entry(row: ReviewRow) -> ReviewEntry:
    """A decision as it travels."""
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
    )


async def _own_branches(conn: Connection, caller: Caller, found: Iterable[CandidateView]) -> set[str]:
    """Those branches of which something was kept back whose agent the caller is."""
    asked = {view.candidate.branch_id for view in found if view.candidate.reason in KEPT_BACK}
    named = [await branches.get(conn, branch_id) for branch_id in asked if branch_id and caller.service_account]
    return {
        branch.branch_id
        for branch in named
        if branch is not None and caller.service_account == (branch.namespace, branch.service_account)
    }


def _kept_back(row: CandidateRow) -> KnowledgeCandidate:
    """That there is a change which its branch keeps back, and nothing that tells which.

    Its key names what an agent is about, its hash confirms a guess of the content, and its sources and base revision
    lead to both.
    """
    return KnowledgeCandidate.model_construct(
        candidate_id=row.candidate_id,
        job_id=row.job_id,
        branch_id=row.branch_id,
        run_id=row.run_id,
        author=row.author,
        op=row.op,
        key=None,
        content=None,
        scope=row.scope,
        visibility=row.visibility,
        content_hash=None,
        base_revision="0",
        source_locators=(),
        sources=(),
        origin_runs=row.origin_runs,
        observed_at=row.observed_at,
        state=row.state,
        conflicting=False,
        reason=row.reason,
        detail=row.detail,
        canonical=None,
        mark=None,
    )


def _candidate(view: CandidateView, readable: Collection[str] | None) -> KnowledgeCandidate:
    row, record = view.candidate, view.canonical
    shown = record is not None and (readable is None or record.scope in readable)
    # What was kept back was not stored, but something else may have the same content: whether it does, nobody is told.
    sources = tuple(SourceCheck.model_construct(**source) for source in row.sources)
    return KnowledgeCandidate.model_construct(
        candidate_id=row.candidate_id,
        job_id=row.job_id,
        branch_id=row.branch_id,
        run_id=row.run_id,
        author=row.author,
        op=row.op,
        key=row.key,
        content=None if view.content is None or row.reason in KEPT_BACK else json.loads(view.content),
        scope=row.scope,
        visibility=row.visibility,
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        source_locators=tuple(source.locator for source in sources),
        sources=sources,
        origin_runs=row.origin_runs,
        observed_at=row.observed_at,
        state=row.state,
        conflicting=row.conflicting,
        reason=row.reason,
        detail=row.detail,
        canonical=fact(row.key, record) if record is not None and shown else None,
        mark=row.mark,
    )
