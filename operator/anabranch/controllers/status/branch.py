"""The status of a Branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.branches.consent import GRANT_REVOKED, REVOKED
from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.model.canonical import hash_text
from anabranch.model.crd import BranchStatus, ParentManifest

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.branches import BranchRow
    from anabranch.store.projection import BranchState


def branch_status(row: BranchState, *, seen: Seen, now: datetime) -> BranchStatus:
    """What the status of a forked Branch says (see `waiting` for one that is not).

    Args:
        row: What Postgres has.
        seen: What the status said before.
        now: For conditions that change.
    """
    branch = row.branch
    return BranchStatus(
        observed_generation=branch.observed_generation,
        branch_id=branch.branch_id,
        run_id=branch.run_id,
        phase=branch.phase,
        parent=ParentManifest(
            baseline_id=branch.parent_baseline_id,
            generation=branch.parent_generation,
            manifest_hash=hash_text(branch.parent_manifest_hash),
        ),
        last_submitted_sequence=row.contiguous_through,
        endpoint=f"/v1/namespaces/{branch.namespace}/branches/{branch.branch_id}",
        conditions=dated(_drafts(branch), generation=branch.observed_generation, seen=seen, now=now),
    )


def _drafts(branch: BranchRow) -> list[Draft]:
    of = f"generation {branch.parent_generation} of {branch.baseline_namespace}/{branch.baseline_name}"
    match branch.phase:
        case "Denied":
            return [Draft("Ready", "False", GRANT_REVOKED, REVOKED), Draft("Stalled", "True", GRANT_REVOKED, REVOKED)]
        case "Completed":
            return [Draft("Ready", "True", "Completed", f"The run, on {of}, is completed.")]
        case "Stale" | "Expired":
            return [Draft("Ready", "True", branch.phase, f"The agent of this run, on {of}, has not been heard of.")]
        case _:
            return [Draft("Ready", "True", "Forked", f"Forked from {of}.")]
