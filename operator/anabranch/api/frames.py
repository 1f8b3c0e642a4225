"""The feed on the wire of a stream: server-sent events that carry CloudEvents, as docs/spec/feed.md lays them down."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, Final

from anabranch.api import problems
from anabranch.feed.cursor import Position, seal
from anabranch.feed.poll import shared_event
from anabranch.model.cloudevents import envelope
from anabranch.telemetry import logs
from anabranch.telemetry.of_api import FEED_ENDED

if TYPE_CHECKING:
    from anabranch.domain.cursor import Sealer
    from anabranch.model.agent_events import AgentEvent
    from anabranch.model.errors import AnabranchError
    from anabranch.store.events import EventRow

BOOKMARK: Final = "bookmark"
END: Final = "end"
_RETRY_MS: Final = (500, 3_000)


class Frames:
    """Makes the bytes of one line's events.

    Args:
        line: Its id.
        sealer: Makes cursors.
        source: Path of its Baseline.

    Attributes:
        beat: A comment, which clients pass over.
    """

    beat: bytes = b":\n\n"

    def __init__(self, line: str, sealer: Sealer, *, source: str) -> None:
        self._line = line
        self._sealer = sealer
        self._source = source

    def event(self, row: EventRow, epoch: int) -> bytes:
        """An event, with the cursor behind it."""
        made = envelope(shared_event(row), source=self._source)
        value = made.model_dump(mode="json", exclude={"subject"} if made.subject is None else None)
        cursor = seal(self._sealer, self._line, Position(epoch, row.sequence))
        return f"id: {cursor}\nevent: {made.type}\ndata: {_json(value)}\n\n".encode()

    def bookmark(self, position: Position) -> bytes:
        """A cursor alone: with no data, so that a browser notes it and tells nobody."""
        return f"id: {seal(self._sealer, self._line, position)}\nevent: {BOOKMARK}\n\n".encode()


def agent_event(event: AgentEvent) -> bytes:
    """An event of an agent."""
    value = event.model_dump(mode="json", exclude={"subject"} if event.subject is None else None)
    return f"event: {event.type}\ndata: {_json(value)}\n\n".encode()


def opening() -> bytes:
    """What a stream begins with: when to come back after it breaks, unlike for those that began beside it."""
    pause = random.randint(*_RETRY_MS)  # noqa: S311  (it spreads those who come back, it keeps no secret)
    return f"retry: {pause}\n\n".encode()


def end(error: AnabranchError) -> bytes:
    """What a stream ends with that its client did not end: the problem, and its reason in one word."""
    made = problems.problem(error, request_id=logs.ids().get("request_id")).model_dump(mode="json", exclude_none=True)
    reason = re.sub(r"(?<!^)(?=[A-Z])", "_", error.code).lower()
    FEED_ENDED.labels(error.code).inc()
    return f"event: {END}\ndata: {_json({**made, 'reason': reason})}\n\n".encode()


def _json(value: dict[str, Any]) -> str:
    """On one line, and in ASCII: not every client knows that only CR and LF end a line of a stream."""
    return json.dumps(value, separators=(",", ":"))
