"""What a worker gives to its agent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from anabranch.model.errors import GoneError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.model.objects import Change, KnowledgeState, SharedEvent
    from anabranch.model.runs import Capsule
    from anabranch.model.wire import Visibility

Layer: TypeAlias = Literal["base", "shared", "private"]


class Follow(StrEnum):
    """What becomes of accepted changes that arrive."""

    APPLY = "Apply"
    """They are applied as they come."""

    HOLD = "Hold"
    """They are kept until the agent has looked at them and applies them."""

    OFF = "Off"
    """They are not asked for."""


class SnapshotIncompleteError(NotReadyError):
    """The parent snapshot is not there as a whole, so that a missing key would prove nothing."""

    code: ClassVar[str] = "SnapshotIncomplete"


class ReplicaPurgedError(GoneError):
    """What was downloaded is gone from here, as its terms demand; private records and the outbox are not."""

    code: ClassVar[str] = "ReplicaPurged"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRecord:
    """A record as the worker sees it.

    Attributes:
        layer: Where it is from: ``private`` hides ``shared``, which hides ``base``.
        key: Its key.
        revision: Of that layer: of the line in ``base`` and ``shared``, of the overlay in ``private``.
        scope: Its label.
        visibility: Whether it may be shared; what is shared already is ``shareable``.
        content: A JSON value.
        content_hash: Of the content.
        base_revision: What a finding about this key is based on, where the record is what it starts from.
        sources: Locators of what it is known from; none for private records.
        origin_runs: Whose findings it is.
        created_at: When it was first written here; of shared records when it was validated, where that is known.
        updated_at: When it was written here last; likewise.
        state: ``reviewed`` of what was published; ``sourceRetracted`` where a source of that was withdrawn since;
            ``claim`` of what the agent noted itself.
        retracted_sources: Those of its sources that were withdrawn.
    """

    layer: Layer
    key: str
    revision: str
    scope: str
    visibility: Visibility
    content: Any
    content_hash: str
    base_revision: str
    sources: Sequence[str] = ()
    origin_runs: Sequence[str] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    state: KnowledgeState = "reviewed"
    retracted_sources: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Bytes that a finding cites: they are uploaded before it.

    Attributes:
        body: At most 4 MiB.
        media_type: Of the body.
    """

    body: bytes
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Finding:
    """What the agent proposes as shared knowledge.

    Attributes:
        key: Of the record.
        content: A JSON value; None with ``op`` ``tombstone``.
        sources: Locators, and evidence that is to be uploaded.
        scope: Whose readers it is for.
        op: ``put``, or ``tombstone`` to propose that the record is deleted.
        visibility: ``shareable``, unless a private finding is exported on purpose.
        base_revision: What it is based on; None: what the worker shows of the key.
    """

    key: str
    content: Any = None
    _: KW_ONLY
    sources: Sequence[str | Evidence] = ()
    scope: str = "shared"
    op: Literal["put", "tombstone"] = "put"
    visibility: Visibility = "shareable"
    base_revision: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A batch that is durable in the worker's file, and will reach the API.

    Attributes:
        sequence: Its place in the run.
        content_hash: Its digest.
    """

    sequence: int
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCheckpoint:
    """A checkpoint, as the worker has it.

    Attributes:
        checkpoint_id: Its id; findings of the run cite it as ``checkpoint:<id>``.
        session: Whose it is.
        capsule: What is needed to go on.
        references: Source locators of what the capsule speaks of.
    """

    checkpoint_id: str
    session: str
    capsule: Capsule
    references: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What the API will not take as it is; it waits for the agent to decide.

    Attributes:
        what: ``batch``, ``record`` or ``checkpoint``.
        name: The batch's sequence, the record's key, the checkpoint's id.
        code: Of the problem.
        detail: What is wrong.
        hint: What to do.
        changes: Of a batch: what it proposed.
    """

    what: Literal["batch", "record", "checkpoint"]
    name: str
    code: str
    detail: str
    hint: str
    changes: Sequence[Change] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What an event brings for one key.

    Attributes:
        key: The key.
        revision: The new one; "0": the followed generation has no such record.
        content: The new content; None where the record is deleted or absent.
        gone: Whether it is deleted or absent.
    """

    key: str
    revision: str
    content: Any
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An event that has come and is not applied.

    Attributes:
        sequence: Its place in the feed.
        event: The event; None: the feed no longer reached back, and a snapshot takes the place of what was missed.
        rebuilds: Whether it replaces the whole overlay, as a rollback does.
        arrivals: What it brings.
    """

    sequence: int
    event: SharedEvent | None
    rebuilds: bool
    arrivals: Sequence[Arrival]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A private record that was written over another revision than the worker shows now beneath it.

    Attributes:
        key: The key.
        base_revision: What it was written over; "0": nothing.
        shown_revision: What is beneath it now; "0": nothing.
    """

    key: str
    base_revision: str
    shown_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What one round with the API has done.

    Attributes:
        sent: Batches that were acknowledged.
        refused: What was refused in this round, of any kind.
        received: Events that came.
        applied: Events that were applied.
    """

    sent: int = 0
    refused: int = 0
    received: int = 0
    applied: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a worker is.

    Attributes:
        branch_id: Of its branch; None: not forked yet.
        phase: Of the branch, as last seen.
        generation: That reads go to; None: no snapshot is complete.
        rebase_to: The generation that the branch was moved to, until `Worker.rebase` takes it up.
        waiting: Batches that the API has not got.
        unsaved: Private records that the API has not got.
        refused: What waits for the agent to decide.
        held: Events that have come and are not applied.
        applied_sequence: Of the newest event that was applied.
        seen_at: When the API last answered with what the grants show.
        purged: Why the replica was purged; None: it was not.
        trouble: Why the last round failed; None: it did not.
    """

    branch_id: str | None
    phase: str | None
    generation: int | None
    rebase_to: int | None
    waiting: int
    unsaved: int
    refused: int
    held: int
    applied_sequence: int
    seen_at: datetime | None
    purged: str | None
    trouble: str | None
