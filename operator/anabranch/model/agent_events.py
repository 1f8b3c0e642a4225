"""What an agent is told, as CloudEvents 1.0, and what it answers.

An event is claimed before it is told: until a deadline it is that of whoever claimed it, by the claim's id. The agent
acknowledges the claim, and never says what it has seen by it: that stands on the event.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

from anabranch.model import limits
from anabranch.model.memory import Exchange
from anabranch.model.wire import Revision, Wire

TYPE_PREFIX: Final = "dev.anabranch.agent."
"""What the CloudEvents type of a kind begins with."""

EventStatus = Literal["pending", "claimed", "acked", "failed"]


class MemoryDigest(Wire):
    """What happened to the agent elsewhere and it has not seen: newest first, five entries and 2,560 bytes at most."""

    entries: tuple[Exchange, ...] = ()
    omitted: int = Field(
        default=0, description="how many more it has not seen; it finds them in the section system_exchanges"
    )


class AgentEventData(Wire):
    """What an event is about, in members that its kind decides, and what else the agent should know by now."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)
    __pydantic_extra__: dict[str, JsonValue]

    memory_revision: Revision = Field(description="of the envelope when the event was claimed")
    memory_digest: MemoryDigest


class AgentEvent(Wire):
    """An event of an agent in the JSON format of CloudEvents 1.0, as it was claimed."""

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(description="with `source` it is unique; the same event comes again until it is acknowledged")
    source: str = Field(description="path of the agent's instance")
    type: str = Field(description="`dev.anabranch.agent.` and the kind")
    subject: str | None = Field(description="what it is about: a branch, or an exchange")
    time: datetime = Field(description="when it happened")
    datacontenttype: Literal["application/json"] = "application/json"
    claimid: UUID = Field(description="what to acknowledge it by")
    attempts: int = Field(description="how many times it was claimed, with this one")
    deadline: datetime = Field(description="until then nobody else gets it")
    data: AgentEventData


class ClaimRequest(Wire):
    """How many events to take, and for how long."""

    limit: int = Field(default=10, ge=1, le=limits.EVENTS_CLAIMED)
    visibility_seconds: int = Field(
        default=limits.CLAIM_SECONDS,
        ge=limits.CLAIM_SECONDS_MIN,
        le=limits.CLAIM_SECONDS_MAX,
        description="what is not acknowledged by then is told again, three times in all",
    )
    wait_seconds: int = Field(
        default=0, ge=0, le=limits.CLAIM_WAIT_SECONDS, description="for how long to wait while there is none"
    )


class Claimed(Wire):
    """Events that are the caller's until their deadlines, oldest first."""

    events: tuple[AgentEvent, ...]


class EventAck(Wire):
    """An event was dealt with."""

    claim_id: UUID


class EventFailure(Wire):
    """An event could not be dealt with; it comes again a little later, unless this was the third time."""

    claim_id: UUID
    error: Annotated[str, StringConstraints(max_length=1024, pattern=limits.TEXT_PATTERN)] = ""


class EventState(Wire):
    """What became of a claim."""

    event_id: str
    claim_id: UUID
    status: EventStatus = Field(description="acked; failed: given up; pending: it comes again")
    attempts: int
    memory_revision: Revision = Field(description="of the envelope when the event was claimed")
    retry_at: datetime | None = Field(description="when it may be claimed again; null: never")
