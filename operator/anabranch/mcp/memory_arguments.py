"""What the tools about an agent's memory take, and what they give where no route gives the same."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field, JsonValue, StringConstraints

from anabranch.mcp.tools import AtAgent
from anabranch.model.limits import CLAIM_SECONDS, CLAIM_SECONDS_MAX, CLAIM_SECONDS_MIN, TEXT_PATTERN
from anabranch.model.memory import (
    ItemName,
    MemorySection,
    MemoryVisibility,
    SectionName,
    Source,
    SystemExchanges,
)
from anabranch.model.wire import Revision, Wire

EVENTS = 20
"""Of one call; an agent with more makes several."""


class ReadMyMemory(AtAgent):
    """What of your memory to read."""

    section: SectionName | None = Field(default=None, description="default: everything, and nothing is marked as seen")
    item: ItemName | None = Field(
        default=None, description="of daily a date, of relationships another instance; default: all of them"
    )
    siblings: bool = Field(
        default=False, description="what your other instances let you see of theirs, instead of what yours says"
    )


class MyMemory(Wire):
    """What was read."""

    sections: tuple[MemorySection, ...] = ()
    exchanges: SystemExchanges | None = Field(default=None, description="null: they were not asked for")
    omitted: int = Field(default=0, description="items that there was no room for: ask for them one by one")


class SaveMyMemory(AtAgent):
    """What to write, and where."""

    section: SectionName = Field(description="long_term, dedup_state, shared, daily or relationships")
    item: ItemName | None = Field(
        default=None, description="of daily the date (YYYY-MM-DD), of relationships the other instance"
    )
    content: JsonValue
    visibility: MemoryVisibility | None = Field(
        default=None, description="instances: your other instances may read it; default: private"
    )
    source: Source = Field(default="mcp", description="who writes it, in your own words")
    if_revision: Revision | None = Field(
        default=None, description='only over the revision that you saw; "0": only if there is none'
    )


class MyEvents(AtAgent):
    """How many events to take, and for how long."""

    limit: int = Field(default=5, ge=1, le=EVENTS)
    visibility_seconds: int = Field(
        default=CLAIM_SECONDS,
        ge=CLAIM_SECONDS_MIN,
        le=CLAIM_SECONDS_MAX,
        description="what is not acknowledged by then comes again",
    )
    wait_seconds: int = Field(default=0, ge=0, le=25, description="seconds to wait for a first one")


class Acknowledge(AtAgent):
    """Which event you have dealt with."""

    event_id: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=TEXT_PATTERN)] = Field(
        description="`id` of the event"
    )
    claim_id: UUID = Field(description="`claimid` of the event")
    error: Annotated[str, StringConstraints(max_length=1024, pattern=TEXT_PATTERN)] | None = Field(
        default=None, description="why you could not deal with it; default: you could"
    )
