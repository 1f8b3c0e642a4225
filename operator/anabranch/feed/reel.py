"""A line's events as bytes: read from the store once, and the last of them kept.

So followers who come back after a moment cost the store nothing, and what many are given is made once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from anabranch.feed.cursor import Position
from anabranch.feed.expiry import expired, reaches
from anabranch.feed.follower import Frame
from anabranch.store import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.domain.cursor import Sealer
    from anabranch.store.database import Database

PAGE: Final = 256
"""Events of a look: far fewer than may wait for a follower, so that many at once do not end the streams of all."""


class Wire(Protocol):
    """How a line's feed looks on the wire.

    Attributes:
        beat: What shows only that a stream lives.
    """

    beat: bytes

    def event(self, row: events.EventRow, epoch: int) -> bytes:
        """An event with its cursor."""

    def bookmark(self, position: Position) -> bytes:
        """A cursor, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What a follower missed, or a part of it.

    Attributes:
        frames: What it may see.
        end: Behind them.
        watermark: Sequence of the line's newest event.
        is_last: Whether there was nothing after them.
    """

    frames: Sequence[Frame]
    end: Position
    watermark: int
    is_last: bool


class Reel:
    """The events of a line.

    Args:
        line: Its id.
        db: The store.
        sealer: Makes the cursor that leads back who is lost.
        wire: Makes bytes of events.
    """

    def __init__(self, line: str, *, db: Database, sealer: Sealer, wire: Wire) -> None:
        self._line = line
        self._db = db
        self._sealer = sealer
        self._wire = wire
        self._recent: deque[Frame] = deque(maxlen=PAGE)

    def keep(self, frames: Sequence[Frame]) -> None:
        """Keep the newest of some events, which come right behind those that are kept."""
        self._recent.extend(frames)

    def remembered(self, start: Position | None, *, at: Position | None) -> Missed | None:
        """What comes after a place, from memory; None, if that does not reach back so far.

        Args:
            start: The place; None: the beginning of what the store has.
            at: Behind what was kept last; None: nothing was.
        """
        if at is None or start is None or start.epoch != at.epoch:
            return None
        behind = at.sequence - start.sequence
        if not 0 <= behind <= len(self._recent):
            return None
        frames = list(self._recent)[len(self._recent) - behind :]
        return Missed(frames=frames, end=at, watermark=at.sequence, is_last=True)

    async def read(self, start: Position | None) -> Missed:
        """What comes after a place, from the store, as much as is read at once.

        Raises:
            CursorExpiredError: If the feed does not reach back to it.
            UnavailableError: If the store cannot be reached.
        """
        after = start.sequence if start else 0
        async with self._db.connection() as conn:
            page = await events.after(conn, line=self._line, after_sequence=after, limit=PAGE, scopes=None)
            if start is not None and not reaches(page, start):
                raise await expired(conn, self._sealer, self._line)
        return Missed(
            frames=[
                Frame(row.sequence, row.scope, self._wire.event(row, page.epoch), row.traceparent)
                for row in page.events
            ],
            end=Position(page.epoch, page.next_sequence),
            watermark=page.watermark,
            is_last=len(page.events) < PAGE,
        )
