"""What the platform itself tells an agent: for each notice an exchange for its memory, and an event that carries it.

The session that did something knows of it; the agent's other sessions are told here, in one line of text and a few ids
and keys. No content of a record is among them: whoever may read it fetches it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain import takeaway
from anabranch.model.canonical import sha256
from anabranch.model.limits import SURFACE_LABEL_CHARACTERS
from anabranch.model.memory import AgentKey
from anabranch.store.agent_events import NewAgentEvent
from anabranch.store.exchanges import NewExchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.store.outbox import NoticeRow, RunRow

_IDS: Final = uuid.UUID("5b0b3b4e-6f0c-5d52-9f41-2a8f3d9f1c77")
"""The namespace of the ids that are derived from notices'."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one agent instance is told of one notice."""

    exchange: NewExchange
    event: NewAgentEvent

    @property
    def agent(self) -> AgentKey:
        """Who is told."""
        return self.event.key


def derived_id(*parts: str) -> str:
    """An id that follows from others: made again, it is the same."""
    return str(uuid.uuid5(_IDS, "\n".join(parts)))


def message(notice: NoticeRow, run: RunRow) -> Message:
    """What the agent of a run is told of a notice; told again, it is the same.

    Args:
        notice: The notice.
        run: The run that it is about, or one of all that it concerns.
    """
    agent = AgentKey(namespace=run.namespace, agent_id=run.agent_id, instance=run.agent_instance)
    name = derived_id(notice.line, notice.outbox_id, *agent.columns.values())
    of_line = notice.branch_id is None
    surface = (
        (notice.line, f"{notice.baseline_namespace}/{notice.baseline_name}")
        if of_line
        else (
            run.branch_id,
            run.branch_name,
        )
    )
    exchange = NewExchange(
        key=agent,
        exchange_id=name,
        digest=sha256(name.encode()),  # the id says it all: a later release may word the same otherwise
        kind=notice.kind,
        surface_pod_id=surface[0],
        surface_label=takeaway.head(surface[1], limit=SURFACE_LABEL_CHARACTERS),
        peers=(),
        takeaway=takeaway.head(_said(notice, run)),
        ts=notice.created_at,
    )
    event = NewAgentEvent(
        key=agent,
        event_id=name,
        kind=notice.kind,
        subject=surface[0],
        data=_data(notice, None if of_line else run),
        time=notice.created_at,
    )
    return Message(exchange, event)


def _said(notice: NoticeRow, run: RunRow) -> str:
    """A notice in a line of text."""
    details = notice.details
    baseline = f"{notice.baseline_namespace}/{notice.baseline_name}"
    if notice.kind == "run.completed":
        return f"Run {run.branch_name} on {baseline} is completed: all of its {details['batches']} batches are in."
    if notice.kind == "record.retracted":
        # Not which one: the run's agent may not read its scope, or not any more.
        return (
            f"A record of {baseline} that your run has was withdrawn in generation {details['generation']}; what was "
            f"derived from it is marked. Read retraction {details['retraction_id']}."
        )
    if notice.kind == "baseline.rollback":
        if details["cause"] == "restore":
            return (
                f"{baseline} was restored: generation {details['generation']} has the content of generation "
                f"{details['restored_generation']}."
            )
        return f"{baseline} was rolled back: its readers see generation {details['generation']}."
    count = details["count"]
    outcome = {
        "finding.published": f"published in generation {details.get('generation')} of {baseline}",
        "finding.rejected": f"rejected for {baseline}",
        "finding.conflict": f"in conflict with {baseline}, to be reviewed",
    }[notice.kind]
    keys = ", ".join(_named(finding) for finding in details["findings"])
    return f"Run {run.branch_name}: {count} finding{'s' if count > 1 else ''} {outcome}: {keys}"


def _named(finding: Mapping[str, str]) -> str:
    return f"{finding['key']} ({finding['reason']})" if finding["reason"] else finding["key"]


def _data(notice: NoticeRow, run: RunRow | None) -> dict[str, Any]:
    """The event's own data, in the words of its payload."""
    details = notice.details
    data: dict[str, Any] = {"baseline": {"namespace": notice.baseline_namespace, "name": notice.baseline_name}}
    if run is not None:
        data["branch"] = {
            "namespace": run.namespace,
            "name": run.branch_name,
            "branchId": run.branch_id,
            "runId": run.run_id,
        }
    if "job_id" in details:
        data["job"] = {
            "namespace": details["job_namespace"],
            "name": details["job_name"],
            "jobId": details["job_id"],
        }
    if "findings" in details:
        data["findings"] = [
            {"candidateId": finding["candidate_id"], "key": finding["key"]}
            | ({"reason": finding["reason"]} if finding["reason"] else {})
            for finding in details["findings"]
        ]
        data["count"] = details["count"]
    for member, name in _PLAIN.items():
        if member in details:
            data[name] = details[member]
    return data


_PLAIN: Final = {
    "batches": "batches",
    "cause": "cause",
    "generation": "generation",
    "baseline_id": "baselineId",
    "restored_generation": "restoredGeneration",
    "retraction_id": "retractionId",
}
