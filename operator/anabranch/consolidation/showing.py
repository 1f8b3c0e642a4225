"""What is shown of a job's candidates: to reviewers, and to the agent whose findings they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch.baselines.records import fact
from anabranch.consolidation import gating
from anabranch.consolidation.read import check_whole
from anabranch.domain.sharing import KEPT_BACK
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.objects import KnowledgeCandidate, SimilarCandidate, SourceCheck
from anabranch.store import branches, candidates, evidence, likenesses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from anabranch.identity import Caller
    from anabranch.store.candidates import CandidateRow, CandidateView
    from anabranch.store.database import Connection, Database
    from anabranch.store.evidence import EvidenceRow
    from anabranch.store.jobs import JobRow


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
    check_whole(job, "candidates")
    async with db.connection() as conn:
        found, more = await candidates.with_content(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
        own = await _own_branches(conn, caller, found)
        ids = [view.candidate.candidate_id for view in found if view.candidate.reason not in KEPT_BACK]
        like = await likenesses.of(conn, line=job.line, candidate_ids=ids)
        _, holds = await gating.heard(conn, line=job.line, job_ids=[job.job_id])
    hold = holds[job.job_id].number if job.job_id in holds else None
    shown = [
        _kept_back(view.candidate)
        if view.candidate.reason in KEPT_BACK and view.candidate.branch_id not in own
        else _candidate(view, readable, _like(like.get(view.candidate.candidate_id), branch_id), hold=hold)
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


async def _own_branches(conn: Connection, caller: Caller, found: Iterable[CandidateView]) -> set[str]:
    """Those branches of which something was kept back whose agent the caller is."""
    asked = {view.candidate.branch_id for view in found if view.candidate.reason in KEPT_BACK}
    named = [await branches.get(conn, branch_id) for branch_id in asked if branch_id and caller.service_account]
    return {
        branch.branch_id
        for branch in named
        if branch is not None and caller.service_account == (branch.namespace, branch.service_account)
    }


def _for_all(row: CandidateRow) -> Mapping[str, Any]:
    """What whoever sees the job may know of each of its candidates."""
    return {
        "candidate_id": row.candidate_id,
        "job_id": row.job_id,
        "branch_id": row.branch_id,
        "run_id": row.run_id,
        "author": row.author,
        "op": row.op,
        "scope": row.scope,
        "visibility": row.visibility,
        "origin_runs": row.origin_runs,
        "observed_at": row.observed_at,
        "state": row.state,
        "reason": row.reason,
        "detail": row.detail,
    }


def _kept_back(row: CandidateRow) -> KnowledgeCandidate:
    """That there is a change which its branch keeps back, and nothing that tells which.

    Its key names what an agent is about, its hash confirms a guess of the content, and its sources and base revision
    lead to both.
    """
    return KnowledgeCandidate.model_construct(
        **_for_all(row),
        key=None,
        content=None,
        content_hash=None,
        base_revision="0",
        source_locators=(),
        sources=(),
        conflicting=False,
        canonical=None,
        mark=None,
        origin="finding",
        inputs=(),
        model=None,
        group_id=None,
        similar=(),
        hold=None,
    )


def _like(told: likenesses.Told | None, branch_id: str | None) -> Mapping[str, Any]:
    """What is told beside a candidate of those that it is like, to its own branch's agent only of that branch's."""
    if told is None:
        return {"group_id": None, "similar": ()}
    similar = tuple(
        SimilarCandidate(candidate_id=each.candidate_id, job_id=each.job_id, state=each.state, likeness=each.likeness)
        for each in told.similar
        if branch_id in {None, each.branch_id}
    )
    return {"group_id": told.group_id, "similar": similar}


def _candidate(
    view: CandidateView, readable: Collection[str] | None, like: Mapping[str, Any], *, hold: int | None
) -> KnowledgeCandidate:
    row, record = view.candidate, view.canonical
    shown = record is not None and (readable is None or record.scope in readable)
    # What was kept back was not stored, but something else may have the same content: whether it does, nobody is told.
    sources = tuple(SourceCheck.model_construct(**source) for source in row.sources)
    return KnowledgeCandidate.model_construct(
        **_for_all(row),
        key=row.key,
        content=None if view.content is None or row.reason in KEPT_BACK else json.loads(view.content),
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        source_locators=tuple(source.locator for source in sources),
        sources=sources,
        conflicting=row.conflicting,
        canonical=fact(row.key, record) if record is not None and shown else None,
        mark=row.mark,
        origin=row.origin,
        inputs=row.inputs or (),
        model=row.model,
        hold=hold if row.state == "waiting" else None,
        **like,
    )
