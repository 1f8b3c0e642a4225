"""What an agent's queue of events looks like from outside, to whoever wants to know what became of one."""

from __future__ import annotations

from pydantic import Field

from anabranch.model.agent_events import EventStatus
from anabranch.model.wire import Moment, Wire


class QueuedEvent(Wire):
    """An event in the queue, without its data."""

    event_id: str
    type: str = Field(description="as the event has it")
    status: EventStatus = Field(description="claimed beyond its `deadline` is as good as pending")
    attempts: int = Field(description="how often it was delivered")
    created_at: Moment
    not_before: Moment | None = Field(
        description="pending: when it may be claimed, which is later after it was sent back"
    )
    deadline: Moment | None = Field(description="claimed: until when it is somebody's to acknowledge")
    finished_at: Moment | None = Field(description="when it was acknowledged, or given up")
    error: str | None = Field(description="why it was sent back last, or given up")


class QueuePage(Wire):
    """The events of an instance, newest first."""

    items: tuple[QueuedEvent, ...]
    next_cursor: str | None
