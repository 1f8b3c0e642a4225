"""Where a follower is in a line's feed, as it carries it: opaque, sealed, and of one epoch.

After a restore from backup the same sequences may stand for other events, and the line has another epoch. So a cursor
carries its epoch: by it a place that is no more is told from one that is merely behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.domain.cursor import Sealer


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a feed: behind the event with this sequence; 0 is its beginning."""

    epoch: int
    sequence: int


def seal(sealer: Sealer, line: str, position: Position) -> str:
    """The cursor for a place in a line's feed."""
    return sealer.seal(f"feed {line}", [position.epoch, position.sequence])


def unseal(sealer: Sealer, line: str, cursor: str) -> Position:
    """The place that a cursor names.

    Raises:
        InvalidCursorError: If it is no cursor of this line's feed.
    """
    epoch, sequence = sealer.open(f"feed {line}", cursor)
    return Position(epoch, sequence)
