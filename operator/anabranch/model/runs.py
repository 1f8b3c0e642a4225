"""What an agent and the service tell each other about a run that goes on: presence, place in the feed, checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.model import limits
from anabranch.model.answers import Page
from anabranch.model.crd.base import Token
from anabranch.model.objects import AgentPresence, ManifestRef, RecordDescriptor
from anabranch.model.wire import Hash, Key, Locator, Revision, Scope, Wire

Text = Annotated[str, StringConstraints(pattern=limits.TEXT_PATTERN)]


class PresenceWrite(Wire):
    """A sign of life: it renews the lease for as long as the Branch's `spec.lease.duration` says."""

    state: Literal["active", "stale"] = Field(
        default="active", description="stale: the agent goes away, and its lease ends now"
    )
    task: Annotated[Text, StringConstraints(max_length=limits.TASK_BYTES)] | None = Field(
        default=None, description="what the agent is at; default: what the Branch says"
    )
    observed_feed_cursor: str | None = Field(
        default=None, max_length=2048, description="the cursor of what it has seen last; default: the saved one"
    )


class PeerPage(Page[AgentPresence]):
    """Runs of a Baseline by branch id."""


class CursorWrite(Wire):
    """How far the agent has followed: save it with what was applied, after it was applied."""

    cursor: str = Field(min_length=1, max_length=2048, description="`cursor` of the feed's answer, or `id` of an event")


class FeedPlace(Wire):
    """How far a run follows the feed of its Baseline."""

    branch_id: str
    cursor: str = Field(description="where to go on; never before what the parent manifest includes")
    sequence: int = Field(description="of the last event that is behind it")
    watermark: int = Field(description="sequence of the newest event of the line, whoever may see it")
    saved_at: datetime | None = Field(description="null: nothing was saved yet; it is the parent's place")


class Capsule(Wire):
    """What an agent needs in order to go on with a task after a context reset; 16 KiB at most in canonical form."""

    goal: str
    summary: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    open_tasks: tuple[str, ...] = ()
    next_action: str = ""


class CheckpointWrite(Wire):
    """A checkpoint to keep. Its id is in the path; the same id with the same content is the same checkpoint."""

    session_id: Token = "default"
    capsule: Capsule
    references: tuple[Locator, ...] = Field(
        default=(), max_length=limits.SOURCES_PER_CHANGE, description="what the capsule speaks of, as source locators"
    )
    expected_latest: Token | Literal[""] | None = Field(
        default=None,
        description='id of what must be the session\'s latest checkpoint; "": it must have none; null: whatever it has',
    )


class Checkpoint(Wire):
    """A checkpoint as it was made; it never changes."""

    checkpoint_id: str
    locator: str = Field(description="by which findings of this branch cite it")
    branch_id: str
    agent_id: str
    session_id: str
    ordinal: int = Field(description="its place among those of its branch, from 1")
    content_hash: Hash = Field(description="over the RFC 8785 form of {session_id, capsule, references}")
    capsule: Capsule
    references: tuple[Locator, ...]
    created_at: datetime


class CheckpointPage(Page[Checkpoint]):
    """Checkpoints, newest first."""


class RebaseConflict(Wire):
    """A private record that is based on another revision than a manifest shows, and says something else."""

    key: Key
    scope: Scope
    revision: Revision = Field(description="of the private record")
    content_hash: Hash = Field(description="of the private record")
    base_revision: Revision = Field(description='of the record that it was written on; "0": there was none')
    target: RecordDescriptor | None = Field(description="what the manifest has; null: nothing, or nothing of yours")


class EarlierParent(Wire):
    """A manifest that a run stood on before it was rebased."""

    manifest: ManifestRef
    until: datetime
    conflicts: int = Field(description="private records that the next parent contradicted")


class RebasePage(Page[RebaseConflict]):
    """What of the private overlay a manifest contradicts, by key."""

    branch_id: str
    parent: ManifestRef = Field(description="what the run stands on")
    target: ManifestRef = Field(description="what its overlay is compared with")
    lineage: tuple[EarlierParent, ...] = Field(description="what it stood on before, newest first: the last five")
