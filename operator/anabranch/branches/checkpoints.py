"""Checkpoints of a run: context capsules, from which an agent goes on after it has lost its context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch.model.canonical import canonical_bytes, hash_text, sha256
from anabranch.model.errors import TooLargeError
from anabranch.model.limits import CAPSULE_BYTES
from anabranch.model.runs import Checkpoint
from anabranch.store import checkpoints

if TYPE_CHECKING:
    from anabranch.model.runs import CheckpointWrite
    from anabranch.store.branches import BranchRow
    from anabranch.store.checkpoints import CheckpointRow
    from anabranch.store.database import Database


async def keep(
    db: Database, *, branch: BranchRow, checkpoint_id: str, write: CheckpointWrite
) -> tuple[Checkpoint, bool]:
    """Keep a checkpoint; the same again changes nothing.

    Args:
        db: The store.
        branch: The branch, of which the caller is the agent.
        checkpoint_id: The agent's choice.
        write: What to keep.

    Returns:
        The checkpoint, and whether it is new.

    Raises:
        ConflictError: If the id has another content, the session's latest is another one, or the run is over.
        TooLargeError: If the capsule is larger than 16 KiB, or the branch has as many as it may have.
    """
    kept = write.model_dump(mode="json", include={"session_id", "capsule", "references"})
    size = len(canonical_bytes(kept["capsule"]))
    if size > CAPSULE_BYTES:
        raise TooLargeError(
            f"The capsule has {size} bytes, the limit is {CAPSULE_BYTES}.",
            hint="Keep what is long as private records or evidence, and refer to it.",
            limit=CAPSULE_BYTES,
        )
    body = canonical_bytes(kept)
    async with db.connection() as conn:
        row, new = await checkpoints.add(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            checkpoint_id=checkpoint_id,
            session_id=write.session_id,
            content_hash=sha256(body),
            body=body,
            after=write.expected_latest,
        )
    return _wire(branch, row), new


async def find(db: Database, *, branch: BranchRow, checkpoint_id: str) -> Checkpoint:
    """A checkpoint of this branch.

    Raises:
        NotFoundError: If it has none with this id.
    """
    async with db.connection() as conn:
        row = await checkpoints.require(conn, line=branch.line, branch_id=branch.branch_id, checkpoint_id=checkpoint_id)
    return _wire(branch, row)


async def page(
    db: Database, *, branch: BranchRow, session_id: str | None, before: int | None, limit: int
) -> list[Checkpoint]:
    """Checkpoints of a branch, newest first.

    Args:
        db: The store.
        branch: The branch.
        session_id: Only of this session; None: of any.
        before: Only those before this ordinal; None: from the newest on.
        limit: How many at most.
    """
    async with db.connection() as conn:
        found = await checkpoints.page(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            session_id=session_id,
            before=before,
            limit=limit,
        )
    return [_wire(branch, row) for row in found]


def _wire(branch: BranchRow, row: CheckpointRow) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=row.checkpoint_id,
        locator=f"checkpoint:{row.checkpoint_id}",
        branch_id=row.branch_id,
        agent_id=branch.agent_id,
        ordinal=row.ordinal,
        content_hash=hash_text(row.content_hash),
        created_at=row.created_at,
        **json.loads(row.body),
    )
