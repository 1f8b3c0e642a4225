"""ConsolidationJob resources: a person's job is registered, the operator's recognized, reviews are taken over.

The row is the job and the resource its face, so reconciling is short: whatever the resource says that the row does not
know yet goes into the row, and the row is woken. A reconcile that is repeated, late or doubled changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.branches import waits
from anabranch.consolidation import grouping, merging
from anabranch.model.canonical import hash_bytes
from anabranch.model.ids import LineId, new_job_id
from anabranch.model.limits import BULK_BATCHES
from anabranch.store import branches, jobs, openings, reviews, waiting
from anabranch.telemetry import of_operator as telemetry

if TYPE_CHECKING:
    from anabranch.kube.guard import ReviewGuard
    from anabranch.model.crd import ConsolidationJobResource
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow

KIND: Final = "ConsolidationJob"
JOB_BATCHES: Final = BULK_BATCHES
"""What a job decides on it has in memory, whoever made it."""


async def reconcile(db: Database, resource: ConsolidationJobResource, *, guard: ReviewGuard) -> None:
    """Bring the store up to what a ConsolidationJob says.

    Args:
        db: The store.
        resource: As read from the API server.
        guard: Tells whether admission controls who may write reviews into resources; if not, those in them are ignored.

    Raises:
        UnavailableError: If the store cannot be reached.
    """
    async with db.connection() as conn:
        job = await jobs.by_name(conn, namespace=resource.namespace, name=resource.name)
    if (job is None or job.deleted_at is not None) and await waits.stays_orphaned(db, resource):
        return
    if job is None or (job.uid != resource.uid and not await _fits(db, job, resource)):
        job = await _register(db, resource)
        if job is None:
            return
    async with db.connection() as conn:
        await jobs.set_uid(
            conn, line=job.line, job_id=job.job_id, uid=resource.uid, observed_generation=resource.generation
        )
        await jobs.save_spec(
            conn,
            line=job.line,
            job_id=job.job_id,
            observed_generation=resource.generation,
            lease_seconds=int(resource.spec.lease_duration.total_seconds()),
            retry_limit=resource.spec.retry_limit,
            ttl_seconds=resource.spec.ttl_seconds_after_finished,
        )
        await waits.settle(conn, resource)
    if await guard.gaps():
        return
    if await _take_reviews(db, job, resource):
        db.notify("work")


async def forget(db: Database, *, namespace: str, name: str, uid: str) -> None:
    """Note that the resource of a uid is gone. What its job does goes on, and its reviews are kept."""
    async with db.connection() as conn:
        await waiting.delete(conn, namespace=namespace, kind=KIND, name=name, uid=uid)
        job = await jobs.by_name(conn, namespace=namespace, name=name)
        if job is not None and job.uid == uid:
            await jobs.mark_deleted(conn, line=job.line, job_id=job.job_id)


async def _take_reviews(db: Database, job: JobRow, resource: ConsolidationJobResource) -> bool:
    """Take over the decisions and merges of a resource, and wake the job if they changed; both or neither."""
    singly = [
        reviews.Decision(
            candidate_id=decision.candidate_id,
            reviewer=review.reviewer,
            content_hash=hash_bytes(decision.content_hash),
            base_revision=int(decision.base_revision),
            action=decision.action,
            reason=decision.reason or "",
            hold=decision.hold,
        )
        for review in resource.spec.reviews
        for decision in review.decisions
    ]
    on_groups = [
        grouping.GroupDecision(
            group_id=decision.group_id,
            reviewer=review.reviewer,
            digest=decision.digest,
            action=decision.action,
            reason=decision.reason or "",
        )
        for review in resource.spec.reviews
        for decision in review.groups or ()
    ]
    async with db.transaction() as conn:
        noted = await reviews.sync_resource(
            conn,
            line=job.line,
            job_id=job.job_id,
            observed_generation=resource.generation,
            # What somebody says of one candidate comes after what they say of its group, and so counts.
            decisions=[*await grouping.in_resource(conn, job, on_groups), *singly],
        )
        changed = bool(noted)
        if job.finished_at is None and await merging.claim(conn, job, _claims(resource)):
            changed = True
        if changed:
            await jobs.wake(conn, line=job.line, job_id=job.job_id)
    named = {(decision.candidate_id, decision.reviewer) for decision in singly}
    for decision in noted:
        made = "single" if (decision.candidate_id, decision.reviewer) in named or not on_groups else "group"
        telemetry.DECISIONS.labels(decision.action, made).inc()
    return changed


def _claims(resource: ConsolidationJobResource) -> list[merging.Claim]:
    """The merges that stand in a resource, each in its author's own entry."""
    return [
        merging.Claim(
            author=review.reviewer,
            content_hash=hash_bytes(merge.content_hash),
            inputs=tuple(merge.inputs),
            base_revision=int(merge.base_revision),
            with_record=bool(merge.with_record),
        )
        for review in resource.spec.reviews
        for merge in review.merges or ()
    ]


async def _register(db: Database, resource: ConsolidationJobResource) -> JobRow | None:
    """Make the row of a job that a person applied; None if it must wait."""
    batches = resource.spec.batches
    needs = resource.branch or (resource.namespace, resource.name)
    if resource.spec.origin != "Branch" or batches is None:
        await waits.stall(
            db,
            resource,
            reason="UnknownJob",
            message="Only the operator makes jobs of this origin, and it knows none of this name. Delete the resource.",
            needs=needs,
        )
        return None
    if batches.through - batches.from_ >= JOB_BATCHES:
        await waits.stall(
            db,
            resource,
            reason="BatchesTooMany",
            message=f"A job takes {JOB_BATCHES} batches at most. Apply several jobs.",
            needs=needs,
        )
        return None
    branch = await _branch(db, resource)
    if branch is None:
        await waits.wait(
            db,
            resource,
            reason="BranchUnavailable",
            message="There is no such Branch yet, or its Baseline is not in this namespace.",
            needs=needs,
        )
        return None
    try:
        async with db.connection() as conn:
            return await openings.register_manual(
                conn,
                line=branch.line,
                job_id=new_job_id(LineId(branch.line)),
                namespace=resource.namespace,
                name=resource.name,
                uid=resource.uid,
                observed_generation=resource.generation,
                branch_id=branch.branch_id,
                from_sequence=batches.from_,
                through_sequence=batches.through,
                lease_seconds=int(resource.spec.lease_duration.total_seconds()),
                retry_limit=resource.spec.retry_limit,
                ttl_seconds=resource.spec.ttl_seconds_after_finished,
            )
    except openings.BatchesTakenError as error:
        await waits.stall(db, resource, reason=error.code, message=str(error), needs=needs)
        return None


async def _branch(db: Database, resource: ConsolidationJobResource) -> BranchRow | None:
    """The branch that a job names, if the job lies where the branch's Baseline does."""
    if resource.branch is None:
        return None
    namespace, name = resource.branch
    async with db.connection() as conn:
        branch = await branches.by_name(conn, namespace=namespace, name=name)
    return branch if branch and branch.baseline_namespace == resource.namespace else None


async def _fits(db: Database, job: JobRow, resource: ConsolidationJobResource) -> bool:
    """Whether a row is what a resource of its name asks for, so that the resource may stand for it (again)."""
    spec = resource.spec
    if job.origin != spec.origin:
        return False
    if spec.batches is not None and (job.from_sequence, job.through_sequence) != (
        spec.batches.from_,
        spec.batches.through,
    ):
        return False
    if resource.branch is None or job.branch_id is None:
        return resource.branch is None
    async with db.connection() as conn:
        branch = await branches.get(conn, job.branch_id)
    return branch is not None and (branch.namespace, branch.name) == resource.branch
