"""The reconcile of a Branch: fork it, if the agent may, or say what it waits for.

Whoever applies a Branch only orders a run. Whether the memory may be forked is asked of the agent's own grant, in
the Baseline's namespace, and nobody learns more than that agent may know: a Baseline that is absent, not imported
yet, or not granted reads the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.branches import consent, rebasing, waits
from anabranch.identity import Caller, grants
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.ids import LineId, new_branch_id, new_run_id
from anabranch.store import agents, branches, drift, durability, lines, purging, waiting

if TYPE_CHECKING:
    from anabranch.identity import Grants
    from anabranch.model.crd import BranchResource
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.lines import LineState


async def reconcile(db: Database, resource: BranchResource, *, grants: Grants, ids: Database | None = None) -> None:
    """Bring the store up to what a Branch says.

    Args:
        db: The store.
        resource: As read from the API server.
        grants: Answers what its agent may do.
        ids: Where it is kept whose the agents' ids are, if that is another store.

    Raises:
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    async with db.connection() as conn:
        branch = await branches.by_uid(conn, namespace=resource.namespace, name=resource.name, uid=resource.uid)
    if (branch is None or branch.deleted_at is not None) and await waits.stays_orphaned(db, resource):
        return
    if branch is None:
        branch = await _fork(db, resource, grants, ids or db)
    if branch is None:
        return
    granted = await consent.check(db, branch, asked=grants)
    obstacle = await rebasing.rebase(db, branch, resource, asked=grants) if granted else None
    async with db.transaction() as conn:
        if branch.deleted_at is not None:
            await drift.take_back_branch(conn, namespace=branch.namespace, name=branch.name, uid=branch.uid)
        await branches.update_spec(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            observed_generation=resource.generation,
            task=resource.spec.task,
            sharing_policy=_sharing_policy(resource),
            follow=resource.spec.follow,
            lease_seconds=_lease_seconds(resource),
            ttl_seconds=_ttl_seconds(resource),
        )
        if granted and obstacle is None:
            await waits.settle(conn, resource)
        # Jobs that a person applied before the branch was there.
        await waiting.wake(conn, needs_namespace=resource.namespace, needs_name=resource.name)
    needs = resource.baseline
    if not granted:
        await waits.wait(
            db, resource, condition="Stalled", reason=consent.GRANT_REVOKED, message=consent.REVOKED, needs=needs
        )
    elif obstacle is not None:
        words = {"reason": obstacle.reason, "message": obstacle.message}
        if obstacle.may_pass:
            await waits.wait(db, resource, condition="Stalled", needs=needs, **words)
        else:
            await waits.stall(db, resource, needs=needs, **words)
    db.notify("work")
    db.notify("status")


async def forget(db: Database, *, namespace: str, name: str, uid: str) -> None:
    """Note that the resource of a uid is gone; its findings go their way all the same."""
    async with db.connection() as conn:
        await waiting.delete(conn, namespace=namespace, kind="Branch", name=name, uid=uid)
        branch = await branches.by_uid(conn, namespace=namespace, name=name, uid=uid)
        if branch is not None:
            await branches.mark_deleted(conn, line=branch.line, branch_id=branch.branch_id)


async def _fork(db: Database, resource: BranchResource, asked: Grants, ids: Database) -> BranchRow | None:
    """Fork a Branch that has not been forked; None if it must wait."""
    namespace, name = resource.baseline
    agent = Caller.for_agent(resource)
    async with db.connection() as conn:
        state = await lines.find(conn, namespace=namespace, name=name)
    granted = await asked.allowed(agent, grants.FORK, namespace=namespace, name=name)
    if state is None or not granted or state.head.head_generation == 0:
        await waits.wait(
            db,
            resource,
            reason="BaselineUnavailable",
            message=f"There is no Baseline {namespace}/{name} with a manifest, or {agent.username} may not fork it:"
            " apply it, or bind the ClusterRole anabranch-agent there.",
            needs=resource.baseline,
        )
        return None
    if not await _may_use_id(db, resource, asked, agent, ids=ids):
        return None
    return await _fork_from(db, resource, state)


async def _may_use_id(db: Database, resource: BranchResource, asked: Grants, agent: Caller, *, ids: Database) -> bool:
    """Whether the ServiceAccount may work under the agent id; the id is its own from then on."""
    spec = resource.spec.agent
    if spec.agent_id != spec.service_account_name and not await asked.allowed(
        agent, grants.USE_AGENT_ID, namespace=resource.namespace, name=spec.agent_id
    ):
        await waits.wait(
            db,
            resource,
            reason="AgentIdNotGranted",
            message=f"{agent.username} lacks the verb `use` on `agents` {spec.agent_id!r} in its namespace.",
            needs=resource.baseline,
        )
        return False
    owner = await _owner(db, resource, ids=ids)
    if owner != spec.service_account_name:
        await waits.stall(
            db,
            resource,
            reason="AgentIdTaken",
            message=f"The agent id {spec.agent_id!r} belongs to the ServiceAccount {owner!r}. Choose another id.",
            needs=resource.baseline,
        )
        return False
    return True


async def _owner(db: Database, resource: BranchResource, *, ids: Database) -> str:
    """The ServiceAccount that the agent's id belongs to: from now on its own, unless it has an owner.

    Where ids are kept in another store, this one has a copy of those that have worked here: they may go on while that
    one is away.
    """
    spec = resource.spec.agent
    claim = {"namespace": resource.namespace, "agent_id": spec.agent_id}
    async with db.connection() as conn:
        owner = await agents.owner(conn, **claim)
    if owner is not None:
        return owner
    async with ids.connection() as conn:
        owner = await agents.claim(conn, **claim, service_account=spec.service_account_name)
        if ids is not db:  # in one store what is forked then waits for it
            await durability.settle(conn)
    if ids is not db:
        async with db.connection() as conn:
            owner = await agents.claim(conn, **claim, service_account=owner)
    return owner


async def _fork_from(db: Database, resource: BranchResource, state: LineState) -> BranchRow | None:
    line = LineId(state.line.line)
    spec = resource.spec
    try:
        async with db.connection() as conn:
            branch = await branches.fork(
                conn,
                line=line,
                branch_id=new_branch_id(line),
                run_id=new_run_id(line),
                namespace=resource.namespace,
                name=resource.name,
                uid=resource.uid,
                observed_generation=resource.generation,
                agent_id=spec.agent.agent_id,
                agent_instance=spec.agent.instance,
                service_account=spec.agent.service_account_name,
                task=spec.task,
                sharing_policy=_sharing_policy(resource),
                follow=spec.follow,
                lease_seconds=_lease_seconds(resource),
                ttl_seconds=_ttl_seconds(resource),
                generation=spec.baseline_ref.generation,
            )
            # A deletion that came in between has not seen the branch; one that comes now does.
            stands = await purging.stands(conn, line=line)
    except NotFoundError as error:
        await waits.stall(db, resource, reason="GenerationUnavailable", message=str(error), needs=resource.baseline)
        return None
    except GoneError as error:
        await waits.stall(db, resource, reason=waits.GENERATION_PRUNED, message=str(error), needs=resource.baseline)
        return None
    if not stands:
        message = purging.farewell(*resource.baseline)
        await waits.stall(db, resource, reason=purging.BASELINE_DELETED, message=message, needs=resource.baseline)
        return None
    return branch


def _sharing_policy(resource: BranchResource) -> dict[str, Any]:
    """The policy in the form in which it travels."""
    return resource.spec.sharing_policy.model_dump(mode="json")


def _lease_seconds(resource: BranchResource) -> int:
    return int(resource.spec.lease.duration.total_seconds())


def _ttl_seconds(resource: BranchResource) -> int | None:
    ttl = resource.spec.ttl_after_finished
    return None if ttl is None else int(ttl.total_seconds())
