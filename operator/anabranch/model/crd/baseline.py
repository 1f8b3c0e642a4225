"""The Baseline: reviewed memory that agents fork from, as a line of numbered, immutable manifests."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from anabranch.model import limits
from anabranch.model.crd.base import (
    SET,
    Hash,
    Id,
    Name,
    Ordinal,
    Period,
    Rule,
    Spec,
    Token,
    rules,
)
from anabranch.model.crd.review import ReviewPolicy
from anabranch.model.stores import DEFAULT_STORE, STORE_CHARACTERS, STORE_PATTERN

StoreName = Annotated[str, StringConstraints(min_length=1, max_length=STORE_CHARACTERS, pattern=STORE_PATTERN)]
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


class BaselineLimits(Spec):
    """Bounds below the installation's own."""

    records: Annotated[int, Field(ge=1, le=limits.LINE_RECORDS)] = limits.LINE_RECORDS
    """Most records that a manifest may hold; an import or a publication beyond it is refused."""

    scopes: Annotated[int, Field(ge=1, le=limits.LINE_SCOPES)] = limits.LINE_SCOPES
    """Most different scopes that the records may have."""

    batch_bytes: Annotated[int, Field(ge=1024, le=limits.BATCH_BYTES)] = limits.BATCH_BYTES
    """Largest batch of findings that a branch may submit, in bytes of canonical JSON."""


class RecallConfigMap(Spec):
    """A ConfigMap that has an evaluation set."""

    name: Name
    """Name of a ConfigMap in the Baseline's own namespace. It is watched: changed content is seen by its digest."""

    key: ConfigMapKey | None = None
    """Which key of the ConfigMap has the set, as JSON Lines; needed if it has several."""


class RecallTasks(Spec):
    """Where the evaluation set is."""

    config_map: RecallConfigMap
    """A ConfigMap with the set: one task a line, up to 500 (see docs/quality.md)."""


class RecallGate(Spec):
    """What a publication must leave answered."""

    tasks: RecallTasks
    """The questions, of which each publication is asked before it is made. While they are missing, or are none,
    publications wait, and the condition RecallTasksUnavailable tells why."""

    k: Annotated[int, Field(ge=1, le=limits.RECALL_DEPTH)] = 10
    """How many hits of a search count: as many as an agent reads."""

    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The lowest recall at k, from 0 to 1. A publication that would leave it lower is held for a review, unless it
    raises recall."""

    max_regression: Annotated[float, Field(ge=0, le=1)] = 0.02
    """By how much a publication may lower recall at k; one that would lower it more is held for a review."""


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


class BackupPolicy(Spec):
    """When the Baseline's history is backed up, and where."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!has(self.policy) || self.policy == 'None' || has(self.target)",
                "name where backups go: spec.backup.target, one of the operator's backupTargets",
            )
        )
    )

    policy: Literal["None", "BeforePublish"] = "None"
    """BeforePublish: nothing is published, and no finding becomes a fact, unless a backup is recorded that is younger
    than `maxAge`. What must wait says so, with the reason BackupAwaited, and goes on by itself. None: no backups."""

    max_age: Period = timedelta(days=1)
    """How old the newest backup may be when something is published: 30m, 12h, 7d. A Baseline that changes is backed up
    at half of it, so that publications seldom wait."""

    target: (
        Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
        | None
    ) = None
    """Where backups go: a name that the operator's configuration has among its `backupTargets`."""


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

    recall: RecallGate | None = None
    """Questions that a publication must leave answered. One that does not is held for a review, naming those that it
    costs. Retractions, rollbacks and restores are not held; they are measured."""

    retention: Retention = Retention()
    """What is kept of the past, and for how long."""

    limits: BaselineLimits = BaselineLimits()
    """Bounds of this Baseline, below those of the installation."""

    backup: BackupPolicy = BackupPolicy()
    """When the Baseline is backed up, and where."""

    store: Annotated[
        StoreName,
        Field(
            json_schema_extra=rules(
                Rule(
                    "self == oldSelf",
                    "spec.store is fixed at creation: make another Baseline there, from an export or a backup",
                )
            )
        ),
    ] = DEFAULT_STORE
    """Which of the installation's databases the Baseline lies in: `default`, or a name that the chart has among its
    `stores`, which takes the verb `use` on `stores` of that name. Cannot be changed; an export or a backup, imported
    into a Baseline of another store, is how one moves."""

    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the data when this resource is deleted. Retain: all of it stays, and a Baseline of this name in
    this namespace goes on from it. Delete: manifests, records, branches and jobs are deleted with it, for good; until
    they are gone, a finalizer keeps the resource."""

    adopt: Adoption | None = None
    """Take up a line that was left behind when this namespace was deleted and made again. Setting it needs the verb
    `update` on `baselines/adopt`."""
