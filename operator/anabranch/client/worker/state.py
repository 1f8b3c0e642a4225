"""Where a run is, as its file says; and the scratch space, which is the file's alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from anabranch.client.worker import checkpoints, layers, overlay
from anabranch.client.worker.values import Status
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import ConflictError
from anabranch.model.objects import BranchManifest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from anabranch.model.answers import PrivateRecord
    from anabranch.model.runs import Checkpoint

_COUNTS: Final = """
SELECT
    (SELECT count(*) FROM batches WHERE state = 'waiting') AS waiting,
    (SELECT count(*) FROM private WHERE dirty) AS unsaved,
    (SELECT count(*) FROM batches WHERE state = 'refused')
        + (SELECT count(*) FROM private WHERE problem IS NOT NULL)
        + (SELECT count(*) FROM checkpoints WHERE problem IS NOT NULL) AS refused,
    (SELECT count(*) FROM inbox) AS held
"""


def begin(db: sqlite3.Connection, *, namespace: str, name: str) -> None:
    """Take up the run of a file, or begin it.

    Raises:
        ConflictError: If the file is that of another run.
    """
    db.execute("INSERT INTO run (one, namespace, name) VALUES (1, ?, ?) ON CONFLICT DO NOTHING", (namespace, name))
    row = layers.run(db)
    if (row["namespace"], row["name"]) != (namespace, name):
        raise ConflictError(
            f"The file is that of {row['namespace']}/{row['name']}, and not of {namespace}/{name}.",
            hint="Give each run a file of its own.",
        )


def keep_branch(db: sqlite3.Connection, branch: BranchManifest) -> None:
    """Keep what the API says of the branch; a file that follows nothing yet begins behind the parent."""
    db.execute(
        "UPDATE run SET branch = ?, start = coalesce(start, ?)", (branch.model_dump_json(), branch.parent.generation)
    )


def recover(
    db: sqlite3.Connection, *, last_sequence: int, records: Sequence[PrivateRecord], kept: Sequence[Checkpoint]
) -> None:
    """Take up what the API has of the run already: where its batches end, private records, checkpoints."""
    overlay.recover(db, records)
    checkpoints.recover(db, kept)
    db.execute("UPDATE run SET recovered = 1, next_sequence = max(next_sequence, ?)", (last_sequence + 1,))


def branch(db: sqlite3.Connection) -> BranchManifest | None:
    """The branch, as last seen."""
    text = layers.run(db)["branch"]
    return None if text is None else BranchManifest.model_validate_json(text)


def status(db: sqlite3.Connection) -> Status:
    """Where the run is."""
    row, counts, known = layers.run(db), db.execute(_COUNTS).fetchone(), branch(db)
    parent = None if known is None else known.parent.generation
    return Status(
        branch_id=None if known is None else known.branch_id,
        phase=None if known is None else known.phase,
        generation=row["base"],
        rebase_to=None if row["base"] in {None, parent} else parent,
        waiting=counts["waiting"],
        unsaved=counts["unsaved"],
        refused=counts["refused"],
        held=counts["held"],
        applied_sequence=row["applied"],
        seen_at=layers.moment(row["seen_at"]),
        purged=row["purged"],
        trouble=None,
    )


def scratch_put(db: sqlite3.Connection, key: str, value: Any) -> None:
    """Keep a JSON value."""
    db.execute("INSERT OR REPLACE INTO scratch (key, value) VALUES (?, ?)", (key, canonical_bytes(value)))


def scratch_get(db: sqlite3.Connection, key: str, default: Any) -> Any:
    """A value that was kept."""
    row = db.execute("SELECT value FROM scratch WHERE key = ?", (key,)).fetchone()
    return default if row is None else json.loads(row["value"])


def scratch_delete(db: sqlite3.Connection, key: str) -> None:
    """Forget a value."""
    db.execute("DELETE FROM scratch WHERE key = ?", (key,))
