"""What a reconcile has to say about a Baseline: conditions that hold, each with a reason and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

ConditionType = Literal[
    "Reconciling",
    "Stalled",
    "ImportChanged",
    "ImportMissing",
    "ConsolidationPaused",
    "RecallTasksUnavailable",
    "ReviewGuardMissing",
    "ProposalsUnavailable",
]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds.

    Attributes:
        type: ``Reconciling``: it will come by itself. ``Stalled``: somebody must change something. Others only tell.
        reason: CamelCase.
        message: For people.
    """

    type: ConditionType
    reason: str
    message: str

    def row(self) -> dict[str, str]:
        """As the store keeps it."""
        return asdict(self)
