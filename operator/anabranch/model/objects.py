"""The objects that travel: the proposal's nine, under its field names.

Field descriptions feed the published JSON Schemas and the OpenAPI document.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import FailFast, Field, JsonValue, model_validator

from anabranch.model import limits
from anabranch.model.canonical import ContentHash, content_hash
from anabranch.model.wire import (
    Generation,
    Hash,
    Key,
    Locator,
    Moment,
    Revision,
    Scope,
    Sequence,
    Traceparent,
    Visibility,
    Wire,
    is_none,
)

FactState = Literal["reviewed", "sourceRetracted"]
KnowledgeState = Literal["reviewed", "sourceRetracted", "claim"]
PeerState = Literal["active", "stale", "unknown", "completed"]
JobState = Literal["received", "importing", "validating", "awaiting_review", "publishing", "published"]


class RecordDescriptor(Wire):
    """What a manifest commits to about one record."""

    key: Key
    revision: Revision
    scope: Scope
    content_hash: Hash
    fact_hash: Hash
    tombstone: bool = False


class ManifestRef(Wire):
    """Names one manifest of a line."""

    baseline_id: str
    generation: Generation
    manifest_hash: Hash


class BaselineManifest(Wire):
    """An immutable snapshot of a line. Its descriptors are read by pages (``…/records``)."""

    baseline_id: str
    generation: Generation
    schema_version: int
    created_at: datetime
    parent_generation: int = Field(description="0 for the first manifest of a line")
    manifest_hash: Hash = Field(description="root of the 16-ary Merkle trie over the record descriptors")
    records: int = Field(description="live records; tombstones are not counted")
    origin: dict[str, JsonValue] = Field(description="what made it: {kind: import | publication | restore, …}")
    feed_watermark: int = Field(description="sequence of the last event that it includes")


class SharingPolicy(Wire):
    """What a branch may share; fixed defaults are the narrow ones."""

    default: Visibility = "private"
    scopes: tuple[Scope, ...] = Field(default=(), max_length=limits.LINE_SCOPES, description="empty: any scope")
    export_private: bool = False
    peer_visibility: Literal["state", "task"] = Field(
        default="state", description="task: other followers are told what the run is for"
    )


class BranchManifest(Wire):
    """A branch: one run of one agent, pinned to its parent snapshot."""

    branch_id: str
    run_id: str
    namespace: str
    name: str
    baseline: str = Field(description="<namespace>/<name> of the Baseline")
    parent_snapshot_id: str = Field(description="baseline_id of the parent manifest")
    parent: ManifestRef
    agent_id: str
    agent_instance: str
    task: str
    created_at: datetime
    phase: Literal["Active", "Stale", "Completed", "Denied", "Expired"]
    sharing_policy: SharingPolicy
    last_submitted_sequence: int = Field(description="batches 1 to this one are durable, without a gap")
    shared_feed_cursor: str | None = Field(
        default=None, description="where to follow the feed from: the place that the run has saved, or its parent's"
    )
    follow: Literal["Apply", "Hold", "Off"] = Field(
        default="Apply", description="what becomes of what others publish: taken over, looked at first, left alone"
    )
    lease_seconds: int = Field(default=60, description="for how long the agent counts as there when it was heard of")


class Change(Wire):
    """One proposed change of a record."""

    op: Literal["put", "tombstone"] = "put"
    key: Key
    content: JsonValue = Field(default=None, description="any JSON value, at most 1 MiB canonical; null in a tombstone")
    scope: Scope = "shared"
    visibility: Visibility = Field(default="private", description="unspecified is private")

    @model_validator(mode="after")
    def _tombstone_is_empty(self) -> Self:
        if self.op == "tombstone" and self.content is not None:
            raise ValueError("a tombstone carries no content: leave `content` out")
        return self


class FindingBatch(Wire):
    """Findings of a branch, submitted during its run. The same sequence and digest is the same batch."""

    branch_id: str
    sequence: Sequence
    content_hash: Hash = Field(description="over the RFC 8785 form of the batch less this field")
    changes: tuple[Change, ...] = Field(max_length=limits.BATCH_CHANGES)
    # At the first that is none, the others beside it are not looked at: there may be hundreds of thousands in a batch.
    source_locators: tuple[Annotated[tuple[Locator, ...], FailFast()], ...] = Field(
        description="a list for each change"
    )
    base_revisions: tuple[Revision, ...] = Field(description='one for each change; "0" for a new key')
    observed_at: Moment | None = None
    final: bool = False
    last_acknowledged_sequence: int | None = Field(default=None, ge=0, description="with `final`: the last receipt")

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        for name in ("source_locators", "base_revisions"):
            if len(getattr(self, name)) != len(self.changes):
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {len(self.changes)} changes")
        for index, sources in enumerate(self.source_locators):
            if len(sources) > limits.SOURCES_PER_CHANGE:
                raise ValueError(
                    f"source_locators[{index}] has {len(sources)} entries, the limit is {limits.SOURCES_PER_CHANGE}: "
                    "cite the most telling ones, or upload a digest of them as evidence"
                )
        if (scopes := len({change.scope for change in self.changes})) > limits.LINE_SCOPES:
            raise ValueError(
                f"changes are in {scopes} scopes, the limit is {limits.LINE_SCOPES}: split the batch by scope"
            )
        if self.final and self.last_acknowledged_sequence is None:
            raise ValueError("last_acknowledged_sequence is missing: a final batch names the last receipt, or 0")
        return self


class RunCompletion(Wire):
    """Closes a run, once everything before it is in."""

    run_id: str
    branch_id: str
    agent_id: str
    baseline_id: str = Field(description="of the parent snapshot")
    checkpoint_locator: Locator | None = None
    last_submitted_sequence: int = Field(ge=0)
    delta_hash: Hash = Field(description="over the RFC 8785 form of `shareable_changes`")
    shareable_changes: tuple[Change, ...] = Field(default=(), max_length=limits.BATCH_CHANGES)


class Receipt(Wire):
    """The batch is durable. It says nothing of publication."""

    ack: Literal["receipt"] = "receipt"
    receipt_id: str
    branch_id: str
    sequence: Sequence
    content_hash: Hash
    contiguous_through: int = Field(description="all batches up to this one are in")
    received_at: datetime


class Publication(Wire):
    """The batch's job has ended, and what it accepted is in a manifest."""

    ack: Literal["publication"] = "publication"
    receipt_id: str
    branch_id: str
    sequence: Sequence
    content_hash: Hash
    job_id: str
    published_baseline_id: str | None = Field(description="null: nothing of it was accepted")
    generation: Generation | None
    revision: Revision | None


class SourceCheck(Wire):
    """A source locator and what its resolver found."""

    locator: Locator
    status: Literal["pending", "verified", "unresolved"] = "pending"
    detail: str = ""


class SimilarCandidate(Wire):
    """A candidate that another one is like. It suggests, and decides nothing."""

    candidate_id: str
    job_id: str = Field(description="the job that decides it now")
    state: Literal["pending", "duplicate", "waiting", "accepted", "rejected", "published"]
    likeness: float = Field(ge=0, le=1, description="the share of their texts' pieces that both have, estimated")


class KnowledgeCandidate(Wire):
    """A proposed fact on its way to a decision. Untrusted, and visible to reviewers and its origin only."""

    candidate_id: str
    job_id: str
    branch_id: str | None
    run_id: str | None
    author: str
    op: Literal["put", "tombstone"]
    key: Key | None = Field(description="null: a change that its branch keeps back, told to its own agent alone")
    content: JsonValue
    scope: Scope
    visibility: Visibility
    content_hash: Hash | None = Field(description="null where `key` is")
    base_revision: Revision = Field(description='"0" for a new key, and where `key` is null')
    source_locators: tuple[Locator, ...]
    sources: tuple[SourceCheck, ...]
    origin_runs: tuple[str, ...]
    observed_at: datetime
    state: Literal["pending", "duplicate", "waiting", "accepted", "rejected", "published"]
    conflicting: bool
    reason: str
    detail: str
    canonical: PublishedFact | None = Field(description="the record that it would replace, as the reviewer must see it")
    mark: Literal["sourceRetracted"] | None = Field(
        default=None, description="it only marks the record, which goes on saying what it says; its sources tell why"
    )
    origin: Literal["finding", "merge", "summary"] = Field(
        default="finding",
        description="finding: of a run, or of an import. merge: somebody wrote it of several candidates for the key, "
        "which it takes the place of once it is accepted. summary: likewise of candidates for any keys, and it stands "
        "beside them",
    )
    inputs: tuple[str, ...] = Field(
        default=(),
        description="ids of the candidates that it was made of; whoever wrote these counts as its author, too",
    )
    model: str | None = Field(default=None, description="the model that wrote it; null: none did")
    group_id: str | None = Field(
        default=None,
        description="of the near-identical candidates of its job, which may be decided as one (`groups` of the job)",
    )
    similar: tuple[SimilarCandidate, ...] = Field(
        default=(), max_length=5, description="candidates that it is like, the most alike first; an agent sees its own"
    )
    hold: int | None = Field(
        default=None,
        description="number of the recall gate's hold of its job, which an acceptance has to name; null: there is none",
    )


class PublishedFact(Wire):
    """A record of a manifest: content with its provenance."""

    key: Key
    revision: Revision
    scope: Scope
    content: JsonValue
    content_hash: Hash
    fact_hash: Hash
    source_locators: tuple[Locator, ...]
    origin_runs: tuple[str, ...]
    validated_at: datetime | None
    supersedes: tuple[Revision, ...] = Field(description="revisions of the key that it replaced in a conflict")
    tombstone: bool = False
    state: FactState = Field(
        default="reviewed",
        description="reviewed: accepted by review, by the baseline's policy or by its import. sourceRetracted: "
        "likewise, and a source of it was withdrawn since, so that it awaits a new review",
    )
    retracted_sources: tuple[Locator, ...] = Field(
        default=(), description="those of its sources that were withdrawn, or derived from what was"
    )


class SharedEvent(Wire):
    """One entry of a line's feed; the sequence is gap-free and in commit order."""

    event_id: str
    sequence: Sequence
    kind: Literal["published", "superseded", "tombstone", "rollback", "resumed", "restored"]
    scope: Scope | None = Field(description="null: concerns the whole line")
    key: Key | None
    revision: Revision | None
    content_hash: Hash | None
    origin_branch: str | None
    generation: Generation
    published_baseline_id: str
    created_at: datetime
    traceparent: Traceparent | None = Field(
        None,
        exclude_if=is_none,
        description="W3C trace context of the publication that it tells of; left out where that is part of no trace",
    )


class AgentPresence(Wire):
    """Permitted metadata of a running branch; an expired lease means stale or unknown, never completed."""

    agent_id: str
    branch_id: str
    task: str | None
    state: PeerState
    lease_deadline: datetime | None
    last_published_sequence: int
    observed_feed_cursor: str | None


class ConsolidationJob(Wire):
    """The durable job, as its row tells; the resource of the same name mirrors it."""

    job_id: str
    name: str
    namespace: str
    origin: Literal["Branch", "Held", "Import", "Retraction"]
    run_id: str | None
    branch_id: str | None
    batch_sequence: int | None = Field(description="the last batch that it covers")
    state: JobState
    failed: bool
    reason: str
    attempt: int
    lease_deadline: datetime | None
    accepted: tuple[str, ...] = Field(description="candidate ids")
    rejected: tuple[str, ...]
    conflicts: tuple[str, ...]
    counts: dict[str, int]
    held_job: str | None
    published_baseline_id: str | None
    last_error: str | None
    retry_at: datetime | None
    created_at: datetime = Field(description="when it was made")
    trace_id: str | None = Field(None, description="the trace that it goes on with, in logs and in tracing backends")


def batch_hash(batch: dict[str, Any]) -> ContentHash:
    """The `content_hash` that a FindingBatch, given as its JSON object, must carry."""
    return content_hash({name: value for name, value in batch.items() if name != "content_hash"})


KnowledgeCandidate.model_rebuild()
