"""The resources of jobs that the operator made: the row came first, and is complete without one.

The resource's name is fixed in the row, so a process that died between creating it and noting its uid finds it on the
next try, and takes it for its own if its spec is what the row says. If it is not, somebody else took the name: the job
goes on without a resource, and the Baseline's Events say so.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import structlog

from anabranch.controllers.homes import LABEL
from anabranch.domain import backoff
from anabranch.kube.errors import AlreadyExistsError
from anabranch.kube.events import ObjectRef, Occurrence
from anabranch.kube.kinds import BASELINE, BRANCH, JOB
from anabranch.model.crd import ConsolidationJobResource
from anabranch.model.errors import AnabranchError
from anabranch.model.stores import DEFAULT_STORE
from anabranch.store import branches, jobs, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.controllers.announcer import Announcer
    from anabranch.kube.client import KubeClient
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow

_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 50
_LONGEST_RETRY_SECONDS: Final = 60.0
_GENERATED: Final = {"app.kubernetes.io/managed-by": "anabranch"}


class Births:
    """Creates the resources of jobs that have none. A look of the wake queue.

    Args:
        db: Of the jobs.
        kube: Where the resources are created.
        announcer: Tells of names that are taken.
        changed: Called when a job has got its resource: its status is to be written.
        store: That of this operator, which the resources are labelled with.
    """

    name = "births"

    def __init__(
        self,
        db: Database,
        kube: KubeClient,
        *,
        announcer: Announcer,
        changed: Callable[[], None],
        store: str = DEFAULT_STORE,
    ) -> None:
        self._store = store
        self._db = db
        self._kube = kube
        self._announcer = announcer
        self._changed = changed
        self._failures: dict[str, tuple[int, float]] = {}  # of a job: how many, and when to try again

    async def look(self) -> bool:
        """Create some; whether there may be more that can be created now."""
        now = asyncio.get_running_loop().time()
        async with self._db.connection() as conn:
            unborn = await jobs.unborn(conn, limit=_AT_ONCE)
        ready = [job for job in unborn if self._failures.get(job.job_id, (0, 0.0))[1] <= now]
        born = await asyncio.gather(*(self._try(job) for job in ready))
        if any(born):
            self._changed()
        return len(unborn) == _AT_ONCE and any(born)

    async def _try(self, job: JobRow) -> bool:
        try:
            await self._bear(job)
        except AnabranchError as error:
            count = self._failures.get(job.job_id, (0, 0.0))[0] + 1
            seconds = backoff.delay(count, chance=random.random(), limit=_LONGEST_RETRY_SECONDS)  # noqa: S311  (jitter)
            self._failures[job.job_id] = (count, asyncio.get_running_loop().time() + seconds)
            _log.warning("job has no resource yet", job=f"{job.namespace}/{job.name}", error=str(error))
            return False
        self._failures.pop(job.job_id, None)
        return True

    async def _bear(self, job: JobRow) -> None:
        async with self._db.connection() as conn:
            branch = await branches.get(conn, job.branch_id) if job.branch_id is not None else None
        body = resource_of(job, branch, store=self._store)
        try:
            made = await self._kube.create(JOB, body, namespace=job.namespace)
        except AlreadyExistsError as error:
            made = await self._kube.get(JOB, namespace=job.namespace, name=job.name)
            if not _is_same(made, body):
                await self._tell_taken(job)
                raise AlreadyExistsError(
                    f"Another ConsolidationJob has the name {job.namespace}/{job.name}.",
                    hint="Delete it: the operator made this name for a job of its own, which goes on without it.",
                ) from error
        async with self._db.connection() as conn:
            await jobs.set_uid(
                conn,
                line=job.line,
                job_id=job.job_id,
                uid=made["metadata"]["uid"],
                observed_generation=made["metadata"]["generation"],
            )

    async def _tell_taken(self, job: JobRow) -> None:
        async with self._db.connection() as conn:
            line = (await lines.get(conn, job.line)).line
        about = ObjectRef(BASELINE, line.namespace, line.name, line.uid)
        note = f"Another ConsolidationJob has the name {job.name}: delete it, so that its job can be seen and reviewed."
        self._announcer.tell(about, Occurrence("NameTaken", note, key=job.job_id, type="Warning"))


def resource_of(job: JobRow, branch: BranchRow | None, *, store: str = DEFAULT_STORE) -> dict[str, Any]:
    """The ConsolidationJob that stands for a job.

    Where job and Branch share a namespace, the Branch owns the job, so that Kubernetes collects it with the Branch;
    across namespaces Kubernetes knows no owners.
    """
    metadata: dict[str, Any] = {"name": job.name, "labels": {**_GENERATED, LABEL: store}}
    spec: dict[str, Any] = {"origin": job.origin}
    if branch is not None:
        spec["branchRef"] = {"namespace": branch.namespace, "name": branch.name}
        if branch.namespace == job.namespace and branch.deleted_at is None:
            owner = {"apiVersion": BRANCH.api_version, "kind": BRANCH.name, "name": branch.name, "uid": branch.uid}
            metadata["ownerReferences"] = [owner]
    if job.from_sequence is not None:
        spec["batches"] = {"from": job.from_sequence, "through": job.through_sequence}
    if job.ttl_seconds is not None:
        spec["ttlSecondsAfterFinished"] = job.ttl_seconds
    return {"metadata": metadata, "spec": spec}


def _is_same(found: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a resource asks for what the body does, in what cannot be changed later."""
    wanted = {**found, "spec": body["spec"]}
    one, other = (ConsolidationJobResource.parse(item) for item in (found, wanted))
    return (one.spec.origin, one.branch, one.spec.batches) == (other.spec.origin, other.branch, other.spec.batches)
