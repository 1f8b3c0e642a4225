"""What is done about each kind: the services, given what they need of this process.

The one place where the controllers and the services meet; everything above it knows kinds only by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.baselines import deletion, finalizer
from anabranch.baselines import reconcile as baselines
from anabranch.branches import reconcile as branches
from anabranch.consolidation import jobs
from anabranch.controllers.reconciler import Controller
from anabranch.kube.events import ObjectRef, Occurrence
from anabranch.kube.kinds import BASELINE, BRANCH, JOB
from anabranch.model.crd import BaselineResource, BranchResource, ConsolidationJobResource
from anabranch.quality import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from anabranch.controllers.keys import Key
    from anabranch.identity import Grants
    from anabranch.kube.client import KubeClient
    from anabranch.kube.guard import ReviewGuard
    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Database


def controllers(  # noqa: PLR0913  (what the services need)
    db: Database,
    *,
    kube: KubeClient,
    grants: Grants,
    guard: ReviewGuard,
    models: Collection[str],
    agents: Database,
    tell: Callable[[ObjectRef, Occurrence], None],
) -> Mapping[OwnName, Controller]:
    """A controller for each kind.

    Args:
        db: The database.
        kube: To the API server.
        grants: Asked on agents' behalf.
        guard: Whether reviews on resources count.
        models: Names of those that may be asked.
        agents: The database of agents, which may be another one.
        tell: Sends an Event.
    """

    async def reconcile_baseline(resource: BaselineResource) -> None:
        await baselines.reconcile(db, resource, kube=kube, guard=guard, models=models)
        await counting.begin(db, namespace=resource.namespace, name=resource.name)

    async def reconcile_branch(resource: BranchResource) -> None:
        await branches.reconcile(db, resource, grants=grants, ids=agents)

    async def reconcile_job(resource: ConsolidationJobResource) -> None:
        await jobs.reconcile(db, resource, guard=guard)

    async def forget_baseline(key: Key, uid: str) -> None:
        await baselines.forget(db, namespace=key.namespace, name=key.name, uid=uid)

    async def release_baseline(body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        ending = await deletion.release(db, body, kube=kube)
        if ending.note:
            about = ObjectRef(BASELINE, metadata["namespace"], metadata["name"], metadata["uid"])
            tell(about, Occurrence(ending.reason, ending.note, key=metadata["uid"]))

    async def forget_branch(key: Key, uid: str) -> None:
        await branches.forget(db, namespace=key.namespace, name=key.name, uid=uid)

    async def forget_job(key: Key, uid: str) -> None:
        await jobs.forget(db, namespace=key.namespace, name=key.name, uid=uid)

    return {
        "Baseline": Controller(
            BASELINE,
            BaselineResource,
            reconcile_baseline,
            forget_baseline,
            needs_visit=finalizer.needs_visit,
            release=release_baseline,
        ),
        "Branch": Controller(BRANCH, BranchResource, reconcile_branch, forget_branch),
        "ConsolidationJob": Controller(JOB, ConsolidationJobResource, reconcile_job, forget_job),
    }
