"""The objects of the key-value contract, under the names that clients of instantKV know.

That service and its clients were there first, so nothing here is ours to rename: revisions are numbers, times are
milliseconds since the epoch, an error is `{"error": {code, message, retryable}}`. What the objects mean on a branch is
told in docs/guides/instantkv.md.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints

from anabranch.model.limits import (
    KV_CAPSULE_REFERENCES,
    KV_MEMORY_TAGS,
    MAX_SAFE_INTEGER,
    TEXT_PATTERN,
)
from anabranch.model.wire import Wire

KvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Of a namespace, a checkpoint, an agent or a session."""

KvKey = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=TEXT_PATTERN)]
Millis = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Seen = Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER)]
"""A revision that somebody has seen."""

Ttl = Annotated[int, Field(ge=1, le=3_153_600_000, description="seconds; a century at most")]
Text = Annotated[str, StringConstraints(pattern=TEXT_PATTERN)]
Budget = Annotated[int, Field(ge=1_024, le=65_536, description="bytes that the answer may have")]


class KvErrorDetail(Wire):
    """What is wrong."""

    code: str
    message: str
    retryable: bool = Field(description="whether the same request may succeed later")


class KvError(Wire):
    """An error of the key-value contract."""

    error: KvErrorDetail


class KvHealth(Wire):
    """That the base URL of a branch answers."""

    status: Literal["ok"] = "ok"
    version: str


class KvReceipt(Wire):
    """What a write became. It is durable."""

    revision: int
    bytes: int = Field(description="of the value")
    written_at_ms: int
    expires_at_ms: int | None


class KvRecordInfo(Wire):
    """A record without its value."""

    key: str
    revision: int
    bytes: int = Field(description="of the value")
    expires_at_ms: int | None


class KvPage(Wire):
    """Records by key."""

    items: tuple[KvRecordInfo, ...]
    next_cursor: str | None = Field(description="pass it as `cursor`, with the same prefix; null: this was the last")


class KvStats(Wire):
    """What a namespace holds."""

    entries: int
    bytes: int = Field(description="of keys and values")
    revision: int = Field(description="of the newest write; none is ever given twice")


class MemoryInput(Wire):
    """A structured memory as an agent gives it."""

    content: Text = Field(description="a fact, a preference, a decision or an observation; at most 16 KiB")
    topic: Text | None = Field(default=None, description="a label, of at most 64 bytes; case does not count")
    tags: tuple[Text, ...] = Field(default=(), max_length=KV_MEMORY_TAGS, description="labels like the topic")
    metadata: dict[str, JsonValue] = Field(default_factory=dict, description="kept and given back, not searched")
    occurred_at_ms: Millis | None = Field(default=None, description="when it happened; default: now")


class Memory(Wire):
    """A structured memory as it is kept: a record whose JSON value is this."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    format: Literal[1] = Field(default=1, alias="_instantkv_memory")
    content: Text
    topic: str | None
    tags: tuple[str, ...]
    metadata: dict[str, JsonValue]
    occurred_at_ms: Millis


class MemoryHit(Wire):
    """A structured memory, with its place."""

    key: str
    revision: int
    written_at_ms: int
    expires_at_ms: int | None
    memory: Memory


class MemoryPage(Wire):
    """Structured memories, by when they happened, the newest first."""

    items: tuple[MemoryHit, ...]
    next_cursor: str | None = Field(description="pass it as `cursor`, with the same filters, after an empty page too")
    scanned: int
    scanned_bytes: int


class RememberRequest(Wire):
    """Keep a structured memory: a new one, or with `if_revision` in the place of what was seen."""

    key: KvKey | None = Field(default=None, description="default: a new one; with a key of your own you may ask again")
    memory: MemoryInput
    ttl_seconds: Ttl | None = None
    if_revision: Seen | None = None


class MemorySearch(Wire):
    """A question to structured memories."""

    query: Text = Field(default="", description="words; at most 16 KiB")
    expand: bool = Field(default=False, description="there is no dictionary here: it adds nothing")
    expansion_terms: tuple[Annotated[str, StringConstraints(pattern=r"^[^\W_]{1,64}$")], ...] = Field(
        default=(), max_length=8, description="related words, which count a quarter"
    )
    topic: Text | None = None
    tag: Text | None = None
    since_ms: Millis | None = None
    until_ms: Millis | None = None
    limit: int = Field(default=20, ge=1, le=100)
    max_bytes: Budget = 16_384
    cursor: str | None = Field(default=None, max_length=2_048)


class MemoryScored(MemoryHit):
    """A structured memory that was found."""

    score: float = Field(description="BM25: comparable within one question")


class MemoryRanking(Wire):
    """Structured memories, the best first."""

    items: tuple[MemoryScored, ...]
    next_cursor: str | None = Field(description="good until the namespace is written to")
    postings_scanned: int
    index_reads: int
    scored_candidates: int
    query_terms: int
    selected_terms: int
    query_reduced: bool = Field(description="the question had more words than are asked for at once")
    expansion_terms: int
    candidates_scanned: int
    scanned_bytes: int
    truncated: bool


class KvCapsule(Wire):
    """What a task needs to go on after its context is gone."""

    goal: Text
    summary: Text
    constraints: tuple[Text, ...] = ()
    decisions: tuple[Text, ...] = ()
    open_tasks: tuple[Text, ...] = ()
    next_action: Text


class KvReference(Wire):
    """A record that a checkpoint stands on."""

    namespace: KvName
    key: KvKey
    revision: Seen


class KvCheckpointRequest(Wire):
    """A checkpoint. The same id with the same members is the same checkpoint."""

    id: KvName
    agent_id: KvName
    session_id: KvName
    expected_latest_revision: Seen | None = Field(
        default=None, description="`latest_revision` of the session's last receipt; null: this is its first one"
    )
    capsule: KvCapsule
    references: tuple[KvReference, ...] = Field(default=(), max_length=KV_CAPSULE_REFERENCES)


class KvCheckpointReceipt(Wire):
    """That a checkpoint is durable."""

    id: str
    revision: int
    latest_revision: int = Field(description="what the session's next checkpoint names")
    locator: str
    is_latest: bool


class KvResolvedReference(KvReference):
    """A record that a checkpoint stands on, and what has become of it."""

    status: Literal["available", "stale", "missing", "forbidden"]


class KvRestore(Wire):
    """A checkpoint, to go on from."""

    checkpoint_id: str
    revision: int
    latest_revision: int
    capsule: KvCapsule
    references: tuple[KvResolvedReference, ...]
