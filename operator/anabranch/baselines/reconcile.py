"""The reconcile of a Baseline: the spec is kept, then each part of it is followed, then what was met is told.

Every part compares what shall be with what is, in Postgres, and is one transaction or none: it may be repeated, and
two operators may do it at once. The generation of the spec counts as observed only at the end, together with the
conditions: nobody may read an old `Ready` as an answer to a new spec. An operator that was paused may come back with an
old spec in its hand: it finds a newer one observed and leaves all as it is, or, where it comes to that too late, has it
looked at again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from anabranch.baselines import finalizer, imports, pinning, recall, taking_up
from anabranch.baselines.conditions import Condition
from anabranch.branches import waits
from anabranch.kube.kinds import NAMESPACE
from anabranch.store import backups, jobs, lines, waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.kube.client import KubeClient
    from anabranch.kube.guard import ReviewGuard
    from anabranch.model.crd import BaselineResource
    from anabranch.store.database import Connection, Database
    from anabranch.store.lines import HeadRow, LineRow, LineState


async def reconcile(
    db: Database,
    resource: BaselineResource,
    *,
    kube: KubeClient,
    guard: ReviewGuard,
    models: Collection[str] = (),
) -> None:
    """Bring a line to what its Baseline says.

    Args:
        db: The store.
        resource: As read from the API server.
        kube: Reads its namespace and its ConfigMap, and writes its finalizer.
        guard: Tells whether what admission is to check in resources can be trusted.
        models: Names of the models that may be asked for proposals.

    Raises:
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    await finalizer.follow_policy(kube, resource)
    namespace = await kube.get(NAMESPACE, name=resource.namespace)
    gaps = await guard.gaps()
    asked = await recall.read(kube, resource)
    line, refusal = await _take_up(db, resource, namespace_uid=namespace["metadata"]["uid"], gaps=gaps, asked=asked)
    if line is None:
        return
    conditions = [
        *refusal,
        *await imports.follow(db, kube, line=line, resource=resource),
        # In this order: where one commit takes a pin out and puts a restore in, readers go from what was pinned to what
        # is restored, and never see between them what both keep from them.
        *await pinning.follow_restore(db, line=line, restore=resource.spec.restore),
        *await pinning.follow_pin(db, line=line, pin=resource.spec.pin),
    ]
    conditions += asked.told
    if gaps:
        conditions.append(Condition("ReviewGuardMissing", "PolicyMissing", " ".join(gaps)))
    conditions += _unavailable(resource, models)
    async with db.transaction() as conn:
        await _conclude(conn, resource, line=line, conditions=conditions)
    db.notify("work")
    db.notify("status")


async def forget(db: Database, *, namespace: str, name: str, uid: str) -> None:
    """Note that the resource of a uid is gone; its line and all data stay, for a namesake to take up."""
    async with db.connection() as conn:
        await waiting.delete(conn, namespace=namespace, kind="Baseline", name=name, uid=uid)
        state = await lines.find(conn, namespace=namespace, name=name)
        if state is not None:
            await lines.mark_deleted(conn, line=state.line.line, uid=uid)


async def _conclude(conn: Connection, resource: BaselineResource, *, line: str, conditions: list[Condition]) -> None:
    """Write what came of a reconcile; if another one came in between, whose spec differs, have all looked at again."""
    row = await lines.lock(conn, line)
    if _is_outdated(resource, row):
        await lines.set_due(conn, line=line, delay=timedelta())
        return
    head = await lines.head(conn, line)
    if head.suspended != resource.spec.suspend or not pinning.stands(head, pin=resource.spec.pin, told=conditions):
        await lines.set_due(conn, line=line, delay=timedelta())
    await lines.save_spec(
        conn,
        line=line,
        observed_generation=resource.generation,
        policy=_policy(resource),
        suspended=resource.spec.suspend,
    )
    told = [*conditions, *_paused(head)]
    await lines.set_conditions(conn, line=line, conditions=[condition.row() for condition in told])
    await waiting.delete(conn, namespace=resource.namespace, kind="Baseline", name=resource.name)
    if head.head_generation:
        await waiting.wake(conn, needs_namespace=resource.namespace, needs_name=resource.name)


def _is_outdated(resource: BaselineResource, row: LineRow) -> bool:
    """Whether a newer spec of the same Baseline was followed already: by a faster operator, or while we were paused."""
    return row.uid == resource.uid and row.observed_generation > resource.generation


async def _take_up(
    db: Database, resource: BaselineResource, *, namespace_uid: str, gaps: Sequence[str], asked: recall.Asked
) -> tuple[str | None, list[Condition]]:
    """Take the line up, with the policy that the following steps and all jobs go by.

    Returns:
        The line's id, and what is to be said about it. None: the Baseline waits for somebody to name one, or is
        another by now.
    """
    async with db.transaction() as conn:
        state, refusal = await taking_up.take_up(conn, resource, namespace_uid=namespace_uid, gaps=gaps)
        if state is not None and _is_outdated(resource, state.line):
            return None, []
        if state is not None:
            # With the line, not after it: no job may go on under the policy of whoever had it before.
            await _keep_policy(conn, resource, state)
            await recall.keep(conn, line=state.line.line, resource=resource, asked=asked)
            return state.line.line, refusal
    needs = (resource.namespace, resource.name)
    for condition in refusal:
        await waits.stall(db, resource, reason=condition.reason, message=condition.message, needs=needs)
    return None, refusal


async def _keep_policy(conn: Connection, resource: BaselineResource, state: LineState) -> None:
    policy = _policy(resource)
    await lines.save_spec(
        conn,
        line=state.line.line,
        observed_generation=state.line.observed_generation,
        policy=policy,
        suspended=resource.spec.suspend,
    )
    backup = resource.spec.backup
    await backups.follow(
        conn,
        line=state.line.line,
        # Admission wants a target; if it was not asked, nothing is published, rather than without a backup.
        target=(backup.target or "") if backup.policy == "BeforePublish" else None,
        max_age=backup.max_age,
    )
    if state.line.policy != policy:
        # What waits may need fewer reviewers now.
        await jobs.wake_waiting(conn, line=state.line.line)


def _policy(resource: BaselineResource) -> dict[str, Any]:
    return {
        "review": resource.spec.review.model_dump(mode="json", by_alias=True),
        "limits": resource.spec.limits.model_dump(mode="json", by_alias=True),
        "retention": resource.spec.retention.model_dump(mode="json", by_alias=True),
    }


def _unavailable(resource: BaselineResource, models: Collection[str]) -> list[Condition]:
    proposals = resource.spec.review.proposals
    if proposals is None or proposals.model in models:
        return []
    message = (
        f"The operator's configuration has no model {proposals.model}: nothing is proposed. Name another one in"
        " spec.review.proposals.model, or have it added to the chart's `models`."
    )
    return [Condition("ProposalsUnavailable", "ModelUnknown", message)]


def _paused(head: HeadRow) -> list[Condition]:
    if head.pinned_generation is not None:
        message = f"Generation {head.pinned_generation} is pinned. Remove spec.pin to return to the head and go on."
        return [Condition("ConsolidationPaused", "Pinned", message)]
    if head.suspended:
        return [Condition("ConsolidationPaused", "Suspended", "Set spec.suspend to false to go on.")]
    return []
