"""The status of a Baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.domain.gate import named
from anabranch.model.canonical import hash_text
from anabranch.model.crd import BackupSummary, BaselineStatus, ManifestSummary, QualitySummary, RecallSummary

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.manifests import ManifestRow
    from anabranch.store.projection import BaselineState


def baseline_status(row: BaselineState, *, seen: Seen, now: datetime) -> BaselineStatus:
    """What the status of a Baseline says.

    Args:
        row: What Postgres has.
        seen: What the status said before.
        now: For conditions that change.
    """
    generation = row.line.observed_generation
    return BaselineStatus(
        observed_generation=generation,
        line_id=row.line.line,
        current=_summary(row.current),
        previous=_summary(row.previous),
        head=_summary(row.newest),
        history=tuple(summary for manifest in row.history if (summary := _summary(manifest)) is not None),
        feed_watermark=row.head.event_sequence,
        pending_batches=row.pending_batches,
        open_conflicts=row.open_conflicts,
        oldest_conflict_age=row.oldest_conflict_at,
        quality=_quality(row),
        last_backup=_backup(row),
        conditions=dated(_drafts(row), generation=generation, seen=seen, now=now),
    )


def _drafts(row: BaselineState) -> list[Draft]:
    met = [Draft(found["type"], "True", found["reason"], found["message"]) for found in row.line.conditions]
    if row.head.paused:
        reason = "Suspended" if row.head.pinned_generation is None else "Pinned"
        what = "spec.suspend is set" if row.head.pinned_generation is None else "spec.pin is set"
        met.append(Draft("ConsolidationPaused", "True", reason, f"Findings are received, and wait: {what}."))
    met += _regressed(row)
    if any(draft.type == "Stalled" for draft in met):
        # Whoever reads both takes the first: that something goes on by itself must not hide that something does not.
        met = [draft for draft in met if draft.type != "Reconciling"]
    met += _backed_up(row)
    in_the_way = next((draft for draft in met if draft.type in {"Stalled", "Reconciling"}), None)
    if in_the_way is not None:
        ready = Draft("Ready", "False", in_the_way.reason, in_the_way.message)
    elif row.current is None:
        ready = Draft("Ready", "False", "NoManifest", "There is no manifest yet: give spec.import a source.")
        met.insert(0, Draft("Reconciling", "True", ready.reason, ready.message))
    elif row.head.pinned_generation is not None:
        ready = Draft("Ready", "True", "Pinned", f"Readers see generation {row.current.generation}, which is pinned.")
    else:
        ready = Draft("Ready", "True", "Current", f"Readers see generation {row.current.generation}.")
    return [ready, *met]


def _backed_up(row: BaselineState) -> list[Draft]:
    """Whether the last attempt at a backup succeeded, where the Baseline asks for backups."""
    backup = row.backup
    if backup.target is None:
        return []
    if backup.error is not None:
        message = f"{backup.error} It is tried again; nothing is published once the newest backup is too old."
        return [Draft("BackedUp", "False", "BackupFailed", message)]
    if backup.newest is None or backup.newest.target != backup.target:
        return [Draft("BackedUp", "False", "BackupAwaited", f"There is no backup in {backup.target} yet.")]
    message = f"Generation {backup.newest.generation} is backed up in {backup.target}."
    return [Draft("BackedUp", "True", "Recorded", message)]


def _backup(row: BaselineState) -> BackupSummary | None:
    newest = row.backup.newest
    if newest is None:
        return None
    return BackupSummary(
        taken_at=newest.taken_at,
        generation=newest.generation,
        manifest_hash=hash_text(newest.manifest_hash),
        target=newest.target,
        place=newest.place,
    )


def _quality(row: BaselineState) -> QualitySummary | None:
    if row.quality is None:
        return None
    required = (row.line.policy.get("review") or {}).get("requireSources", True)
    return QualitySummary(
        generation=row.quality.generation,
        records=row.quality.records,
        sourced=row.quality.sourced,
        verified=row.quality.verified if required else None,
        duplicates_removed=row.quality.duplicates,
        recall=_recall(row),
    )


def _recall(row: BaselineState) -> RecallSummary | None:
    if row.recall is None:
        return None
    result = row.recall.result
    return RecallSummary(
        generation=result.generation,
        k=result.k,
        tasks=result.tasks,
        recall=round(result.recall, 4),
        change=None if result.change is None else round(result.change, 4),
        change_low=None if result.low is None else round(result.low, 4),
        change_high=None if result.high is None else round(result.high, 4),
    )


def _regressed(row: BaselineState) -> list[Draft]:
    """Whether what readers see answers less than the Baseline asks for: somebody let it through, or nothing held it."""
    if row.recall is None:
        return []
    result, bounds = row.recall.result, row.recall.bounds
    of = f"Generation {result.generation} has recall@{result.k} {result.recall:.3f}"
    if result.change is not None and bounds.is_regression(result.change):
        message = (
            f"{of}, {-result.change:.3f} lower than generation {result.against}"
            f" (95 % interval of the change {result.low:+.3f} to {result.high:+.3f}): {named(result.worse)}."
        )
        return [Draft("QualityRegressed", "True", "RecallRegressed", message)]
    if bounds.is_below(result.recall):
        return [Draft("QualityRegressed", "True", "RecallBelowFloor", f"{of}; spec.recall.floor is {bounds.floor:g}.")]
    return []


def _summary(manifest: ManifestRow | None) -> ManifestSummary | None:
    if manifest is None:
        return None
    return ManifestSummary(
        baseline_id=manifest.baseline_id,
        generation=manifest.generation,
        manifest_hash=hash_text(manifest.manifest_hash),
        records=manifest.records,
        published_at=manifest.created_at,
    )
