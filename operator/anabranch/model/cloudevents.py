"""The feed's events as CloudEvents 1.0: the form in which a stream carries them, and that other systems take in.

An envelope says the same of an event as the event itself, in the words that brokers and functions of any make route by.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from anabranch.model.objects import SharedEvent
from anabranch.model.wire import Traceparent, Wire, is_none

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES: Final[Mapping[str, str]] = {
    "published": "dev.anabranch.record.published",
    "superseded": "dev.anabranch.record.superseded",
    "tombstone": "dev.anabranch.record.tombstone",
    "rollback": "dev.anabranch.baseline.rollback",
    "resumed": "dev.anabranch.baseline.resumed",
    "restored": "dev.anabranch.baseline.restored",
}
"""The CloudEvents type of each kind of event: about a record, or about the line as a whole."""


class CloudEvent(Wire):
    """An event of the feed in the JSON format of CloudEvents 1.0."""

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(description="`event_id` of the event")
    source: str = Field(description="path of the Baseline; with `id` it is unique")
    type: str = Field(description="`dev.anabranch.record.…` or `dev.anabranch.baseline.…`, by the event's kind")
    subject: str | None = Field(None, description="the record's key; left out where the event concerns the whole line")
    time: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    traceparent: Traceparent | None = Field(
        None, exclude_if=is_none, description="the extension of distributed tracing: `traceparent` of the event"
    )
    data: SharedEvent


def envelope(event: SharedEvent, *, source: str) -> CloudEvent:
    """An event in its envelope.

    Args:
        event: Of the feed.
        source: Path of the Baseline.
    """
    return CloudEvent.model_construct(
        specversion="1.0",
        id=event.event_id,
        source=source,
        type=TYPES[event.kind],
        subject=event.key,
        time=event.created_at,
        datacontenttype="application/json",
        traceparent=event.traceparent,
        data=event,
    )
