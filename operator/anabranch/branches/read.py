"""What is told of branches, and of what their agents have handed in or keep for themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.branches import following
from anabranch.feed.cursor import seal
from anabranch.model.answers import BatchState, BranchPending, PrivateRecord
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.objects import BranchManifest, ManifestRef, SharingPolicy
from anabranch.model.stored import with_content
from anabranch.store import batches, branches, completions, followers, lines, manifests, private, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.domain.cursor import Sealer
    from anabranch.store.branches import BranchRow
    from anabranch.store.completions import CompletionRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.followers import FollowerRow
    from anabranch.store.private import PrivateRow


async def find(db: Database, *, namespace: str, name: str) -> BranchRow | None:
    """The branch of a resource that is still there."""
    async with db.connection() as conn:
        return await branches.by_name(conn, namespace=namespace, name=name)


async def get(db: Database, branch_id: str) -> BranchRow | None:
    """A branch by its id."""
    async with db.connection() as conn:
        return await branches.get(conn, branch_id)


async def forked(db: Database, *, namespace: str, name: str, uid: str) -> BranchRow | BranchPending:
    """What has become of a Branch that was created: its branch, or what it waits for."""
    async with db.connection() as conn:
        if (branch := await branches.by_uid(conn, namespace=namespace, name=name, uid=uid)) is not None:
            return branch
        wait = await waiting.get(conn, namespace=namespace, kind="Branch", name=name)
    if wait is None or wait.uid != uid:
        return BranchPending(namespace=namespace, name=name, reason="", detail="The operator has not seen it yet.")
    return BranchPending(namespace=namespace, name=name, reason=wait.reason, detail=wait.message)


async def waits(db: Database, *, namespace: str, name: str) -> bool:
    """Whether the operator has looked at the Branch of a name, and it waits for something."""
    async with db.connection() as conn:
        return await waiting.get(conn, namespace=namespace, kind="Branch", name=name) is not None


async def namespaces(db: Database) -> list[str]:
    """All namespaces that ever had a branch."""
    async with db.connection() as conn:
        return await branches.namespaces(conn)


async def page(db: Database, *, namespace: str, after: str, limit: int) -> list[BranchRow]:
    """The branches of a namespace by name."""
    async with db.connection() as conn:
        return await branches.list_by_namespace(conn, namespace=namespace, after=after, limit=limit)


async def describe(db: Database, rows: Sequence[BranchRow], sealer: Sealer) -> list[BranchManifest]:
    """Branches as they travel."""
    async with db.connection() as conn:
        saved = await followers.of_branches(
            conn, lines=sorted({row.line for row in rows}), branch_ids=[row.branch_id for row in rows]
        )
        return [await _manifest(conn, row, saved.get(row.branch_id), sealer) for row in rows]


async def received(db: Database, branch: BranchRow, *, after: int, limit: int) -> list[BatchState]:
    """The batches that came in, by sequence."""
    async with db.connection() as conn:
        found = await batches.page(conn, line=branch.line, branch_id=branch.branch_id, after=after, limit=limit)
    return [
        BatchState(
            sequence=row.sequence,
            receipt_id=row.receipt_id,
            content_hash=hash_text(row.content_hash),
            changes=row.changes,
            final=row.final,
            received_at=row.received_at,
            job_id=row.job_id,
        )
        for row in found
    ]


async def completion(db: Database, branch: BranchRow) -> CompletionRow | None:
    """The completion of the run, if it came."""
    async with db.connection() as conn:
        return await completions.get(conn, line=branch.line, branch_id=branch.branch_id)


async def private_record(db: Database, branch: BranchRow, key: str) -> PrivateRow:
    """A record of the private overlay.

    Raises:
        NotFoundError: If the overlay has none.
    """
    async with db.connection() as conn:
        row = await private.get(conn, line=branch.line, branch_id=branch.branch_id, key=key)
    if row is None:
        raise NotFoundError(f"The branch has no private record {key!r}.", hint="List the branch's records.")
    return row


async def private_page(db: Database, branch: BranchRow, *, after: str, limit: int) -> tuple[list[PrivateRow], bool]:
    """Records of the private overlay by key, and whether there may be more."""
    async with db.connection() as conn:
        return await private.page(conn, line=branch.line, branch_id=branch.branch_id, after=after, limit=limit)


def private_json(row: PrivateRow) -> bytes:
    """A record of the private overlay as it travels, a `PrivateRecord` in JSON."""
    record = PrivateRecord.model_construct(
        key=row.key,
        revision=str(row.revision),
        scope=row.scope,
        visibility=row.visibility,
        content=None,
        content_hash=hash_text(row.content_hash),
        base_revision=str(row.base_revision),
        updated_at=row.updated_at,
    )
    return with_content(record, row.body)


async def _manifest(conn: Connection, row: BranchRow, saved: FollowerRow | None, sealer: Sealer) -> BranchManifest:
    parent = await manifests.get(conn, line=row.line, generation=row.parent_generation)
    head = await lines.head(conn, row.line)
    through = await branches.contiguous_through(conn, line=row.line, branch_id=row.branch_id)
    position = following.position_of(head, parent, saved)
    return BranchManifest(
        branch_id=row.branch_id,
        run_id=row.run_id,
        namespace=row.namespace,
        name=row.name,
        baseline=f"{row.baseline_namespace}/{row.baseline_name}",
        parent_snapshot_id=row.parent_baseline_id,
        parent=ManifestRef(
            baseline_id=row.parent_baseline_id,
            generation=row.parent_generation,
            manifest_hash=hash_text(row.parent_manifest_hash),
        ),
        agent_id=row.agent_id,
        agent_instance=row.agent_instance,
        task=row.task,
        created_at=row.created_at,
        phase=row.phase,
        sharing_policy=SharingPolicy.model_validate(row.sharing_policy),
        last_submitted_sequence=through,
        shared_feed_cursor=position and seal(sealer, row.line, position),
        follow=row.follow,
        lease_seconds=row.lease_seconds,
    )
