"""What an agent remembers: the sections of its envelope, what the platform notes for it, and how it is written.

The names of an exchange's members are those of the proposal that it comes from (``surfacePodId``), wherever it is
shown: runtimes read it in the payload of an event, and again in the envelope. All else has this project's names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from anabranch.model import limits
from anabranch.model.crd.base import LongToken, Token
from anabranch.model.wire import Hash, Revision, TellableMoment, Wire

MemoryVisibility = Literal["private", "instances"]
"""Whether the agent's other instances see a section. Nobody else ever does."""

SYSTEM_EXCHANGES: Final = "system_exchanges"

WRITABLE: Final = ("long_term", "dedup_state", "shared", "daily", "relationships")
"""The sections that agents write."""

ITEMIZED: Final = ("daily", "relationships")
"""Those of them that have a content for each date, and for each other instance."""

SectionName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""Free text: which sections there are, and which of them are written by whom, one function says (`memory.writable`)."""

ItemName = Annotated[str, StringConstraints(min_length=1, max_length=63)]
Source = Annotated[str, StringConstraints(max_length=128, pattern=limits.TEXT_PATTERN)]
ExchangeId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
SurfaceId = Annotated[
    str, StringConstraints(min_length=1, max_length=limits.SURFACE_ID_BYTES, pattern=r"^[!#-\[\]-~]+$")
]
Peer = Annotated[str, StringConstraints(max_length=limits.PEER_BYTES)]
Kind = Annotated[str, StringConstraints(max_length=32, pattern=r"^[a-z]+\.[a-z_]+$")]
PostedKind = Literal["exchange.direct", "exchange.loop_guard", "exchange.task_completed"]
"""What a chat platform reports: a direct exchange concluded, the loop guard ended one, a task was completed."""

PLATFORM_KINDS: Final = (
    "run.completed",
    "finding.published",
    "finding.rejected",
    "finding.conflict",
    "baseline.rollback",
    "record.retracted",
)
"""What the platform notes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AgentKey:
    """Names an instance of an agent, whose envelope and queue all its sessions share. In the order of locks."""

    namespace: str
    agent_id: str
    instance: str

    @property
    def columns(self) -> dict[str, str]:
        """As parameters of a query."""
        return {"namespace": self.namespace, "agent_id": self.agent_id, "instance": self.instance}

    @property
    def whole(self) -> AgentKey:
        """The agent itself, for what all its instances share."""
        return AgentKey(namespace=self.namespace, agent_id=self.agent_id, instance="")

    @property
    def peer(self) -> str:
        """How others call it in an exchange."""
        return f"{self.agent_id}/{self.instance}"

    @property
    def path(self) -> str:
        """Where it is in the HTTP API; the source of its events."""
        return f"/v1/namespaces/{self.namespace}/agents/{self.agent_id}/{self.instance}"

    @property
    def topic(self) -> str:
        """What is notified when there is something new for it."""
        return f"agent {self.namespace}/{self.agent_id}/{self.instance}"


class MemorySection(Wire):
    """A section of an agent's memory, or one item of it."""

    section: str
    item: str | None = Field(description="daily: the date; relationships: the other instance; null elsewhere")
    instance: str | None = Field(description="whose it is; null: of all the agent's instances")
    content: JsonValue
    visibility: MemoryVisibility = Field(description="instances: the agent's other instances see it, too")
    bytes: int = Field(description="of the content in its RFC 8785 form")
    revision: Revision = Field(description="of the envelope when it was written; also the ETag")
    content_hash: Hash
    source: str = Field(description="who wrote it, by its own word")
    updated_at: datetime


class MemorySections(Wire):
    """Several items: of one section, or of a section of the agent's other instances."""

    section: str
    items: tuple[MemorySection, ...]
    omitted: int = Field(default=0, description="how many more there are than one answer has room for")


class FormerContent(Wire):
    """What an item said before it was overwritten, or left out of a full sync."""

    item: str | None
    content: JsonValue
    visibility: MemoryVisibility
    bytes: int
    revision: Revision
    content_hash: Hash
    source: str
    updated_at: datetime = Field(description="when it was written")
    replaced_at: datetime


class SectionHistory(Wire):
    """What a section said before, newest first; of each item the last five."""

    section: str
    former: tuple[FormerContent, ...]
    omitted: int = Field(default=0, description="how many more there are than one answer has room for")


class Exchange(Wire):
    """What happened to the agent elsewhere: the members that a digest carries."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)

    kind: Kind = Field(description=f"{', '.join(PLATFORM_KINDS)}, or what a chat platform reports")
    surface_pod_id: SurfaceId = Field(description="where: a room of the chat platform, or the branch")
    surface_label: str = Field(max_length=limits.SURFACE_LABEL_CHARACTERS)
    peers: tuple[Peer, ...] = Field(max_length=limits.PEERS, description="who else took part, as agent/instance")
    takeaway: str = Field(
        max_length=limits.TAKEAWAY_CHARACTERS, description="what was said last, verbatim; cut off with … when longer"
    )
    ts: datetime = Field(description="when")


class SystemExchange(Exchange):
    """An exchange as it stands in the envelope."""

    revision: Revision = Field(description="of the envelope, that it made")
    seen: bool = Field(description="whether the agent has read it, or acknowledged an event that carried it")


class SystemExchanges(Wire):
    """What the platform has noted for an agent: the newest fifty, newest first. No agent writes here."""

    visibility: Literal["private"] = "private"
    revision: Revision = Field(description="of the envelope")
    entries: tuple[SystemExchange, ...]


class MemoryEnvelope(Wire):
    """All that one instance of an agent remembers."""

    agent_id: str
    instance: str
    revision: Revision = Field(description="one more with each write of a section, and with each exchange")
    last_seen_revision: Revision = Field(description="up to where the agent has acknowledged or read")
    sections: tuple[MemorySection, ...]
    system_exchanges: SystemExchanges


class PutSection(Wire):
    """What to write down in a section, in place of what it says now."""

    content: JsonValue
    visibility: MemoryVisibility | None = Field(
        default=None, description="default: private; the section shared is always that of all instances"
    )
    source: Source = Field(default="", description="who writes: a runtime, a session, a tool")


class SyncedSection(Wire):
    """A section, or an item of one, as a sync brings it."""

    section: SectionName
    item: ItemName | None = None
    content: JsonValue
    visibility: MemoryVisibility | None = None


class MemorySync(Wire):
    """What a runtime has of the agent's memory.

    The same again on the same day, with nothing written in between, changes nothing.
    """

    mode: Literal["full", "patch"] = Field(
        description="full: what is not given here is removed, but for shared; patch: it stays"
    )
    runtime: Source = Field(default="", description="who syncs; becomes the source of what it changes")
    sections: tuple[SyncedSection, ...] = Field(max_length=limits.MEMORY_ITEMS)


class MemorySynced(Wire):
    """What a sync came to."""

    deduplicated: bool = Field(description="the same was synced before, and nothing has been written since")
    revision: Revision = Field(description="of the envelope")
    written: int = Field(description="sections and items that were other before")
    removed: int


class Surface(Wire):
    """Where an exchange took place."""

    pod_id: SurfaceId
    label: str = Field(default="", max_length=limits.SURFACE_LABEL_CHARACTERS, pattern=limits.TEXT_PATTERN)


class Participant(Wire):
    """An agent that took part."""

    agent_id: LongToken
    instance: Token = "default"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        size = len(self.agent_id) + 1 + len(self.instance)
        if size > limits.PEER_BYTES:
            raise ValueError(f"agent_id/instance has {size} bytes, the limit is {limits.PEER_BYTES}")
        return self


class Turn(Wire):
    """Something that was said."""

    sender: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=limits.TEXT_PATTERN)]
    content: Annotated[str, StringConstraints(max_length=limits.TURN_CHARACTERS)]
    ts: TellableMoment | None = None


class ExchangePost(Wire):
    """An exchange that has concluded on a chat platform. Each participant is told of it once."""

    exchange_id: ExchangeId = Field(description="the platform's; the same again, with the same content, is the same")
    kind: PostedKind
    surface: Surface
    participants: tuple[Participant, ...] = Field(min_length=1, max_length=limits.EXCHANGE_PARTICIPANTS)
    turns: tuple[Turn, ...] = Field(
        default=(),
        max_length=limits.EXCHANGE_TURNS,
        description="in their order. The takeaway is the newest one of the last one's sender that is not NO_REPLY",
    )
    ts: TellableMoment | None = Field(
        default=None, description="when it concluded; default: when the last turn was said, or else now"
    )


class ExchangeReceipt(Wire):
    """An exchange is noted for each of its participants. The same exchange again gets the same receipt."""

    exchange_id: str
    content_hash: Hash = Field(
        description="over the RFC 8785 form of what was posted, with what was left out at its default"
    )
    received_at: datetime
