"""The status of a Baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.controllers.status.conditions import Draft, Seen, dated
from anabranch.model.canonical import hash_text
from anabranch.model.crd import BaselineStatus, ManifestSummary, QualitySummary

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
        conditions=dated(_drafts(row), generation=generation, seen=seen, now=now),
    )


def _drafts(row: BaselineState) -> list[Draft]:
    met = [Draft(found["type"], "True", found["reason"], found["message"]) for found in row.line.conditions]
    if row.head.paused:
        reason = "Suspended" if row.head.pinned_generation is None else "Pinned"
        what = "spec.suspend is set" if row.head.pinned_generation is None else "spec.pin is set"
        met.append(Draft("ConsolidationPaused", "True", reason, f"Findings are received, and wait: {what}."))
    if any(draft.type == "Stalled" for draft in met):
        # Whoever reads both takes the first: that something goes on by itself must not hide that something does not.
        met = [draft for draft in met if draft.type != "Reconciling"]
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
    )


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
