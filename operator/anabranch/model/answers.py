"""What the HTTP API answers with beside the proposal's nine objects: pages, states, and what an upload became.

Services make them, the API sends them, the client gives them to its caller: one class for all three, so that nothing is
translated on the way. Times are UTC; revisions and hashes have the forms of `anabranch.model.wire`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field, JsonValue

from anabranch.model.objects import (
    BaselineManifest,
    BranchManifest,
    KnowledgeState,
    ManifestRef,
    PublishedFact,
    RecordDescriptor,
    SharedEvent,
)
from anabranch.model.wire import Hash, Key, Revision, Scope, Sequence, Visibility, Wire

T = TypeVar("T")

KNOWLEDGE_STATE: Final = (
    "reviewed: published, accepted by review, policy or import; sourceRetracted: likewise, and a source of it was "
    "withdrawn since; claim: what the branch's agent noted for itself, and nobody has reviewed"
)


class FieldError(Wire):
    """What is wrong with one member of a request."""

    field: str = Field(description="where: body.decisions[3].reason, query.limit, path.namespace")
    message: str


class Problem(Wire):
    """An error (RFC 9457). `code` is for programs, `detail` and `hint` for people."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = Field(description="a relative reference that ends in the code; docs/spec/http.md explains each")
    title: str
    status: int
    detail: str = Field(description="what happened")
    code: str
    hint: str = Field(default="", description="what to do next")
    errors: tuple[FieldError, ...] | None = None
    request_id: str | None = Field(default=None, description="by which the log of the API knows the request")


class Page(Wire, Generic[T]):
    """One page of a list.

    A page may hold fewer items than the limit, or none, before the end: what the caller may not see is left out. The
    list ends where `next_cursor` is null.
    """

    items: tuple[T, ...]
    next_cursor: str | None = Field(description="pass it as `cursor` to read on; opaque; null: this was the last page")


class ReplicaTerms(Wire):
    """On which terms a worker may keep what it has downloaded of a Baseline."""

    max_age_seconds: float = Field(description="a replica that was not seen to be granted for so long is to be purged")
    on_revoke: Literal["Purge", "Keep"] = Field(description="what to do when a grant is found to be gone")


class BaselineState(Wire):
    """A Baseline and where its line is."""

    namespace: str
    name: str
    line_id: str
    current: ManifestRef | None = Field(description="what readers see; null before the first import")
    previous: ManifestRef | None = Field(description="what current was before its last move")
    head: ManifestRef | None = Field(description="the newest manifest")
    pinned_generation: int | None
    suspended: bool
    feed_watermark: int = Field(description="sequence of the newest event")
    pending_batches: int = Field(description="received, and not decided yet")
    open_conflicts: int = Field(description="candidates that contradict a record and wait for a reviewer")
    oldest_conflict_at: datetime | None
    replica: ReplicaTerms


class BaselinePage(Page[BaselineState]):
    """Baselines by name."""


class ManifestPage(Page[BaselineManifest]):
    """Retained manifests, newest first."""


class RecordPage(Page[PublishedFact]):
    """Records of one manifest, by key in the order of code points. All pages are of that manifest."""

    manifest: ManifestRef


class DiffEntry(Wire):
    """A key whose revision differs between two manifests; null: absent there, or in a scope that is not yours."""

    key: Key
    before: RecordDescriptor | None
    after: RecordDescriptor | None


class DiffPage(Page[DiffEntry]):
    """What differs between two manifests, by key."""

    before: ManifestRef
    after: ManifestRef


class ArchiveState(Wire):
    """An uploaded archive, whole and verified."""

    digest: Hash
    size: int = Field(description="bytes")
    created_at: datetime


class EventPage(Wire):
    """A stretch of a line's feed."""

    events: tuple[SharedEvent, ...]
    cursor: str = Field(
        description="pass it as `after` next time. It moves on even where every event was in a scope that is not yours"
    )
    watermark: int = Field(description="sequence of the newest event of the line, whoever may see it")
    floor: int = Field(description="events up to here are no longer kept")


class BranchPage(Page[BranchManifest]):
    """Branches by name."""


class BranchPending(Wire):
    """The Branch was created and has not forked yet."""

    namespace: str
    name: str
    phase: Literal["Pending"] = "Pending"
    reason: str = Field(description="one word, such as BaselineUnavailable; empty while it is not known")
    detail: str


class PrivateRecord(Wire):
    """A record of a branch's private overlay."""

    key: Key
    revision: Revision = Field(description="of the overlay: 1 at first, one more with each write; also the ETag")
    scope: Scope
    visibility: Visibility
    content: JsonValue
    content_hash: Hash
    base_revision: Revision = Field(
        description='of what was beneath when it was first written here, or settled by a write since; "0": nothing'
    )
    updated_at: datetime


class PrivatePage(Page[PrivateRecord]):
    """Private records by key."""


class ViewedRecord(Wire):
    """A record as a branch sees it, naming the layer that it comes from."""

    layer: Literal["base", "shared", "private"]
    key: Key
    revision: Revision = Field(description="of that layer")
    scope: Scope
    visibility: Visibility
    content: JsonValue
    content_hash: Hash
    base_revision: Revision = Field(description="what a change of this record names as its base")
    tombstone: bool = Field(default=False, description="the layer says that the key was deleted")
    state: KnowledgeState = Field(default="reviewed", description=KNOWLEDGE_STATE)
    source_locators: tuple[str, ...] = Field(
        default=(), description="where the content comes from; a private record has none yet"
    )
    retracted_sources: tuple[str, ...] = Field(default=(), description="those of its sources that were withdrawn")
    validated_at: datetime | None = Field(default=None, description="when it was accepted; null: imported, or private")


class BatchState(Wire):
    """A received batch, without its changes."""

    sequence: Sequence
    receipt_id: str
    content_hash: Hash
    changes: int
    final: bool
    received_at: datetime
    job_id: str | None = Field(description="the consolidation job that has it, once one does")


class BatchPage(Page[BatchState]):
    """Received batches by sequence."""


class BulkResult(Wire):
    """What became of one batch of a bulk request."""

    sequence: int | None = Field(description="null where the batch has none")
    status: int = Field(description="what the batch would have been answered with alone")
    answer: dict[str, Any] = Field(description="a Receipt, a Publication or a Problem")


class BulkAnswer(Wire):
    """What became of each batch, in the order of the request."""

    results: tuple[BulkResult, ...]


class EvidenceState(Wire):
    """An uploaded blob, and how a finding names it."""

    locator: str
    digest: Hash
    size: int = Field(description="bytes")
    media_type: str


class CompletionState(Wire):
    """A run's completion as it was received."""

    branch_id: str
    run_id: str
    content_hash: Hash
    last_submitted_sequence: int
    contiguous_through: int = Field(description="all batches up to this one are in")
    received_at: datetime
    closed_at: datetime | None = Field(description="when the last missing batch was in; null: some are missing")


class Health(Wire):
    """Whether a process does its work, part by part."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, str] = Field(default_factory=dict, description='"ok", or what is wrong')
