"""Branches: one run of one agent, pinned to the manifest that it forked from.

A fork copies nothing: it is one row that names its parent generation. While the run is live the row refers to the
manifest by a foreign key, which decides a race with a prune; of a run that has ended only the parent's names are left.
The resource's uid makes a fork idempotent, so a reconcile that died after the commit finds its own branch again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.model.errors import ConflictError, GoneError, NotFoundError, ReclaimedError, UnavailableError
from anabranch.model.ids import line_of
from anabranch.store import queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

Phase: TypeAlias = Literal["Active", "Stale", "Completed", "Denied", "Expired"]
Kept: TypeAlias = Literal["whole", "leaving", "row"]
Follow: TypeAlias = Literal["Apply", "Hold", "Off"]

_ATTEMPTS: Final = 5

_sql = queries.load("branches")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRow:
    """A branch, its parent manifest, and the Baseline that it belongs to.

    Attributes:
        service_account: Name of the agent's ServiceAccount, in the branch's namespace.
        sharing_policy: A `SharingPolicy` as JSON.
        final_sequence: Of the run's completion, once there is one: no later batch is received.
        kept: ``whole``, until retention removes what the run brought; then the row alone is left.
        version: Counts the changes that the resource's status shows.
        parent_manifest_hash: 32 bytes.
        follow: Whether what others publish is taken over as it comes, looked at first, or left alone.
        lease_seconds: For how long the agent counts as there after it was heard of.
        forked_generation: The first parent, where the run was rebased since; else the parent.
    """

    line: str
    branch_id: str
    run_id: str
    namespace: str
    name: str
    uid: str
    observed_generation: int
    agent_id: str
    agent_instance: str
    service_account: str
    task: str
    sharing_policy: dict[str, Any]
    parent_generation: int
    phase: Phase
    final_sequence: int | None
    created_at: datetime
    finished_at: datetime | None
    deleted_at: datetime | None
    version: int
    parent_baseline_id: str
    parent_manifest_hash: bytes
    baseline_namespace: str
    baseline_name: str
    kept: Kept = "whole"
    follow: Follow = "Apply"
    lease_seconds: int = 60
    forked_generation: int = 0


async def fork(  # noqa: PLR0913  (the columns of a branch)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    run_id: str,
    namespace: str,
    name: str,
    uid: str,
    observed_generation: int,
    agent_id: str,
    agent_instance: str,
    service_account: str,
    task: str,
    sharing_policy: dict[str, Any],
    generation: int | None,
    follow: Follow = "Apply",
    lease_seconds: int = 60,
    ttl_seconds: int | None = None,
) -> BranchRow:
    """Fork a branch, or give the one that the same resource (line and uid) made before.

    Args:
        conn: A connection.
        line: The Baseline's.
        branch_id: A fresh id, used if the branch is new.
        run_id: Likewise.
        namespace: Of the Branch.
        name: Of the Branch.
        uid: Of the Branch: the key of idempotence.
        observed_generation: ``metadata.generation`` of the Branch.
        agent_id: Who works on it.
        agent_instance: Which of that agent's instances.
        service_account: Name of the agent's ServiceAccount.
        task: For people.
        sharing_policy: A `SharingPolicy` as JSON.
        generation: The manifest to fork from; None for the line's current one.
        follow: What is done with what others publish.
        lease_seconds: For how long the agent counts as there after it was heard of.
        ttl_seconds: For how long its resource is kept after the end; None: until somebody deletes it.

    Raises:
        NotFoundError: If there is no such manifest, or none yet.
        GoneError: If the manifest was pruned.
    """
    for _ in range(_ATTEMPTS):
        row = await _sql.fork(
            conn,
            line=line,
            branch_id=branch_id,
            run_id=run_id,
            namespace=namespace,
            name=name,
            uid=uid,
            observed_generation=observed_generation,
            agent_id=agent_id,
            agent_instance=agent_instance,
            service_account=service_account,
            task=task,
            sharing_policy=sharing_policy,
            follow=follow,
            lease_seconds=lease_seconds,
            ttl_seconds=ttl_seconds,
            generation=generation,
        )
        if row is not None:
            return BranchRow(**row)
        # Either the manifest is not there, or another transaction forked (or moved current) since our snapshot.
        await _check_parent(conn, line=line, generation=generation)
    raise UnavailableError("The branch could not be forked: others kept changing the same rows.", hint="Try again.")


async def get(conn: Connection, branch_id: str) -> BranchRow | None:
    """A branch by its id.

    Raises:
        InvalidInputError: If the text is no id.
    """
    row = await _sql.get(conn, line=line_of(branch_id), branch_id=branch_id)
    return row and BranchRow(**row)


async def by_name(conn: Connection, *, namespace: str, name: str) -> BranchRow | None:
    """The branch of a resource that was not deleted."""
    row = await _sql.by_name(conn, namespace=namespace, name=name, uid=None)
    return row and BranchRow(**row)


async def by_uid(conn: Connection, *, namespace: str, name: str, uid: str) -> BranchRow | None:
    """The branch of one resource, deleted or not."""
    row = await _sql.by_name(conn, namespace=namespace, name=name, uid=uid)
    return row and BranchRow(**row)


async def namespaces(conn: Connection) -> list[str]:
    """All namespaces that ever had a branch."""
    return await queries.rows(_sql.namespaces(conn), lambda row: str(row["namespace"]))


async def list_by_namespace(conn: Connection, *, namespace: str, after: str = "", limit: int) -> list[BranchRow]:
    """The branches of a namespace by name, beginning after one, without those whose resource was deleted."""
    found = _sql.list_by_namespace(conn, namespace=namespace, after=after, limit=limit)
    return await queries.rows(found, lambda row: BranchRow(**row))


async def update_spec(  # noqa: PLR0913  (what identifies it, and what changes)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    observed_generation: int,
    task: str,
    sharing_policy: dict[str, Any],
    follow: Follow = "Apply",
    lease_seconds: int = 60,
    ttl_seconds: int | None = None,
) -> bool:
    """Take over what a Branch may change after its fork; whether anything changed."""
    tag = await _sql.update_spec(
        conn,
        line=line,
        branch_id=branch_id,
        observed_generation=observed_generation,
        task=task,
        sharing_policy=sharing_policy,
        follow=follow,
        lease_seconds=lease_seconds,
        ttl_seconds=ttl_seconds,
    )
    return queries.touched(tag) > 0


async def set_phase(conn: Connection, *, line: str, branch_id: str, phase: Phase) -> bool:
    """Move a branch to another phase, unless its run is complete; whether it moved.

    ``Completed`` is not set here: `completions.close` does, when every batch is in. A run that has ended does not live
    again once its parent is pruned.
    """
    return queries.touched(await _sql.set_phase(conn, line=line, branch_id=branch_id, phase=phase)) > 0


async def mark_deleted(conn: Connection, *, line: str, branch_id: str) -> None:
    """Note that the resource is gone; the branch's data and its batches' jobs stay."""
    await _sql.mark_deleted(conn, line=line, branch_id=branch_id)


async def contiguous_through(conn: Connection, *, line: str, branch_id: str) -> int:
    """The last sequence of the gap-free run of batches from 1; 0 when the first is not in."""
    through: int = await _sql.contiguous_through(conn, line=line, branch_id=branch_id)
    return through


def check_live(phase: str) -> None:
    """Check that a run goes on.

    Raises:
        ConflictError: If it is over.
    """
    if phase not in ("Active", "Stale"):
        raise over(phase)


async def hold_live(conn: Connection, *, line: str, branch_id: str) -> None:
    """Check that a run goes on, and keep it from ending until the transaction does.

    What was read of it when a request began may be half a minute old when its body is there: what is written then to a
    run that has ended would stay behind when retention removes the rest.

    Raises:
        ConflictError: If it is over.
        ReclaimedError: If retention has removed what it brought.
    """
    phase = await _sql.hold(conn, line=line, branch_id=branch_id)
    if phase is None:
        raise reclaimed()
    check_live(phase)


def over(phase: str) -> ConflictError:
    """The error for what only a run that goes on can do."""
    return ConflictError(f"The run is over: the branch is {phase}.", hint="Fork a new branch.")


def reclaimed() -> ReclaimedError:
    """The error for what a run had brought, after retention has removed it."""
    return ReclaimedError(
        "The run is over, and retention has removed what it brought.", hint="Fork a new branch to go on."
    )


async def _check_parent(conn: Connection, *, line: str, generation: int | None) -> None:
    """Raise unless the manifest can be forked from now."""
    found = await _sql.parent(conn, line=line, generation=generation)
    if found is None or found["current_generation"] == 0:
        raise NotFoundError("The baseline has no manifest yet.", hint="Wait for its first import.")
    if found["present"]:
        return
    if generation is not None and 0 < generation <= found["head_generation"]:
        raise GoneError(
            f"Generation {generation} was pruned.", hint="Fork from a retained generation, or from current."
        )
    if generation is not None:
        raise NotFoundError(
            f"Generation {generation} does not exist.", hint="Fork from current, or an older generation."
        )
