"""How far a run follows the feed, kept by the service too: so an agent that lost its own files goes on from there.

An agent saves its place after it has applied what lies before it, and never back. What lies before what the parent
manifest includes is applied by the fork or the rebase itself, so a place is never before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.feed.cursor import Position, seal, unseal
from anabranch.feed.expiry import expired
from anabranch.model.errors import ConflictError
from anabranch.model.runs import FeedPlace
from anabranch.store import branches, followers, lines, manifests

if TYPE_CHECKING:
    from anabranch.domain.cursor import Sealer
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.followers import FollowerRow
    from anabranch.store.lines import HeadRow
    from anabranch.store.manifests import ManifestRow

_AT_ONCE: Final = 500


async def place(db: Database, sealer: Sealer, *, branch: BranchRow) -> FeedPlace:
    """Where a run goes on to follow.

    Args:
        db: The store.
        sealer: Makes cursors.
        branch: The branch.
    """
    async with db.connection() as conn:
        return await _place(conn, sealer, branch)


async def save(db: Database, sealer: Sealer, *, branch: BranchRow, cursor: str) -> FeedPlace:
    """Save how far a run has followed; the answer is the place that is saved now, which may be further on.

    Args:
        db: The store.
        sealer: Opens and makes cursors.
        branch: The branch, of which the caller is the agent.
        cursor: Of what it has applied.

    Raises:
        ConflictError: If the run is over, or does not follow.
        CursorExpiredError: If the feed does not reach there any more.
        InvalidCursorError: If it is no cursor of this line's feed.
    """
    position = unseal(sealer, branch.line, cursor)
    branches.check_live(branch.phase)
    if branch.follow == "Off":
        raise ConflictError(
            "The branch does not follow: its spec.follow is Off.", hint="Have spec.follow set to Apply or Hold first."
        )
    where = {"line": branch.line, "branch_id": branch.branch_id}
    async with db.connection() as conn:
        saved = await followers.save(conn, **where, epoch=position.epoch, sequence=position.sequence, cursor=cursor)
        if saved is None:
            head = await lines.head(conn, branch.line)
            if position.epoch != head.epoch or not head.event_floor <= position.sequence <= head.event_sequence:
                raise await expired(conn, sealer, branch.line)
            now = await branches.get(conn, branch.branch_id)
            branches.check_live(now.phase if now is not None else "Expired")
        return await _place(conn, sealer, branch)


async def seen(db: Database, branch: BranchRow) -> int:
    """The generation that a run sees beneath its overlay: its parent, or what it has taken over since as a whole.

    Where it is halfway through a publication, that is the one before: nothing is shown early.

    Args:
        db: The store.
        branch: The branch.
    """
    if branch.follow != "Apply":
        return branch.parent_generation
    async with db.connection() as conn:
        head = await lines.head(conn, branch.line)
        saved = await followers.get(conn, line=branch.line, branch_id=branch.branch_id)
        parent = await manifests.get(conn, line=branch.line, generation=branch.parent_generation)
        if saved is None or saved.generation is None or saved.epoch != head.epoch:
            return branch.parent_generation
        if parent is not None and saved.sequence <= parent.feed_watermark:
            return branch.parent_generation
        manifest = await manifests.get(conn, line=branch.line, generation=saved.generation)
    if manifest is not None and manifest.feed_watermark > saved.sequence:
        return max(manifest.parent_generation, branch.parent_generation)
    return saved.generation


async def show(db: Database) -> bool:
    """Let statuses show how far runs are that have moved on; whether there may be more of them."""
    async with db.connection() as conn:
        due = await followers.due(conn, limit=_AT_ONCE)
    shown = 0
    for line, branch_ids in due.items():
        async with db.connection() as conn:
            shown += await followers.show(conn, line=line, branch_ids=branch_ids)
    if shown:
        db.notify("status")
    return shown == _AT_ONCE


def position_of(head: HeadRow, parent: ManifestRow | None, saved: FollowerRow | None) -> Position | None:
    """Where a run goes on to follow: the place that it saved, unless its parent includes more; None: nobody knows.

    Args:
        head: Of its line.
        parent: Its parent manifest; None: pruned, which is done to runs that are over.
        saved: What it saved; of another epoch it counts for nothing.
    """
    places = [parent.feed_watermark] if parent is not None else []
    places += [saved.sequence] if saved is not None and saved.epoch == head.epoch else []
    return Position(head.epoch, max(places)) if places else None


async def _place(conn: Connection, sealer: Sealer, branch: BranchRow) -> FeedPlace:
    head = await lines.head(conn, branch.line)
    parent = await manifests.get(conn, line=branch.line, generation=branch.parent_generation)
    saved = await followers.get(conn, line=branch.line, branch_id=branch.branch_id)
    position = position_of(head, parent, saved) or Position(head.epoch, 0)
    return FeedPlace(
        branch_id=branch.branch_id,
        cursor=seal(sealer, branch.line, position),
        sequence=position.sequence,
        watermark=head.event_sequence,
        saved_at=saved.saved_at if saved is not None and saved.sequence == position.sequence else None,
    )
