"""The status of a resource that waits for another one, and so has no row of its own yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.branches.waits import GENERATION_PRUNED
from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.store.purging import BASELINE_DELETED

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.waiting import WaitingRow


_OVER: Final = {BASELINE_DELETED, GENERATION_PRUNED}
"""What a Branch waits for that never comes."""

_ENDED: Final = {"Completed", "Denied"}
"""How runs may have ended before their Baseline was deleted with its data."""


def waiting_status(row: WaitingRow, *, seen: Seen, now: datetime) -> dict[str, Any]:
    """Those members of a status that say what the resource waits for.

    Whatever else the status tells is left alone: a resource whose spec is suddenly not understood has not ceased to be
    what it was.

    Args:
        row: What Postgres has.
        seen: What the status said before.
        now: For conditions that change.
    """
    drafts = [
        Draft("Ready", "False", row.reason, row.message),
        Draft(row.condition, "True", row.reason, row.message),
    ]
    if row.kind == "ConsolidationJob":
        drafts.append(Draft("Complete", "False", row.reason, row.message))
    conditions = dated(drafts, generation=row.observed_generation, seen=seen, now=now)
    status: dict[str, Any] = {
        "observedGeneration": row.observed_generation,
        "conditions": [condition.model_dump(mode="json", by_alias=True, exclude_none=True) for condition in conditions],
    }
    if row.kind == "Branch" and row.reason in _OVER and seen.marks.get("phase") not in _ENDED:
        status["phase"] = "Expired"
    elif row.kind == "Branch" and seen.marks.get("phase", "Pending") == "Pending":
        status["phase"] = "Pending"
    return status
