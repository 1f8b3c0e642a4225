"""The rebase of a run: another parent because its Branch says so, and for no other reason.

Before and after it the agent is told which of its private records the new parent contradicts. Nothing of them is
resolved here: a record that the two say alike moves along, and each other one stays based on what its agent has seen,
until the agent writes it again and says that it knows better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.identity import Caller, grants
from anabranch.model.canonical import hash_text
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.objects import ManifestRef, RecordDescriptor
from anabranch.model.runs import EarlierParent, RebaseConflict, RebasePage
from anabranch.store import lines, manifests, rebases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.identity import Grants
    from anabranch.model.crd import BranchResource
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.rebases import ConflictRow

TARGET_UNKNOWN: Final = "RebaseTargetUnknown"
TARGET_PRUNED: Final = "RebaseTargetPruned"
RUN_OVER: Final = "RunOver"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a Branch does not stand on the parent that it wishes.

    Attributes:
        reason: CamelCase.
        message: For people.
        may_pass: Whether it may go away by itself.
    """

    reason: str
    message: str
    may_pass: bool = False


async def rebase(db: Database, branch: BranchRow, resource: BranchResource, *, asked: Grants) -> Obstacle | None:
    """Let a run stand on the parent that its Branch wishes.

    Args:
        db: The store.
        branch: As read.
        resource: As read from the API server.
        asked: Answers what the agent may read.

    Returns:
        What stands in the way; None: nothing does.

    Raises:
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    if resource.spec.rebase is None or resource.spec.rebase.to_generation == branch.parent_generation:
        return None
    target = resource.spec.rebase.to_generation
    scopes = await _readable(db, branch, asked)
    try:
        async with db.transaction() as conn:
            outcome = await rebases.rebase(
                conn,
                line=branch.line,
                branch_id=branch.branch_id,
                generation=target,
                observed_generation=resource.generation,
                scopes=scopes,
            )
    except NotFoundError as error:
        return Obstacle(TARGET_UNKNOWN, f"The run stays on its parent: {error}", may_pass=True)
    except GoneError as error:
        return Obstacle(TARGET_PRUNED, f"The run stays on its parent: {error}")
    if outcome == "over":
        return Obstacle(RUN_OVER, f"The run is over, and stays on generation {branch.parent_generation}.")
    return None


async def conflicts(  # noqa: PLR0913  (the bounds of a page)
    db: Database, branch: BranchRow, *, to: str | None, scopes: Sequence[str], after: str, limit: int
) -> RebasePage:
    """Which private records another parent would contradict, or this one does.

    Args:
        db: The store.
        branch: The branch.
        to: A manifest by generation, baseline id, ``current`` or ``head``; None: the parent.
        scopes: Those that the agent may read.
        after: A key to begin after.
        limit: How many at most.

    Raises:
        NotFoundError: If there never was such a manifest.
        GoneError: If it was pruned.
    """
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        target = await manifests.resolve(conn, line=branch.line, ref=branch.parent_generation if to is None else to)
        found = await rebases.conflicts(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            generation=target.generation,
            scopes=scopes,
            after=after,
            limit=limit,
        )
        earlier = await rebases.lineage(conn, line=branch.line, branch_id=branch.branch_id)
    return RebasePage(
        branch_id=branch.branch_id,
        parent=_ref(branch.parent_baseline_id, branch.parent_generation, branch.parent_manifest_hash),
        target=_ref(target.baseline_id, target.generation, target.manifest_hash),
        lineage=tuple(
            EarlierParent(
                manifest=_ref(row.from_baseline_id, row.from_generation, row.from_manifest_hash),
                until=row.at,
                conflicts=row.conflicts,
            )
            for row in earlier
        ),
        items=tuple(map(_conflict, found)),
        next_cursor=None,
    )


async def _readable(db: Database, branch: BranchRow, asked: Grants) -> list[str]:
    """The scopes in which the agent may read the Baseline's records now."""
    agent = Caller.for_service_account(branch.namespace, branch.service_account)
    namespace, name = branch.baseline_namespace, branch.baseline_name
    if not await asked.allowed(agent, grants.READ_RECORDS, namespace=namespace, name=name):
        return []
    async with db.connection() as conn:
        known = await lines.scopes(conn, branch.line)
    return await asked.scopes(agent, grants.SCOPE_READ, namespace=namespace, scopes=known)


def _ref(baseline_id: str, generation: int, manifest_hash: bytes) -> ManifestRef:
    return ManifestRef(baseline_id=baseline_id, generation=generation, manifest_hash=hash_text(manifest_hash))


def _conflict(row: ConflictRow) -> RebaseConflict:
    target = None
    if row.target_revision is not None:
        target = RecordDescriptor.model_construct(
            key=row.key,
            revision=str(row.target_revision),
            scope=row.target_scope or "",
            content_hash=hash_text(row.target_content_hash or b""),
            fact_hash=hash_text(row.target_fact_hash or b""),
            tombstone=bool(row.target_tombstone),
        )
    return RebaseConflict(
        key=row.key,
        scope=row.scope,
        revision=str(row.revision),
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        target=target,
    )
