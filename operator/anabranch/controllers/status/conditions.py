"""Conditions as kstatus reads them: Ready always, Reconciling and Stalled only while they are true.

So `kubectl wait`, Flux and Argo CD need no knowledge of this system. `lastTransitionTime` is kept from what the status
said before, as long as the condition's status is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from anabranch.model.crd import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Draft:
    """A condition without its times."""

    type: str
    status: Literal["True", "False"]
    reason: str
    message: str


@dataclass(frozen=True)
class Known:
    """What is remembered of a condition that the status shows."""

    status: str
    reason: str
    since: str


@dataclass(frozen=True)
class Seen:
    """What is remembered of a status: enough to keep transition times, and to tell what changed.

    Attributes:
        conditions: By type.
        marks: The values whose change is an occurrence, by the name of their field.
        id: Of the branch or job that it is of.
    """

    conditions: Mapping[str, Known] = field(default_factory=dict)
    marks: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None

    @classmethod
    def of(cls, status: Mapping[str, Any] | None) -> Self:
        """What to remember of a status in its JSON form."""
        status = status or {}
        conditions = {
            condition["type"]: Known(condition["status"], condition["reason"], condition["lastTransitionTime"])
            for condition in status.get("conditions") or ()
        }
        marks: dict[str, Any] = {
            name: status[name] for name in ("phase", "state", "attempt", "holder") if status.get(name) is not None
        }
        for name in ("current", "head"):
            if status.get(name):
                marks[name] = status[name]["generation"]
        return cls(conditions, marks, id_of(status))

    def then(self, status: Mapping[str, Any], *, whole: bool) -> Seen:
        """What to remember once these members of the status, or the whole of it, were written."""
        after = Seen.of(status)
        return after if whole else Seen(after.conditions, {**self.marks, **after.marks}, after.id or self.id)


def id_of(status: Mapping[str, Any]) -> str | None:
    """The branch or job that a status is of; None: it does not tell yet."""
    found = status.get("branchId") or status.get("jobId")
    return None if found is None else str(found)


def dated(drafts: Iterable[Draft], *, generation: int, seen: Seen, now: datetime) -> tuple[Condition, ...]:
    """Conditions from drafts.

    Args:
        drafts: In the order in which they are shown; of two of one type the first counts.
        generation: What they were observed of.
        seen: What the status said before.
        now: For conditions that are new, or have another status than before.
    """
    found: dict[str, Condition] = {}
    for draft in drafts:
        known = seen.conditions.get(draft.type)
        since = datetime.fromisoformat(known.since) if known is not None and known.status == draft.status else now
        found.setdefault(
            draft.type,
            Condition(
                type=draft.type,
                status=draft.status,
                observed_generation=generation,
                last_transition_time=since,
                reason=draft.reason,
                message=draft.message,
            ),
        )
    return tuple(found.values())
