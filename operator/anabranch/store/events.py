"""The feed: read after a sequence, together with how far it goes and where it begins.

Sequences are counted on the head row inside the publishing transaction, so they have no gaps and follow the order of
commits: whoever sees a watermark sees everything up to it. Rows, floor and watermark come from one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.model.errors import NotFoundError
from anabranch.model.ids import new_event_id
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection
    from anabranch.store.lines import HeadRow
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("events")

EventKind: TypeAlias = Literal["published", "superseded", "tombstone", "rollback", "resumed", "restored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One entry of a line's feed.

    Attributes:
        line: The line.
        sequence: Its place, from 1.
        event_id: Its id.
        kind: ``published``, ``superseded``, ``tombstone``, ``rollback``, ``resumed`` or ``restored``.
        scope: Whose readers learn of it; None for all.
        key: The record's key; None when it concerns the whole line.
        revision: Of the version that it speaks of.
        content_hash: Of that version's content.
        origin_branch: The branch that found it.
        generation: The one that became current with it.
        published_baseline_id: The baseline id of that generation.
        created_at: When.
        traceparent: Of the publication that it tells of; None: that is part of no trace.
    """

    line: str
    sequence: int
    event_id: str
    kind: str
    scope: str | None
    key: str | None
    revision: int | None
    content_hash: bytes | None
    origin_branch: str | None
    generation: int
    published_baseline_id: str
    created_at: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An entry of the feed, before it has a sequence.

    Attributes:
        kind: What it tells.
        scope: Whose readers learn of it; None for all.
        key: The record's key; None when it concerns the whole line.
        revision: Of the version that it speaks of; None stands for the one that the generation brings.
        content_hash: Of that version's content.
        origin_branch: The branch that found it.
        traceparent: Of the publication; None: it is part of no trace.
    """

    kind: EventKind
    scope: str | None = None
    key: str | None = None
    revision: int | None = None
    content_hash: bytes | None = None
    origin_branch: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """What a reader of the feed gets.

    Attributes:
        events: In the order of their sequence.
        watermark: Sequence of the line's newest event, whoever may see it.
        floor: Events up to here are pruned: a reader that asked for something before has missed some.
        epoch: Another one than the reader's means that sequences were given again after a restore from backup.
        next_sequence: Where to go on: behind the last event, or at the watermark when these were all.
    """

    events: Sequence[EventRow]
    watermark: int
    floor: int
    epoch: int
    next_sequence: int


async def after(
    conn: Connection, *, line: str, after_sequence: int, limit: int, scopes: Sequence[str] | None
) -> EventPage:
    """The events after a sequence.

    Args:
        conn: A connection.
        line: The line.
        after_sequence: The last one that the reader has; 0 for none.
        limit: How many at most.
        scopes: Those to be seen besides what concerns the whole line; None for all.

    Raises:
        NotFoundError: If there is no such line.
    """
    found = [
        row
        async for row in _sql.after(
            conn,
            line=line,
            after_sequence=after_sequence,
            limit=limit,
            scopes=None if scopes is None else list(scopes),
        )
    ]
    if not found:
        raise NotFoundError(f"There is no line {line!r}.", hint="Check the id.")
    events = [_event(row) for row in found if row["sequence"] is not None]
    watermark = found[0]["event_sequence"]
    return EventPage(
        events=events,
        watermark=watermark,
        floor=found[0]["event_floor"],
        epoch=found[0]["epoch"],
        next_sequence=events[-1].sequence if len(events) == limit else max(watermark, after_sequence),
    )


_FIELDS: Final = tuple(field.name for field in fields(EventRow))


def _event(row: Any) -> EventRow:
    return EventRow(**{name: row[name] for name in _FIELDS})


async def append(
    conn: Connection, *, head: HeadRow, events: Sequence[NewEvent], manifest: ManifestRow, revision: int | None
) -> None:
    """Append to the feed, from the head's sequence on without a gap.

    Args:
        conn: Inside the transaction that took ``head`` by `lines.lock_head`, and is going to move it on.
        head: The locked head.
        events: In their order.
        manifest: The one that is current with them.
        revision: Of the versions that it brings; None: it brings none.
    """
    if not events:
        return
    await _sql.add(
        conn,
        line=head.line,
        sequences=[head.event_sequence + place for place in range(1, len(events) + 1)],
        event_ids=[new_event_id(head.line) for _ in events],
        kinds=[event.kind for event in events],
        scopes=[event.scope for event in events],
        keys=[event.key for event in events],
        revisions=[
            revision if event.revision is None and event.key is not None else event.revision for event in events
        ],
        content_hashes=[event.content_hash for event in events],
        origin_branches=[event.origin_branch for event in events],
        traceparents=[event.traceparent for event in events],
        generation=manifest.generation,
        published_baseline_id=manifest.baseline_id,
    )
