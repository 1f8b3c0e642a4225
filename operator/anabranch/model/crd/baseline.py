"""The Baseline: reviewed memory that agents fork from, as a line of numbered, immutable manifests."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import (
    SET,
    Condition,
    Count,
    Hash,
    Id,
    Name,
    Ordinal,
    Period,
    Report,
    Rule,
    Scope,
    Spec,
    Status,
    Time,
    Token,
    map_by,
    rules,
)

SourceKind = Literal["evidence", "record", "checkpoint", "git", "https", "import"]
ConfigMapKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class ConfigMapSource(Spec):
    """A ConfigMap as the source of an import."""

    name: Name
    """Name of a ConfigMap in the Baseline's own namespace. It is watched: changed content is seen by its digest."""

    keys: Annotated[tuple[ConfigMapKey, ...], Field(max_length=1024, json_schema_extra=SET)] = ()
    """Which keys of the ConfigMap to take; a key that is absent there holds the import up. Empty takes all keys."""


class ArchiveSource(Spec):
    """An uploaded archive as the source of an import."""

    digest: Hash
    """SHA-256 of the archive. Upload it after applying this (`anabranch import`); until then the Baseline waits, with
    the reason ArchiveMissing."""


class ImportSource(Spec):
    """Where a Baseline's first records come from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.configMap) != has(self.archive)",
                "name exactly one source: spec.import.configMap or spec.import.archive",
            )
        )
    )

    config_map: ConfigMapSource | None = None
    """Import the values of a ConfigMap; meant for small sets. Either this or `archive`."""

    archive: ArchiveSource | None = None
    """Import an archive that is uploaded to the API, of at most 4 GiB. Either this or `configMap`."""


class Pin(Spec):
    """A manifest of this Baseline's history, by number or by id."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.generation) != has(self.baselineId)",
                "name the manifest once: spec.pin.generation or spec.pin.baselineId (see status.history)",
            )
        )
    )

    generation: Ordinal | None = None
    """Number of the manifest. Either this or `baselineId`."""

    baseline_id: Id | None = None
    """Id of the manifest. Either this or `generation`."""


class Restore(Spec):
    """An order to publish an old manifest's content again."""

    generation: Ordinal
    """Number of the manifest whose content becomes the new head."""

    id: Token
    """A name of your choice for this restore. Each id acts once in the Baseline's life, so that a value left in Git
    never repeats; to restore once more, choose another."""


class AutoAccept(Spec):
    """What may be accepted without a reviewer."""

    scopes: Annotated[tuple[Scope, ...], Field(max_length=limits.LINE_SCOPES, json_schema_extra=SET)] = ()
    """Only findings in these scopes. Empty: any scope."""

    source_kinds: Annotated[tuple[SourceKind, ...], Field(max_length=6, json_schema_extra=SET)] = ()
    """Only findings whose verified sources are all of these kinds. Empty: any kind."""


class ReviewPolicy(Spec):
    """Who decides what becomes a fact."""

    mode: Literal["Manual", "Automatic"] = "Manual"
    """Manual: every finding waits for a reviewer. Automatic: findings that meet `autoAccept` and contradict nothing are
    accepted; conflicts, summaries, merges and deletions wait all the same."""

    require_sources: bool = True
    """Reject a finding, as Unsupported, when none of the sources that it names can be verified, or it names none."""

    auto_accept: AutoAccept = AutoAccept()
    """With mode Automatic: which findings need no reviewer."""

    min_reviewers: Annotated[int, Field(ge=1, le=16)] = 1
    """How many different reviewers must accept a finding. One rejection rejects it."""

    forbid_self_review: bool = True
    """A decision of the finding's own author does not count."""


class BaselineLimits(Spec):
    """Bounds below the installation's own."""

    records: Annotated[int, Field(ge=1, le=limits.LINE_RECORDS)] = limits.LINE_RECORDS
    """Most records that a manifest may hold; an import or a publication beyond it is refused."""

    scopes: Annotated[int, Field(ge=1, le=limits.LINE_SCOPES)] = limits.LINE_SCOPES
    """Most different scopes that the records may have."""

    batch_bytes: Annotated[int, Field(ge=1024, le=limits.BATCH_BYTES)] = limits.BATCH_BYTES
    """Largest batch of findings that a branch may submit, in bytes of canonical JSON."""


class ReplicaRetention(Spec):
    """On which terms a worker may keep what it has downloaded. Its private records are its own, and not bound."""

    max_age: Period = timedelta(days=7)
    """A replica that was not seen to be granted for so long is purged by its worker: 90s, 12h, 30d."""

    on_revoke: Literal["Purge", "Keep"] = "Purge"
    """What a worker does that learns that a grant is gone. Purge: it deletes what the grant had let it download. Keep:
    it goes on with what it has until `maxAge`, and gets nothing new."""


class Retention(Spec):
    """What is kept of the past, each for how long at least."""

    generations: Annotated[int, Field(ge=1, le=100_000)] = 50
    """The newest so many manifests are kept, however old. One that is neither among them nor younger than `age` is
    removed; never one that is current, previous or pinned, or that a running branch forked from."""

    age: Period = timedelta(days=30)
    """A manifest is kept for this long after another took its place, however many there are: 90s, 12h, 30d."""

    events: Period = timedelta(days=7)
    """How long the feed reaches back. A follower that was away for longer reads a manifest anew."""

    completed_runs: Period = timedelta(days=30)
    """How long what a run brought (batches, evidence, private records, candidates, reviews) is kept after its end. What
    it published stays, and a run with undecided findings is not over."""

    tombstones: Period = timedelta(days=90)
    """How long the mark of a deleted record is kept. Marks are taken out several at a time, by a manifest of its own,
    and not before every manifest that shows the record is gone."""

    transitions: Period = timedelta(days=90)
    """How long a finished job and the log of its steps are kept; not for less than `completedRuns`."""

    replica: ReplicaRetention = ReplicaRetention()
    """On which terms workers keep copies of the records on their own disks."""


class Adoption(Spec):
    """The line that a namespace of this name left behind when it was deleted."""

    line_id: Annotated[Id, StringConstraints(pattern=r"^ln_[0-9a-z]{26}$")]
    """Id of the line, as the condition Stalled names it. It must have been a Baseline's of this name, in a namespace
    of this name."""


class BaselineSpec(Spec):
    """What the Baseline shall be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!(has(self.pin) && has(self.restore))",
                "spec.pin and spec.restore exclude each other: remove the pin first, then restore",
            )
        )
    )

    import_: Annotated[ImportSource | None, Field(alias="import")] = None
    """Where the first manifest comes from. A later change of the source's content becomes findings for review; it never
    replaces what is there. Without it the Baseline starts when this is set."""

    pin: Pin | None = None
    """Roll back: while set, `status.current` is this manifest and consolidation pauses. Nothing is deleted. Remove it
    to return to the newest manifest."""

    restore: Annotated[
        Restore | None,
        Field(
            json_schema_extra=rules(
                Rule(
                    "self.id != oldSelf.id || self.generation == oldSelf.generation",
                    "each restore id acts once: choose a new spec.restore.id for another generation",
                )
            )
        ),
    ] = None
    """Publish the content of an old manifest as a new one, and go on from there, as `git revert` does."""

    suspend: bool = False
    """While true nothing is consolidated or imported. Findings are still received, reads still answer."""

    review: ReviewPolicy = ReviewPolicy()
    """Who decides what becomes a fact. Changing it needs the verb `update` on `baselines/policy`."""

    retention: Retention = Retention()
    """What is kept of the past, and for how long."""

    limits: BaselineLimits = BaselineLimits()
    """Bounds of this Baseline, below those of the installation."""

    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the data when this resource is deleted. Retain: all of it stays, and a Baseline of this name in
    this namespace goes on from it. Delete: manifests, records, branches and jobs are deleted with it, for good; until
    they are gone, a finalizer keeps the resource."""

    adopt: Adoption | None = None
    """Take up a line that was left behind when this namespace was deleted and made again. Setting it needs the verb
    `update` on `baselines/adopt`."""


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

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_by("type"))] = ()
    """Ready: `current` exists and the spec is honoured. Reconciling or Stalled while it is not, with the reason.
    ConsolidationPaused and ReviewGuardMissing when they apply."""
