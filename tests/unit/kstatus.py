"""What a tool that knows kstatus, such as Flux, Argo CD or kpt, concludes of an object of a kind that it does not know.

The rules of `sigs.k8s.io/cli-utils/pkg/kstatus`, in their order: deletion, generation, conditions, `Ready`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Conclusion = Literal["NotFound", "Terminating", "InProgress", "Failed", "Current"]


def conclude(found: Mapping[str, Any] | None) -> Conclusion:  # noqa: PLR0911  (as the rules are told)
    """What such a tool says of an object as the API server has it; None: it has not."""
    if found is None:
        return "NotFound"
    metadata, status = found["metadata"], found.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    for condition in status.get("conditions", ()):
        if (condition["type"], condition["status"]) == ("Reconciling", "True"):
            return "InProgress"
        if (condition["type"], condition["status"]) == ("Stalled", "True"):
            return "Failed"
    for condition in status.get("conditions", ()):
        if condition["type"] == "Ready":
            return "Current" if condition["status"] == "True" else "InProgress"
    return "Current"
