"""Reads the three layers as one: the private overlay over the shared updates over the parent snapshot.

All of this runs inside a transaction of the file. A deleted or absent record of the shared layer hides what the
snapshot has under its key; a deleted private record hides nothing, since its deletion is that of the overlay's entry.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.client.worker.values import Conflict, LocalRecord, ReplicaPurgedError, SnapshotIncompleteError
from anabranch.model.errors import NotFoundError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_CLOCK_SLACK: Final = 300.0
"""Seconds that a clock may be set back, as time services do."""

_MERGED: Final = """
SELECT 'private' AS layer, key, revision, scope, 0 AS gone, NULL AS fact, visibility, content, content_hash,
       base_revision, created_at, updated_at
FROM private
WHERE NOT deleted AND key > :after AND key >= :low AND (:high IS NULL OR key < :high)
UNION ALL
SELECT 'shared', key, revision, scope, gone, fact, 'shareable', NULL, NULL, revision, NULL, NULL
FROM shared AS s
WHERE key > :after AND key >= :low AND (:high IS NULL OR key < :high)
  AND NOT EXISTS (SELECT 1 FROM private AS p WHERE p.key = s.key AND NOT p.deleted)
UNION ALL
SELECT 'base', key, revision, scope, gone, fact, 'shareable', NULL, NULL, revision, NULL, NULL
FROM base AS b
WHERE generation = :generation AND key > :after AND key >= :low AND (:high IS NULL OR key < :high)
  AND NOT EXISTS (SELECT 1 FROM shared AS s WHERE s.key = b.key)
  AND NOT EXISTS (SELECT 1 FROM private AS p WHERE p.key = b.key AND NOT p.deleted)
ORDER BY key
LIMIT :limit
"""


def read(db: sqlite3.Connection, key: str, layer: Literal["base", "shared", "private", "merged"]) -> LocalRecord:
    """A record of a layer, or of the uppermost that has it.

    Args:
        db: In a transaction.
        key: The key.
        layer: ``shared`` is the snapshot as the followed updates have changed it, without the private overlay.

    Raises:
        NotFoundError: If there is none.
        SnapshotIncompleteError: If that can't be told, for the snapshot is not there as a whole.
        ReplicaPurgedError: If what was downloaded is gone.
    """
    if layer in {"private", "merged"} and (own := _private(db, key)) is not None:
        return own
    if layer != "private":
        generation = readable(db)
        row = None if layer == "base" else _shared(db, key)
        found = _base(db, generation, key) if row is None else row
        if found is not None and not found["gone"]:
            return _record(found)
    raise NotFoundError(f"There is no record {key!r} in the layer {layer}.", hint="Check the key.")


def beneath(db: sqlite3.Connection, key: str) -> int:
    """The revision that the shared layer shows of a key, deleted or not; 0 for none."""
    if (row := _shared(db, key)) is not None:
        return int(row["revision"])
    generation = run(db)["base"]
    row = None if generation is None else _base(db, generation, key)
    return 0 if row is None else int(row["revision"])


def page(db: sqlite3.Connection, *, prefix: str, after: str, limit: int) -> tuple[list[LocalRecord], str | None]:
    """Records of all layers as one, by key in the order of code points.

    Args:
        db: In a transaction.
        prefix: Only keys that begin so.
        after: Only keys behind this one.
        limit: Keys to look at.

    Returns:
        The records, and the key to go on after; None: these were the last.
    """
    generation = readable(db)
    rows = db.execute(
        _MERGED,
        {"after": after, "low": prefix, "high": _behind(prefix), "generation": generation, "limit": limit},
    ).fetchall()
    last = rows[-1]["key"] if len(rows) == limit else None
    return [_own(row) if row["layer"] == "private" else _record(row) for row in rows if not row["gone"]], last


def conflicts(db: sqlite3.Connection) -> list[Conflict]:
    """Private records whose base is not what is beneath them now, where that has other content."""
    found = []
    for row in db.execute("SELECT key, base_revision, content_hash FROM private WHERE NOT deleted ORDER BY key"):
        shown = beneath(db, row["key"])
        if shown == row["base_revision"] or _hash_beneath(db, row["key"]) == row["content_hash"]:
            continue
        found.append(
            Conflict(key=row["key"], base_revision=str(row["base_revision"]), shown_revision=str(shown)),
        )
    return found


def settle(db: sqlite3.Connection) -> None:
    """Base private records that say what is beneath them on that, as the API does when a branch is moved."""
    for row in db.execute("SELECT key, content_hash FROM private WHERE NOT deleted").fetchall():
        if _hash_beneath(db, row["key"]) == row["content_hash"]:
            db.execute("UPDATE private SET base_revision = ? WHERE key = ?", (beneath(db, row["key"]), row["key"]))


def readable(db: sqlite3.Connection) -> int:
    """The generation that reads go to.

    Raises:
        SnapshotIncompleteError: If there is none yet.
        ReplicaPurgedError: If it was purged.
    """
    row = run(db)
    if row["purged"] is not None:
        raise ReplicaPurgedError(
            f"The replica was purged: {row['purged']}.", hint="Sync once the grants are there; a new one is downloaded."
        )
    if (age := over_age(row)) is not None:
        raise ReplicaPurgedError(
            f"The replica was last seen to be granted {age:.0f} s ago, and may be used for {row['max_age']:.0f} s.",
            hint="Sync while the API can be reached; what is granted still is downloaded anew.",
        )
    if row["base"] is None:
        raise SnapshotIncompleteError(
            "The parent snapshot is not here as a whole.", hint="Sync while the API can be reached, then read again."
        )
    return int(row["base"])


def over_age(row: sqlite3.Row) -> float | None:
    """The seconds since the replica was last seen to be granted, where those are more than its terms allow."""
    if row["max_age"] is None or row["seen_at"] is None:
        return None
    age: float = time.time() - row["seen_at"]
    # A clock that was set back by more than a moment tells nothing, so it grants nothing.
    return None if -_CLOCK_SLACK <= age <= row["max_age"] else abs(age)


def run(db: sqlite3.Connection) -> sqlite3.Row:
    """The row that says where the run is."""
    row: sqlite3.Row = db.execute("SELECT * FROM run").fetchone()
    return row


def moment(seconds: float | None) -> datetime | None:
    """A time of the file."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _private(db: sqlite3.Connection, key: str) -> LocalRecord | None:
    row = db.execute("SELECT *, 'private' AS layer FROM private WHERE key = ? AND NOT deleted", (key,)).fetchone()
    return None if row is None else _own(row)


def _shared(db: sqlite3.Connection, key: str) -> Any:
    return db.execute("SELECT *, 'shared' AS layer FROM shared WHERE key = ?", (key,)).fetchone()


def _base(db: sqlite3.Connection, generation: int, key: str) -> Any:
    return db.execute(
        "SELECT *, 'base' AS layer FROM base WHERE generation = ? AND key = ?", (generation, key)
    ).fetchone()


def _hash_beneath(db: sqlite3.Connection, key: str) -> str | None:
    row = _shared(db, key)
    if row is None and (generation := run(db)["base"]) is not None:
        row = _base(db, generation, key)
    return None if row is None or row["gone"] else json.loads(row["fact"])["content_hash"]


def _own(row: sqlite3.Row) -> LocalRecord:
    return LocalRecord(
        layer="private",
        key=row["key"],
        revision=str(row["revision"]),
        scope=row["scope"],
        visibility=row["visibility"],
        content=json.loads(row["content"]),
        content_hash=row["content_hash"],
        base_revision=str(row["base_revision"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        state="claim",
    )


def _record(row: sqlite3.Row) -> LocalRecord:
    fact = json.loads(row["fact"])
    validated_at = fact["validated_at"] and datetime.fromisoformat(fact["validated_at"])
    sources: Sequence[str] = tuple(fact["source_locators"])
    return LocalRecord(
        layer=row["layer"],
        key=row["key"],
        revision=str(row["revision"]),
        scope=row["scope"],
        visibility="shareable",
        content=fact["content"],
        content_hash=fact["content_hash"],
        base_revision=str(row["revision"]),
        sources=sources,
        origin_runs=tuple(fact["origin_runs"]),
        created_at=validated_at,
        updated_at=validated_at,
        # A file from an older release has records of then, which had neither.
        state=fact.get("state", "reviewed"),
        retracted_sources=tuple(fact.get("retracted_sources", ())),
    )


def _behind(prefix: str) -> str | None:
    """The least text behind all that begin with a prefix; None: there is none."""
    for place in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[place])
        if point < 0x10FFFF:
            following = 0xE000 if point == 0xD7FF else point + 1  # surrogates are no characters
            return prefix[:place] + chr(following)
    return None
