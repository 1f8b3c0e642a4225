"""The shared-updates overlay, and the events on their way into it.

An event is kept with what it brings before it counts as received, and leaves the inbox in the transaction that applies
it, together with the follower's place: so no event is applied twice and none is passed over, wherever the process ends.
Only a newer revision replaces an older one; a rollback and its like replace the whole overlay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.client.worker import layers
from anabranch.client.worker.values import Arrival, Held
from anabranch.model.objects import PublishedFact, SharedEvent

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An event with what it brings staged.

    Attributes:
        sequence: Its place in the feed.
        event: The event; None for a snapshot in the place of missed ones.
        generation: The one that it leads to.
        rebuilds: Whether what it brings is the whole overlay.
    """

    sequence: int
    event: SharedEvent | None
    generation: int
    rebuilds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one key of the shared layer.

    Attributes:
        key: The key.
        revision: The new one; 0: no such record.
        scope: Its label.
        fact: The record; None: it is deleted or absent.
    """

    key: str
    revision: int
    scope: str
    fact: PublishedFact | None


_STAGE = "INSERT OR REPLACE INTO arrivals (sequence, key, revision, scope, gone, fact) VALUES (?, ?, ?, ?, ?, ?)"

_REBUILD = """
INSERT INTO shared (key, revision, scope, gone, fact)
SELECT key, revision, scope, gone, fact FROM arrivals WHERE sequence = ?
"""

_UPDATE = """
INSERT INTO shared (key, revision, scope, gone, fact)
SELECT a.key, a.revision, a.scope, a.gone, a.fact
FROM arrivals AS a LEFT JOIN base AS b ON b.generation = :base AND b.key = a.key
WHERE a.sequence = :sequence AND a.revision > coalesce(b.revision, 0)
ON CONFLICT (key) DO UPDATE SET
    revision = excluded.revision, scope = excluded.scope, gone = excluded.gone, fact = excluded.fact
WHERE excluded.revision > shared.revision
"""


def begin(db: sqlite3.Connection, sequence: int) -> None:
    """Let nothing be staged under a sequence: an earlier attempt may have left something there."""
    db.execute("DELETE FROM arrivals WHERE sequence = ?", (sequence,))


def stage(db: sqlite3.Connection, sequence: int, changes: Iterable[Change]) -> None:
    """Stage some of what an event brings."""
    db.executemany(
        _STAGE,
        [
            (
                sequence,
                change.key,
                change.revision,
                change.scope,
                change.fact is None,
                change.fact and change.fact.model_dump_json(),
            )
            for change in changes
        ],
    )


def receive(db: sqlite3.Connection, incoming: Sequence[Incoming], *, cursor: str, apply: bool) -> int:
    """Count staged events as received, and perhaps apply them at once, in the one transaction that moves the cursor.

    Args:
        db: In a transaction.
        incoming: The events, in order; none where a page had none that are new.
        cursor: The place behind them.
        apply: Whether to apply them, and what was held before them.

    Returns:
        How many were applied.
    """
    for number, one in enumerate(incoming):
        if one.event is None:  # whatever was not applied is in the snapshot, or was withdrawn since
            db.execute(
                "DELETE FROM arrivals WHERE sequence IN (SELECT sequence FROM inbox) AND sequence <> ?", (one.sequence,)
            )
            db.execute("DELETE FROM inbox")
        db.execute(
            "INSERT INTO inbox (sequence, event, generation, rebuilds, cursor) VALUES (?, ?, ?, ?, ?)",
            (
                one.sequence,
                one.event and one.event.model_dump_json(),
                one.generation,
                one.rebuilds,
                cursor if number == len(incoming) - 1 else None,
            ),
        )
    db.execute("UPDATE run SET cursor = ?", (cursor,))
    if incoming:
        db.execute("UPDATE run SET received = ?", (incoming[-1].sequence,))
    if apply:
        return apply_held(db, through=None)
    if not db.execute("SELECT 1 FROM inbox").fetchone():  # nothing is between what was applied and this place
        db.execute("UPDATE run SET applied_cursor = ?", (cursor,))
    return 0


def apply_held(db: sqlite3.Connection, *, through: int | None) -> int:
    """Apply what is held, in order; how many events that were.

    Args:
        db: In a transaction.
        through: The last sequence to apply; None: all.
    """
    base = layers.run(db)["base"]
    rows = db.execute(
        "SELECT * FROM inbox WHERE ? IS NULL OR sequence <= ? ORDER BY sequence", (through, through)
    ).fetchall()
    for row in rows:
        if row["rebuilds"]:
            rebuild(db, row["sequence"])
        else:
            db.execute(_UPDATE, {"base": base, "sequence": row["sequence"]})
            begin(db, row["sequence"])
        db.execute("DELETE FROM inbox WHERE sequence = ?", (row["sequence"],))
        db.execute(
            "UPDATE run SET applied = ?, applied_generation = ?, applied_cursor = coalesce(?, applied_cursor)",
            (row["sequence"], row["generation"], row["cursor"]),
        )
    if not db.execute("SELECT 1 FROM inbox").fetchone():
        db.execute("UPDATE run SET applied_cursor = cursor")
    return len(rows)


def rebuild(db: sqlite3.Connection, sequence: int) -> None:
    """Let what is staged under a sequence be the overlay."""
    db.execute("DELETE FROM shared")
    db.execute(_REBUILD, (sequence,))
    begin(db, sequence)


def held(db: sqlite3.Connection, limit: int) -> list[Held]:
    """The first events that have come and are not applied."""
    rows = db.execute("SELECT * FROM inbox ORDER BY sequence LIMIT ?", (limit,)).fetchall()
    return [
        Held(
            sequence=row["sequence"],
            event=row["event"] and SharedEvent.model_validate_json(row["event"]),
            rebuilds=bool(row["rebuilds"]),
            arrivals=[_arrival(one) for one in _arrivals(db, row["sequence"])],
        )
        for row in rows
    ]


def _arrivals(db: sqlite3.Connection, sequence: int) -> Sequence[Any]:
    return db.execute("SELECT * FROM arrivals WHERE sequence = ? ORDER BY key", (sequence,)).fetchall()


def _arrival(row: sqlite3.Row) -> Arrival:
    return Arrival(
        key=row["key"],
        revision=str(row["revision"]),
        content=None if row["gone"] else json.loads(row["fact"])["content"],
        gone=bool(row["gone"]),
    )
