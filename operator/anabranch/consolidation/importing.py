"""Import: the batches of a job become candidates, one row a change.

What the branch's own policy keeps back is refused here, by name, before anybody else sees it: the content of a
refused private change is not even copied. Every batch is one transaction, and a candidate's place in its job is the
key, so a worker that died in between is repeated without a trace.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.consolidation.outcomes import tallied
from anabranch.domain.sharing import Sharing
from anabranch.identity import Caller, grants
from anabranch.model.canonical import canonical_bytes, sha256
from anabranch.model.errors import NotReadyError
from anabranch.model.ids import LineId, new_candidate_id
from anabranch.model.objects import FindingBatch
from anabranch.store import batches, branches, candidates, contents, leases

if TYPE_CHECKING:
    from anabranch.consolidation.services import Services
    from anabranch.store.batches import BatchRow
    from anabranch.store.branches import BranchRow
    from anabranch.store.jobs import JobRow


@dataclass(frozen=True, slots=True)
class _Imported:
    """What one batch becomes."""

    candidates: list[candidates.CandidateRow]
    contents: dict[bytes, bytes]


async def begin(services: Services, job: JobRow) -> JobRow:
    """Take a received job up."""
    async with services.db.connection() as conn:
        return await leases.advance(conn, job=job, to_state="importing")


async def import_batches(services: Services, job: JobRow) -> JobRow:
    """Make candidates of a job's batches, then let it be validated.

    Raises:
        NotReadyError: If a batch is not there, which only a restore of the database can bring about.
    """
    async with services.db.connection() as conn:
        branch = await branches.get(conn, job.branch_id or "")
    if branch is None or job.from_sequence is None or job.through_sequence is None:
        raise NotReadyError("The job's branch is not there.", hint="Delete the job.")
    ordinal = 0
    for sequence in range(job.from_sequence, job.through_sequence + 1):
        async with services.db.connection() as conn:
            batch = await batches.get(conn, line=job.line, branch_id=branch.branch_id, sequence=sequence)
        if batch is None:
            raise NotReadyError(f"Batch {sequence} of the job is not there.", hint="Submit it again.")
        findings = await asyncio.to_thread(FindingBatch.model_validate_json, batch.body)
        refusals = await _refusals(services, branch, findings)
        imported = await asyncio.to_thread(_read, job, branch, batch, findings, refusals, first=ordinal)
        async with services.db.transaction() as conn:
            await contents.put_many(conn, line=job.line, bodies=imported.contents)
            await candidates.insert(conn, imported.candidates)
        ordinal += len(imported.candidates)
    async with services.db.transaction() as conn:
        states = await candidates.states(conn, line=job.line, job_id=job.job_id)
        return await leases.advance(
            conn, job=job, to_state="validating", counts=tallied(states), detail=f"{ordinal} candidates"
        )


async def _refusals(services: Services, branch: BranchRow, findings: FindingBatch) -> list[tuple[str, str] | None]:
    """For each change why it may not leave its branch, or None."""
    sharing = Sharing.parse(branch.sharing_policy)
    agent = Caller.for_service_account(branch.namespace, branch.service_account)
    # Asked before anything is copied: once a candidate, reviewers see it.
    exportable = await services.grants.scopes(
        agent,
        grants.SCOPE_EXPORT,
        namespace=branch.baseline_namespace,
        scopes=sorted({change.scope for change in findings.changes if change.visibility == "private"}),
    )
    return [
        sharing.refusal(scope=change.scope, visibility=change.visibility)
        or (
            ("ExportNotGranted", f"the change is private, and {agent.username} lacks `export` on scope {change.scope}")
            if change.visibility == "private" and change.scope not in exportable
            else None
        )
        for change in findings.changes
    ]


def _read(  # noqa: PLR0913  (what a candidate is made of)
    job: JobRow,
    branch: BranchRow,
    batch: BatchRow,
    findings: FindingBatch,
    refusals: list[tuple[str, str] | None],
    *,
    first: int,
) -> _Imported:
    """The candidates of a batch, numbered from ``first``."""
    author = Caller.for_service_account(branch.namespace, branch.service_account).username
    imported = _Imported([], {})
    for index, change in enumerate(findings.changes):
        body = canonical_bytes(change.content)
        digest = sha256(body)
        refusal = refusals[index]
        if refusal is None:
            imported.contents[digest] = body
        reason, detail = refusal or ("", "")
        imported.candidates.append(
            candidates.CandidateRow(
                line=job.line,
                candidate_id=new_candidate_id(LineId(job.line)),
                job_id=job.job_id,
                origin_job=job.job_id,
                ordinal=first + index,
                branch_id=branch.branch_id,
                run_id=branch.run_id,
                author=author,
                op=change.op,
                key=change.key,
                scope=change.scope,
                visibility=change.visibility,
                content_hash=digest,
                base_revision=int(findings.base_revisions[index]),
                sources=tuple(
                    {"locator": locator, "status": "pending", "detail": ""}
                    for locator in findings.source_locators[index]
                ),
                origin_runs=(branch.run_id,),
                observed_at=findings.observed_at or batch.received_at,
                state="rejected" if refusal else "pending",
                reason=reason,
                detail=detail,
            )
        )
    return imported
