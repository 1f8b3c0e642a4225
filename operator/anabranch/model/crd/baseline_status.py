"""What a Baseline is: what the operator writes into its status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from anabranch.model.crd.base import (
    Condition,
    Count,
    Report,
    Status,
    Time,
    map_by,
)


class ManifestSummary(Report):
    """One manifest, in short."""

    baseline_id: str
    """Id of the manifest."""

    generation: Count
    """Its number in this Baseline's history, from 1."""

    manifest_hash: str
    """Root of the Merkle trie over its records; `anabranch baseline verify` recomputes it."""

    records: Count
    """How many live records it has."""

    published_at: Time
    """When it was published."""


class RecallSummary(Report):
    """What a manifest answers of the questions in `spec.recall`."""

    generation: Count
    """Number of the manifest that was asked: `current`, or for half a minute one before it."""

    k: Count
    """How many hits of a search count."""

    tasks: Count
    """How many questions count."""

    recall: float
    """Recall at k, the mean over them: from 0 to 1."""

    change: float | None = None
    """Recall less that of the manifest before it. Absent if that was not asked the same."""

    change_low: float | None = None
    """Lower end of the 95 % interval of the change."""

    change_high: float | None = None
    """Upper end of the 95 % interval of the change."""


class QualitySummary(Report):
    """What can be counted of a manifest, in short. The API tells it by scope, and of earlier manifests."""

    generation: Count
    """Number of the manifest that was counted: `current`, or for half a minute one before it."""

    records: Count
    """How many live records it has."""

    sourced: Count
    """How many of them name a source."""

    verified: Count | None = None
    """How many of these were validated with it, or imported by digest. Absent while `review.requireSources` is off."""

    duplicates_removed: Count
    """Findings, ever, that said what was known already."""

    recall: RecallSummary | None = None
    """What the newest manifest answers that was asked the questions in `spec.recall`."""


class BackupSummary(Report):
    """The newest backup, in short."""

    taken_at: Time
    """When it was taken: everything that was published before is in it."""

    generation: Count
    """Number of the manifest that was the head then."""

    manifest_hash: str
    """Its root. Whoever restores the backup can demand it (`--root`)."""

    target: str
    """Where it lies: a name of the operator's configuration."""

    place: str
    """Where in the target."""


class BaselineStatus(Status):
    """What the Baseline is."""

    observed_generation: Annotated[int, Field(ge=-1)] = -1
    """The metadata.generation that this status answers to; -1 before the operator has seen the resource."""

    line_id: str | None = None
    """Id of the history that this resource stands for. It outlives the resource."""

    current: ManifestSummary | None = None
    """The manifest that readers and new branches get: the head, or the pinned one."""

    previous: ManifestSummary | None = None
    """What `current` was before it last moved."""

    head: ManifestSummary | None = None
    """The newest manifest."""

    history: Annotated[tuple[ManifestSummary, ...], Field(max_length=5)] = ()
    """The newest manifests, at most five, newest first. The API pages through all."""

    feed_watermark: Count | None = None
    """Sequence number of the newest event in the Baseline's feed."""

    pending_batches: Count | None = None
    """Batches that are received and not yet decided."""

    open_conflicts: Count | None = None
    """Findings that contradict a record and wait for a reviewer."""

    oldest_conflict_age: Time | None = None
    """Since when the oldest open conflict waits: a point in time, which `kubectl get` shows as an age."""

    quality: QualitySummary | None = None
    """What can be counted of the newest manifest that is counted. More is not better."""

    last_backup: BackupSummary | None = None
    """The newest backup that is recorded."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_by("type"))] = ()
    """Ready: `current` exists and the spec is honoured. Reconciling or Stalled while it is not, with the reason.
    BackedUp where spec.backup asks for backups: whether the last attempt succeeded. ConsolidationPaused,
    ReviewGuardMissing, ProposalsUnavailable, RecallTasksUnavailable and QualityRegressed when they apply."""
