"""Checkpoints: what the agent needs in order to go on after it has lost its context, kept here first and for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import uuid_utils
from pydantic import ValidationError

from anabranch.client.worker.values import LocalCheckpoint
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import NotFoundError, TooLargeError
from anabranch.model.ids import base32
from anabranch.model.limits import CAPSULE_BYTES
from anabranch.model.misfits import invalid
from anabranch.model.runs import CheckpointWrite

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from anabranch.model.runs import Capsule, Checkpoint


def keep(db: sqlite3.Connection, capsule: Capsule, *, session: str, references: Sequence[str]) -> str:
    """Keep a checkpoint; its id.

    Args:
        db: In a transaction.
        capsule: What is needed to go on.
        session: Checkpoints of one session follow each other.
        references: Source locators of what the capsule speaks of.

    Raises:
        InvalidInputError: If it can never be accepted.
        TooLargeError: If the capsule is larger than 16 KiB.
    """
    try:
        write = CheckpointWrite(session_id=session, capsule=capsule, references=tuple(references))
    except ValidationError as error:
        raise invalid(error.errors(include_url=False), hint="Change the checkpoint: nothing was kept.") from None
    size = len(canonical_bytes(capsule.model_dump(mode="json")))
    if size > CAPSULE_BYTES:
        raise TooLargeError(
            f"The capsule has {size} bytes, the limit is {CAPSULE_BYTES}.",
            hint="Keep what is long as private records, and name their keys.",
        )
    checkpoint_id = f"ckpt-{base32(uuid_utils.uuid7().int)}"
    db.execute(
        "INSERT INTO checkpoints (id, session, write, made_at) VALUES (?, ?, ?, ?)",
        (checkpoint_id, session, write.model_dump_json(), time.time()),
    )
    return checkpoint_id


def latest(db: sqlite3.Connection, session: str) -> LocalCheckpoint:
    """The newest checkpoint of a session.

    Raises:
        NotFoundError: If it has none.
    """
    row = db.execute("SELECT * FROM checkpoints WHERE session = ? ORDER BY place DESC LIMIT 1", (session,)).fetchone()
    if row is None:
        raise NotFoundError(f"The session {session!r} has no checkpoint.", hint="Begin the task anew.")
    write = CheckpointWrite.model_validate_json(row["write"])
    return LocalCheckpoint(checkpoint_id=row["id"], session=session, capsule=write.capsule, references=write.references)


def unsent(db: sqlite3.Connection) -> tuple[str, CheckpointWrite] | None:
    """The first checkpoint that the API has not got, and did not refuse."""
    row = db.execute("SELECT * FROM checkpoints WHERE NOT sent AND problem IS NULL ORDER BY place LIMIT 1").fetchone()
    return None if row is None else (row["id"], CheckpointWrite.model_validate_json(row["write"]))


def sent(db: sqlite3.Connection, checkpoint_id: str) -> None:
    """The API has a checkpoint."""
    db.execute("UPDATE checkpoints SET sent = 1 WHERE id = ?", (checkpoint_id,))


def refused(db: sqlite3.Connection, checkpoint_id: str, problem: str) -> None:
    """The API refused a checkpoint."""
    db.execute("UPDATE checkpoints SET problem = ? WHERE id = ?", (problem, checkpoint_id))


def recover(db: sqlite3.Connection, kept: Sequence[Checkpoint]) -> None:
    """Take up what the API has, oldest first, for a file that is new; they come before those that were made here."""
    (first,) = db.execute("SELECT coalesce(min(place), 1) FROM checkpoints").fetchone()
    db.executemany(
        "INSERT INTO checkpoints (place, id, session, write, made_at, sent) VALUES (?, ?, ?, ?, ?, 1)"
        " ON CONFLICT (id) DO UPDATE SET sent = 1",
        [
            (
                first - len(kept) + number,
                one.checkpoint_id,
                one.session_id,
                CheckpointWrite(
                    session_id=one.session_id, capsule=one.capsule, references=one.references
                ).model_dump_json(),
                one.created_at.timestamp(),
            )
            for number, one in enumerate(kept)
        ],
    )
