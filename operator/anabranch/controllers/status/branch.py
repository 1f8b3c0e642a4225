"""The status of a Branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.branches.consent import GRANT_REVOKED, REVOKED
from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.model.canonical import hash_text
from anabranch.model.crd import BranchStatus, EarlierParent, ParentManifest, Presence

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.projection import BranchState


def branch_status(row: BranchState, *, seen: Seen, now: datetime, store: str | None = None) -> BranchStatus:
    """What the status of a forked Branch says (see `waiting` for one that is not).

    Args:
        row: What Postgres has.
        seen: What the status said before.
        now: For conditions that change.
        store: Where it lies; None: in the default one.
    """
    branch = row.branch
    observed = max(branch.observed_generation, row.obstacle.observed_generation if row.obstacle else 0)
    return BranchStatus(
        observed_generation=observed,
        branch_id=branch.branch_id,
        run_id=branch.run_id,
        phase=branch.phase,
        parent=ParentManifest(
            baseline_id=branch.parent_baseline_id,
            generation=branch.parent_generation,
            manifest_hash=hash_text(branch.parent_manifest_hash),
        ),
        lineage=tuple(
            EarlierParent(
                baseline_id=earlier.from_baseline_id,
                generation=earlier.from_generation,
                manifest_hash=hash_text(earlier.from_manifest_hash),
                until=earlier.at,
                conflicts=earlier.conflicts,
            )
            for earlier in row.lineage
        ),
        last_submitted_sequence=row.contiguous_through,
        shared_feed_cursor=row.feed_cursor,
        feed_lag=row.feed_lag,
        presence=_presence(row),
        store=store,
        endpoint=f"/v1/namespaces/{branch.namespace}/branches/{branch.branch_id}",
        conditions=dated(_drafts(row), generation=observed, seen=seen, now=now),
    )


def _presence(row: BranchState) -> Presence | None:
    """Whether the agent is there; nothing where the run has ended otherwise than by its completion."""
    match row.branch.phase:
        case "Completed":
            return Presence(state="completed")
        case "Stale":
            return Presence(state="stale", lease_deadline=row.lease_deadline)
        case "Active":
            return Presence(state="active" if row.lease_deadline is not None else "unknown")
        case _:
            return None


def _drafts(row: BranchState) -> list[Draft]:
    branch = row.branch
    if (met := row.obstacle) is not None and branch.phase != "Denied":
        return [
            Draft("Ready", "False", met.reason, met.message),
            Draft(met.condition, "True", met.reason, met.message),
        ]
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
