"""The private overlay: the agent's own records, durable here first and kept by the API as well.

Each write here is one more revision. What the API has not got yet is `dirty`; it is sent as it is then, so that many
writes of a key while the network is away are one request afterwards. The API's own revision (`known`) is the condition
of each request: if something else wrote the record there, nothing is overwritten, and the agent is told.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from anabranch.client.worker import layers
from anabranch.model.canonical import canonical_bytes, check_json, content_hash, hash_text, sha256
from anabranch.model.errors import NotFoundError, PreconditionFailedError, TooLargeError
from anabranch.model.limits import CONTENT_BYTES
from anabranch.model.text import check_key, check_scope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from anabranch.model.answers import PrivateRecord
    from anabranch.model.wire import Visibility

_PUT = """
INSERT INTO private (key, revision, scope, visibility, content, content_hash, base_revision, created_at, updated_at)
VALUES (:key, 1, :scope, :visibility, :content, :content_hash, :base_revision, :now, :now)
ON CONFLICT (key) DO UPDATE SET
    revision = revision + 1, scope = :scope, visibility = :visibility, content = :content,
    content_hash = :content_hash, updated_at = :now, dirty = 1, problem = NULL, deleted = 0,
    base_revision = iif(deleted, :base_revision, base_revision), created_at = iif(deleted, :now, created_at)
RETURNING revision
"""


def put(  # noqa: PLR0913  (all but the record by keyword)
    db: sqlite3.Connection, key: str, content: Any, *, scope: str, visibility: Visibility, if_revision: str | None
) -> str:
    """Write a private record.

    Args:
        db: In a transaction.
        key: The key.
        content: A JSON value.
        scope: Its label.
        visibility: Whether it may be shared later.
        if_revision: Only over this revision; "0": only where there is none; None: whatever is there.

    Returns:
        Its revision.

    Raises:
        InvalidInputError: If key, scope or content cannot be kept.
        TooLargeError: If the content is larger than 1 MiB.
        PreconditionFailedError: If the record is at another revision.
    """
    check_key(key)
    check_scope(scope)
    check_json(content)
    body = canonical_bytes(content)
    if len(body) > CONTENT_BYTES:
        raise TooLargeError(
            f"The content has {len(body)} bytes, the limit is {CONTENT_BYTES}.",
            hint="Keep large data elsewhere, and what is to be remembered of it here.",
        )
    _check(db, key, if_revision)
    values = {
        "key": key,
        "scope": scope,
        "visibility": visibility,
        "content": body,
        "content_hash": hash_text(sha256(body)),
        "base_revision": layers.beneath(db, key),
        "now": time.time(),
    }
    (revision,) = db.execute(_PUT, values).fetchone()
    return str(revision)


def delete(db: sqlite3.Connection, key: str, *, if_revision: str | None) -> None:
    """Delete a private record; what is beneath it shows again.

    Raises:
        NotFoundError: If there is none.
        PreconditionFailedError: If it is at another revision.
    """
    _check(db, key, if_revision)
    done = db.execute(
        "UPDATE private SET revision = revision + 1, deleted = 1, dirty = 1, problem = NULL, content = '',"
        " updated_at = ? WHERE key = ? AND NOT deleted",
        (time.time(), key),
    )
    if not done.rowcount:
        raise NotFoundError(f"There is no private record {key!r}.", hint="List the worker's records.")


def unsaved(db: sqlite3.Connection, limit: int) -> Sequence[sqlite3.Row]:
    """Records that the API has not got, and did not refuse."""
    return db.execute("SELECT * FROM private WHERE dirty AND problem IS NULL ORDER BY key LIMIT ?", (limit,)).fetchall()


def sending(db: sqlite3.Connection, key: str, sent: str, *, known: int) -> None:
    """Note what is about to be sent: should its answer be lost, the API's next revision is known for our own."""
    db.execute("UPDATE private SET sent = ?, known = ? WHERE key = ?", (sent, known, key))


def sent_of(row: sqlite3.Row) -> str:
    """What names the state of a row that is sent."""
    return "" if row["deleted"] else f"{row['content_hash']} {row['scope']} {row['visibility']}"


def was_sent(row: sqlite3.Row, record: PrivateRecord) -> bool:
    """Whether the API has what was sent of a row last, which may be written otherwise by now."""
    return bool(row["sent"] == f"{record.content_hash} {record.scope} {record.visibility}")


def saved(db: sqlite3.Connection, key: str, *, revision: int, known: int) -> None:
    """The API has a record as it was at a revision here; if it was written since, it stays dirty."""
    db.execute("UPDATE private SET known = ?, dirty = revision <> ?, sent = NULL WHERE key = ?", (known, revision, key))
    db.execute("DELETE FROM private WHERE key = ? AND deleted AND NOT dirty", (key,))


def refused(db: sqlite3.Connection, key: str, *, revision: int, known: int, problem: str) -> None:
    """The API refused a record as it was at a revision here; the next write of it goes over what the API has."""
    db.execute(
        "UPDATE private SET known = ?, problem = iif(revision = ?, ?, NULL), sent = NULL WHERE key = ?",
        (known, revision, problem, key),
    )


def recover(db: sqlite3.Connection, records: Sequence[PrivateRecord]) -> None:
    """Take up what the API has, for a file that is new; what was written here already stays."""
    db.executemany(
        "INSERT INTO private (key, revision, scope, visibility, content, content_hash, base_revision, created_at,"
        " updated_at, dirty, known) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (key) DO UPDATE SET known = excluded.known",
        [
            (
                record.key,
                int(record.revision),
                record.scope,
                record.visibility,
                canonical_bytes(record.content),
                record.content_hash,
                int(record.base_revision),
                record.updated_at.timestamp(),
                record.updated_at.timestamp(),
                int(record.revision),
            )
            for record in records
        ],
    )


def same(row: sqlite3.Row, record: PrivateRecord) -> bool:
    """Whether the API has what a row says: the answer to an earlier request was lost, and the request was not."""
    return bool(
        not row["deleted"]
        and record.content_hash == content_hash(json.loads(row["content"]))
        and (record.scope, record.visibility) == (row["scope"], row["visibility"])
    )


def _check(db: sqlite3.Connection, key: str, if_revision: str | None) -> None:
    if if_revision is None:
        return
    row = db.execute("SELECT revision FROM private WHERE key = ? AND NOT deleted", (key,)).fetchone()
    at = "0" if row is None else str(row["revision"])
    if at != if_revision:
        raise PreconditionFailedError(
            f"The record should be at revision {if_revision}, and is at {at}.",
            hint="Read it again, and repeat the change on what is there now.",
            revision=at,
        )
