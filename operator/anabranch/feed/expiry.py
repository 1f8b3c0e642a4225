"""Whether the feed reaches back to where a follower is; and if not, how it finds back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from anabranch.feed.cursor import Position, seal
from anabranch.model.canonical import hash_text
from anabranch.model.errors import GoneError
from anabranch.model.objects import ManifestRef
from anabranch.store import lines, manifests

if TYPE_CHECKING:
    from anabranch.domain.cursor import Sealer
    from anabranch.store.database import Connection
    from anabranch.store.events import EventPage


class CursorExpiredError(GoneError):
    """The feed no longer reaches back to where the follower is: it needs a snapshot, and the events after that."""

    code: ClassVar[str] = "CursorExpired"


def reaches(page: EventPage, start: Position) -> bool:
    """Whether what was read after a place is all that came after it."""
    return page.epoch == start.epoch and page.floor <= start.sequence <= page.watermark


async def expired(conn: Connection, sealer: Sealer, line: str) -> CursorExpiredError:
    """The error for a place that a feed does not reach, with the way back."""
    head = await lines.head(conn, line)  # one row: what is current is so as of this very event
    return CursorExpiredError(
        "The feed no longer reaches back to this cursor.",
        hint="Read the records of `snapshot`, then go on after `cursor`.",
        floor=head.event_floor,
        head=await _ref(conn, line, head.head_generation),
        snapshot=await _ref(conn, line, head.current_generation),
        watermark=head.event_sequence,
        cursor=seal(sealer, line, Position(head.epoch, head.event_sequence)),
    )


async def _ref(conn: Connection, line: str, generation: int) -> dict[str, Any] | None:
    row = await manifests.get(conn, line=line, generation=generation)
    if row is None:
        return None
    ref = ManifestRef(
        baseline_id=row.baseline_id, generation=row.generation, manifest_hash=hash_text(row.manifest_hash)
    )
    return ref.model_dump(mode="json")
