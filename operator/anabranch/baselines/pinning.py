"""Pins and restores: two ways back, one that can be taken away again and one that goes on from there.

A pin moves what readers see and pauses consolidation; a restore publishes old content as a new head. Both are
followed by comparing what is with what shall be, so a repeated reconcile does neither twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.baselines.conditions import Condition
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import jobs, lines, manifests, outbox, publish, restoring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.crd import Pin, Restore
    from anabranch.store.database import Connection, Database
    from anabranch.store.lines import HeadRow


async def follow_pin(db: Database, *, line: str, pin: Pin | None) -> list[Condition]:
    """Let readers see the pinned generation, or the head again; what is there stays while the target is unknown."""
    try:
        async with db.transaction() as conn:
            moved = await _move(conn, line=line, pin=pin)
    except GoneError as error:
        return [Condition("Stalled", "PinTargetPruned", str(error))]
    except NotFoundError as error:
        return [Condition("Stalled", "PinTargetUnknown", str(error))]
    if moved:
        db.notify("work")
        db.notify(f"feed {line}")
    return []


async def _move(conn: Connection, *, line: str, pin: Pin | None) -> bool:
    """Move current if it is not where the pin wants it; whether it moved."""
    target = None
    if pin is not None:
        ref = pin.baseline_id or pin.generation or 0
        target = (await manifests.resolve(conn, line=line, ref=ref)).generation
    if (await lines.head(conn, line)).pinned_generation == target:
        return False
    head = await lines.lock_head(conn, line)
    if head.pinned_generation == target:
        return False
    if target is None:
        await publish.move_current(
            conn, head=head, to_generation=head.head_generation, kind="resumed", pinned_generation=None
        )
    else:
        manifest = await publish.move_current(
            conn, head=head, to_generation=target, kind="rollback", pinned_generation=target
        )
        details = {"cause": "pin", "generation": target, "baseline_id": manifest.baseline_id}
        notice = outbox.NewNotice(kind="baseline.rollback", branch_id=None, details=details)
        await outbox.add(conn, line=line, notices=[notice])
    return True


def stands(head: HeadRow, *, pin: Pin | None, told: Sequence[Condition]) -> bool:
    """Whether a head is still where a pin, or its absence, has put it.

    Args:
        head: The head.
        pin: What the spec says.
        told: What `follow_pin` has told: a target that cannot be had is none.
    """
    if pin is None:
        return head.pinned_generation is None
    if any(condition.reason.startswith("PinTarget") for condition in told):
        return True
    return head.pinned_generation is not None and pin.generation in {None, head.pinned_generation}


async def follow_restore(db: Database, *, line: str, restore: Restore | None) -> list[Condition]:
    """Publish the content of an old generation, once for each restore id."""
    if restore is None:
        return []
    async with db.connection() as conn:
        before = await restoring.find(conn, line=line, restore_id=restore.id)
        head = await lines.head(conn, line)
    if before is None and head.suspended:
        return [Condition("Reconciling", "Suspended", "Nothing is restored while spec.suspend is true.")]
    try:
        done = before or await restoring.restore(db, line=line, generation=restore.generation, restore_id=restore.id)
    except GoneError as error:
        return [Condition("Stalled", "RestoreTargetPruned", str(error))]
    except NotFoundError as error:
        return [Condition("Stalled", "RestoreTargetUnknown", str(error))]
    if done.generation >= head.head_generation:
        # Every record may have moved: what waits for a review is to be compared anew. Also if we died here before.
        async with db.connection() as conn:
            await jobs.wake_waiting(conn, line=line)
    if before is None:
        db.notify("work")
        db.notify(f"feed {line}")
    return []
