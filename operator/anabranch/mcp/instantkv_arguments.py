"""What the tools of instantKV take, and what some of them give that its contract has no model for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from anabranch.model.kv import (
    Budget,
    KvCheckpointRequest,
    KvKey,
    KvName,
    MemoryInput,
    MemorySearch,
    Millis,
    Seen,
    Ttl,
)
from anabranch.model.limits import PAGE_DEFAULT, PAGE_MAX
from anabranch.model.wire import Wire

Knowledge = Annotated[KvName, Field(description="where the records are")]
Checkpoints = Annotated[KvName, Field(description="where the checkpoints are")]


class Remember(MemoryInput):
    """A structured memory to keep."""

    namespace: Knowledge = "knowledge"
    key: KvKey | None = Field(default=None, description="default: a new one; with a key of your own you may ask again")
    ttl_seconds: Ttl | None = None
    if_revision: Seen | None = Field(default=None, description="replace this revision; default: it must be new")


class Browse(Wire):
    """Which structured memories to list, the newest first."""

    namespace: Knowledge = "knowledge"
    since_ms: Millis | None = None
    until_ms: Millis | None = None
    limit: int = Field(default=20, ge=1, le=100)
    max_bytes: Budget = 16_384
    cursor: str | None = Field(default=None, max_length=2_048)


class Recall(Browse):
    """Which structured memories to recall."""

    topic: str | None = None
    tag: str | None = None
    query: str | None = Field(default=None, description="texts that all stand in the content; case does not count")


class Search(MemorySearch):
    """A question to structured memories."""

    namespace: Knowledge = "knowledge"


class Forget(Wire):
    """Which structured memory to delete."""

    namespace: Knowledge = "knowledge"
    key: KvKey
    if_revision: Seen | None = None


class PutMemory(Wire):
    """A record to keep."""

    namespace: Knowledge = "knowledge"
    key: KvKey = Field(description="descriptive and stable, such as projects/mine/decisions/storage")
    value: JsonValue
    ttl_seconds: Ttl | None = None
    if_revision: Seen | None = Field(default=None, description="only over the revision that you saw")
    if_absent: bool = Field(default=False, description="only if there is none")


class MemoryKey(Wire):
    """Which record."""

    namespace: Knowledge = "knowledge"
    key: KvKey


class ListMemory(Wire):
    """Which keys to list."""

    namespace: Knowledge = "knowledge"
    prefix: str = ""
    limit: int = Field(default=PAGE_DEFAULT, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=2_048)


class SaveCheckpoint(Wire):
    """A checkpoint to keep."""

    namespace: Checkpoints = "checkpoints"
    checkpoint: KvCheckpointRequest


class DeleteCheckpoint(Wire):
    """Which checkpoint to delete."""

    namespace: Checkpoints = "checkpoints"
    checkpoint_id: KvName


class RestoreMemory(Wire):
    """Which checkpoint to restore: one by its id, or a session's latest."""

    namespace: Checkpoints = "checkpoints"
    checkpoint_id: KvName | None = None
    agent_id: KvName | None = None
    session_id: KvName | None = None
    max_bytes: int = Field(default=32_768, ge=512, le=1 << 20)


class Record(Wire):
    """A record; what is no JSON has its `value` as {encoding: "base64", data}."""

    key: str
    revision: int
    value: JsonValue


class Deleted(Wire):
    """That it is gone."""

    deleted: bool = True
