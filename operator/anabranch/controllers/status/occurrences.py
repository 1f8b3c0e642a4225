"""What happened between two statuses, for Kubernetes Events.

Derived from the statuses themselves, so whichever process writes the second one tells of it, also after a restart. What
came and went between two writes is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.kube.events import Occurrence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anabranch.controllers.status.conditions import Seen
    from anabranch.kube.kinds import OwnName
    from anabranch.store.manifests import ManifestRow

_MADE: Final = {"import": "Imported", "publication": "Published", "restore": "Restored", "purge": "Purged"}
_ALARMING: Final = {"Stalled", "ImportMissing", "ReviewGuardMissing"}
_FOR_SOMEBODY: Final = {"ArchiveMissing", "BaselineUnavailable", "AgentIdNotGranted", "BranchUnavailable"}
"""Reasons to wait that end by themselves only once somebody has done something."""

_PHASES: Final[dict[str, tuple[str, Literal["Normal", "Warning"]]]] = {
    "Completed": ("The run is completed, and all its findings are in.", "Normal"),
    "Stale": ("The agent has not been heard of.", "Warning"),
    "Denied": ("The agent's grant was revoked.", "Warning"),
    "Expired": ("The branch takes no findings any more.", "Normal"),
}


def occurrences(
    kind: OwnName, *, before: Seen, status: dict[str, Any], manifests: Iterable[ManifestRow] = ()
) -> list[Occurrence]:
    """What happened to a resource.

    Args:
        kind: Of the resource.
        before: What its status said.
        status: What it says now, in its JSON form.
        manifests: With a Baseline, its newest ones: what made a generation is not in the status.
    """
    match kind:
        case "Baseline":
            told = _of_baseline(before, status, manifests)
        case "Branch":
            told = _of_branch(before, status)
        case "ConsolidationJob":
            told = _of_job(before, status)
    return [*told, *_warnings(before, status)]


def _of_baseline(before: Seen, status: dict[str, Any], manifests: Iterable[ManifestRow]) -> Iterator[Occurrence]:
    for manifest in sorted(manifests, key=lambda manifest: manifest.generation):
        if manifest.generation > before.marks.get("head", 0):
            reason = _MADE.get(manifest.origin.get("kind", ""), "Published")
            note = f"Generation {manifest.generation}, with {manifest.records} records, is the new head."
            yield Occurrence(reason, note, key=manifest.baseline_id)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    was, now = before.conditions.get("ConsolidationPaused"), conditions.get("ConsolidationPaused")
    # The watermark tells one pin from the next: each pin, and each end of one, is an event of the feed.
    key = f"{status.get('observedGeneration')} {status.get('feedWatermark')}"
    current = (status.get("current") or {}).get("generation")
    if now is not None and (was is None or was.reason != now["reason"] or before.marks.get("current") != current):
        if now["reason"] == "Pinned":
            yield Occurrence("RolledBack", f"Readers see generation {current}, and consolidation is paused.", key=key)
        else:
            yield Occurrence("Paused", now["message"], key=key)
    if was is not None and now is None:
        yield Occurrence("Resumed", f"Readers see generation {current}, and consolidation goes on.", key=key)


def _of_branch(before: Seen, status: dict[str, Any]) -> Iterator[Occurrence]:
    phase = status.get("phase")
    if status.get("branchId") and before.marks.get("phase") in {None, "Pending"}:
        yield Occurrence("Forked", f"Forked from generation {status['parent']['generation']}.", key=status["branchId"])
    if phase in _PHASES and before.marks.get("phase") != phase:
        note, kind = _PHASES[phase]
        yield Occurrence(str(phase), note, key=f"{status.get('branchId')} {phase}", type=kind)


def _of_job(before: Seen, status: dict[str, Any]) -> Iterator[Occurrence]:
    state, attempt = status.get("state"), status.get("attempt") or 0
    key = f"{status.get('jobId')} {state} {attempt} {status.get('retryAt')}"
    if state == "awaiting_review" and before.marks.get("state") != state:
        counts = status.get("counts") or {}
        found = counts.get("conflicting", 0)
        note = f"A reviewer must decide: see `anabranch job show`. {found} findings contradict a record."
        yield Occurrence("AwaitingReview", note, key=f"{key} {counts}")
    if state == "published" and before.marks.get("state") != state:
        done = next(condition for condition in status["conditions"] if condition["type"] == "Complete")
        yield Occurrence(done["reason"], done["message"], key=str(status.get("jobId")))
    if attempt > before.marks.get("attempt", 0):
        # A failure lets go of the job, a lease that ran out is another worker's at once.
        reason = "LeaseReclaimed" if status.get("holder") else "AttemptFailed"
        yield Occurrence(reason, status.get("lastError") or "The attempt failed.", key=key, type="Warning")


def _warnings(before: Seen, status: dict[str, Any]) -> Iterator[Occurrence]:
    for condition in status["conditions"]:
        known = before.conditions.get(condition["type"])
        alarming = (
            condition["type"] in _ALARMING
            or (condition["type"] == "Reconciling" and condition["reason"] in _FOR_SOMEBODY)
            or condition["reason"] == "BackupFailed"
        )
        if alarming and (known is None or known.reason != condition["reason"]):
            key = f"{condition.get('observedGeneration')} {condition['lastTransitionTime']}"
            yield Occurrence(condition["reason"], condition["message"], key=key, type="Warning")
