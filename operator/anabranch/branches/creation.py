"""Creates a Branch resource on behalf of a caller of the API, and tells what became of it.

The API's account may create Branches and read none, so what became of one is read from the store, where the operator's
fork shows. The name makes the request idempotent: whoever lost the answer asks again, and gets the same branch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from anabranch.branches import read
from anabranch.identity import grants
from anabranch.kube.errors import AlreadyExistsError
from anabranch.kube.kinds import BRANCH
from anabranch.model.answers import BranchPending
from anabranch.model.crd import Agent, BaselineRef, BranchSpec, Lease, SharingPolicy
from anabranch.model.errors import ConflictError, InvalidInputError
from anabranch.model.objects import SharingPolicy as WireSharingPolicy

if TYPE_CHECKING:
    from anabranch.identity import Caller, Grants
    from anabranch.kube.client import KubeClient
    from anabranch.model.requests import BranchRequest
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database

CREATED_BY: Final = "anabranch.dev/created-by"
"""Annotation: who asked for the Branch, since the API server knows only the API's account."""

WAIT_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.05
_LAST_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    Attributes:
        branch: The branch, or what it waits for.
        new: Whether this request made it.
    """

    branch: BranchRow | BranchPending
    new: bool


async def create(  # noqa: PLR0913  (the parts, who, where and what)
    db: Database, kube: KubeClient, asked: Grants, caller: Caller, *, namespace: str, request: BranchRequest
) -> Outcome:
    """Create a Branch, and wait a moment for its fork.

    Args:
        db: The store.
        kube: The API server, as the API's account.
        asked: Answers what the caller may do.
        caller: Who asks; they hold the grant to create branches there.
        namespace: Where.
        request: What.

    Raises:
        InvalidInputError: If no ServiceAccount is named and the caller is none of that namespace.
        ForbiddenError: If the agent is another ServiceAccount, and the caller may not delegate to it.
        ConflictError: If there is another Branch of that name, and it has forked.
        NotFoundError: If there is no such namespace.
    """
    account = request.service_account or _own_account(caller, namespace)
    if caller.service_account != (namespace, account):
        await asked.require(caller, grants.DELEGATE, namespace=namespace, name=account)
    spec = _spec(request, account)
    body = {
        "metadata": {"name": request.name, "annotations": {CREATED_BY: caller.username}},
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    try:
        made = await kube.create(BRANCH, body, namespace=namespace)
    except AlreadyExistsError:
        return Outcome(await _same(db, namespace, spec, request.name), new=False)
    return Outcome(await _forked(db, namespace, request.name, made["metadata"]["uid"]), new=True)


def _own_account(caller: Caller, namespace: str) -> str:
    own = caller.service_account
    if own is None or own[0] != namespace:
        raise InvalidInputError(
            f"{caller.username} is no ServiceAccount of namespace {namespace}, so `service_account` has no default.",
            hint="Name the agent's ServiceAccount.",
        )
    return own[1]


def _spec(request: BranchRequest, account: str) -> BranchSpec:
    policy = request.sharing_policy
    return BranchSpec(
        baseline_ref=BaselineRef(
            namespace=request.baseline_namespace, name=request.baseline, generation=request.generation
        ),
        agent=Agent(id=request.agent_id, instance=request.agent_instance, service_account_name=account),
        task=request.task,
        sharing_policy=SharingPolicy(**policy.model_dump()),
        follow=request.follow,
        lease=Lease(duration=timedelta(seconds=request.lease_seconds)),
        ttl_after_finished=request.ttl_after_finished,
    )


async def _forked(db: Database, namespace: str, name: str, uid: str) -> BranchRow | BranchPending:
    """The branch of a resource that was just created, or what it waits for after a while."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    pause = _FIRST_PAUSE
    while True:
        found = await read.forked(db, namespace=namespace, name=name, uid=uid)
        # A reason is given once the operator has looked at it: waiting longer would hardly change that.
        if not isinstance(found, BranchPending) or found.reason or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)


async def _same(db: Database, namespace: str, spec: BranchSpec, name: str) -> BranchRow | BranchPending:
    """The branch that the same request made before; pending while none can tell it from another's of that name.

    Raises:
        ConflictError: If it is another's.
    """
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while (row := await read.find(db, namespace=namespace, name=name)) is None:
        if await read.waits(db, namespace=namespace, name=name) or asyncio.get_running_loop().time() > deadline:
            return BranchPending(
                namespace=namespace,
                name=name,
                reason="",  # perhaps of somebody else's Branch
                detail="There is a Branch of this name that has not forked yet: whose it is will show then.",
            )
        await asyncio.sleep(_LAST_PAUSE)
    if _asked(spec, namespace) != _made(row, spec):
        raise ConflictError(
            f"There is another Branch {namespace}/{name}.", hint="Take another name.", reason="AlreadyExists"
        )
    return row


def _asked(spec: BranchSpec, namespace: str) -> tuple[Any, ...]:
    return (
        spec.baseline_ref.namespace or namespace,
        spec.baseline_ref.name,
        spec.baseline_ref.generation,
        spec.agent.agent_id,
        spec.agent.instance,
        spec.agent.service_account_name,
        spec.task,
        WireSharingPolicy(**spec.sharing_policy.model_dump()),
        spec.follow,
        spec.lease.duration.total_seconds(),
    )


def _made(row: BranchRow, spec: BranchSpec) -> tuple[Any, ...]:
    return (
        row.baseline_namespace,
        row.baseline_name,
        row.forked_generation if spec.baseline_ref.generation is not None else None,
        row.agent_id,
        row.agent_instance,
        row.service_account,
        row.task,
        WireSharingPolicy.model_validate(row.sharing_policy),
        row.follow,
        row.lease_seconds,
    )
