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
    ConsolidationJob,
    JobState,
    KnowledgeCandidate,
    KnowledgeState,
    ManifestRef,
    PublishedFact,
    RecordDescriptor,
    SharedEvent,
)
from anabranch.model.wire import Hash, Key, Revision, Scope, Sequence, Visibility, Wire

T = TypeVar("T")

_STATE: Final = (
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


class Snippet(Wire):
    """A piece of what a record says, as plain text: whoever shows it escapes it as any text of others."""

    text: str
    matches: tuple[tuple[int, int], ...] = Field(
        description="where words of the search stand in `text`: begin and end in code points, in their order"
    )


class SearchHit(Wire):
    """A record that a search found, with where it comes from; its content is read by its key."""

    score: float = Field(description="BM25: compares the hits of one search, and nothing else")
    layer: Literal["base", "shared", "private"] = Field(
        description="base: published, reviewed or accepted by policy; shared: likewise, taken over after the fork; "
        "private: what the branch's agent noted for itself"
    )
    key: Key
    revision: Revision = Field(description="of that layer")
    scope: Scope
    visibility: Visibility
    content_hash: Hash
    snippet: Snippet
    source_locators: tuple[str, ...] = Field(description="where the content comes from; a private record has none yet")
    origin_runs: tuple[str, ...] = Field(description="runs that found it")
    validated_at: datetime | None = Field(description="when it was accepted; null: imported, or private")
    state: KnowledgeState = Field(default="reviewed", description=_STATE)
    retracted_sources: tuple[str, ...] = Field(default=(), description="those of its sources that were withdrawn")


class SearchPage(Page[SearchHit]):
    """What a search found, the best first."""

    manifest: ManifestRef = Field(description="what was searched; all pages are of it")
    indexed_through: int = Field(
        description="all versions up to this generation are in the index, which the operator makes after the fact"
    )
    complete: bool = Field(
        description="whether everything was looked at. Not while a large import, or a database from an older release, "
        "is being indexed, or where an overlay is too large"
    )


class QualityAges(Wire):
    """How long ago records were validated, to the week."""

    week: int = Field(description="records validated a week ago at most")
    month: int = Field(description="up to four weeks ago")
    quarter: int = Field(description="up to 13 weeks ago")
    year: int = Field(description="up to 52 weeks ago")
    older: int = Field(description="longer ago")
    undated: int = Field(description="imported, and never validated here")


class QualityCounts(Wire):
    """What records there are, and what is known of them."""

    records: int = Field(description="live ones")
    sourced: int = Field(description="those that name a source")
    verified: int | None = Field(
        description="those of them that were validated with it, or imported by digest; null while the review policy "
        "does not require sources: then nobody had to look"
    )
    ages: QualityAges


class ScopeQuality(QualityCounts):
    """The same of one scope."""

    scope: Scope
    open_conflicts: int = Field(description="findings that contradict a record and wait for a reviewer, as of now")


class QualityPoint(Wire):
    """What a generation had in all scopes."""

    generation: int
    published_at: datetime
    records: int
    sourced: int
    verified: int | None


class Quality(Wire):
    """What can be counted of a generation. More is not better: see docs/quality.md."""

    manifest: ManifestRef = Field(description="what was counted")
    total: QualityCounts | None = Field(
        description="in all scopes; null where the generation is not counted: that is done after the fact, "
        "and not for those from before this was kept"
    )
    scopes: tuple[ScopeQuality, ...] = Field(description="in each scope that the caller may read")
    open_conflicts: int = Field(description="in all scopes, as of now")
    duplicates_removed: int = Field(description="findings, ever, that said what was known already")
    history: tuple[QualityPoint, ...] = Field(description="earlier generations that are counted, newest first")


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
    reason: str = Field(description="one word, such as BaselineUnavailable; empty while the operator has not seen it")
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
    state: KnowledgeState = Field(default="reviewed", description=_STATE)
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


class JobPage(Page[ConsolidationJob]):
    """Consolidation jobs by name."""


class CandidatePage(Page[KnowledgeCandidate]):
    """A job's candidates by id."""


class Transition(Wire):
    """One step of a job. Equal states: it failed, was taken over, or was tried again."""

    ordinal: int
    from_state: JobState | None
    to_state: JobState
    attempt: int
    holder: str | None
    detail: str
    at: datetime


class TransitionPage(Page[Transition]):
    """A job's steps in their order."""


class ReviewEntry(Wire):
    """A decision as it was recorded."""

    ordinal: int
    candidate_id: str
    reviewer: str
    action: Literal["accept", "reject", "withdraw"]
    content_hash: Hash
    base_revision: Revision
    reason: str
    via: Literal["resource", "http"]
    at: datetime


class ReviewAnswer(Wire):
    """The decisions as recorded. The job takes them up at once."""

    job_id: str
    decisions: tuple[ReviewEntry, ...]


class ReviewPage(Page[ReviewEntry]):
    """What reviewers have decided on a job's candidates, in order; the latest of each on a candidate counts."""


class Health(Wire):
    """Whether a process does its work, part by part."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, str] = Field(default_factory=dict, description='"ok", or what is wrong')
