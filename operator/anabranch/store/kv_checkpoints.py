"""Checkpoints of a key-value namespace: which is a session's latest, and what each stands on.

The capsule itself is a checkpoint of the branch (`store.checkpoints`), so that a finding can cite it. Here stands what
that contract adds: two revisions of the namespace for each, one for the checkpoint and one for its place as the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Connection
    from anabranch.store.kv_namespaces import Place, Usage

_sql = queries.load("kv_checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCheckpointRow:
    """A checkpoint of a namespace.

    Attributes:
        revision: Of the namespace when it was made.
        latest_revision: What the session's next checkpoint has to name.
        is_latest: Whether it is the session's latest itself.
        refs: Records that it stands on: ``[{namespace, key, revision}]``.
        size: Of the request, bytes.
        content_hash: Of the request, 32 bytes.
        deleted: Whether it is no longer told of.
    """

    checkpoint_id: str
    agent_id: str
    session_id: str
    revision: int
    latest_revision: int
    is_latest: bool
    refs: Sequence[dict[str, Any]]
    size: int
    content_hash: bytes
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """A session's latest checkpoint."""

    checkpoint_id: str
    latest_revision: int


async def get(conn: Connection, place: Place, checkpoint_id: str) -> KvCheckpointRow | None:
    """A checkpoint, a deleted one too."""
    row = await _sql.get(conn, checkpoint_id=checkpoint_id, **_where(place))
    return row and KvCheckpointRow(**row)


async def latest(conn: Connection, place: Place, *, agent_id: str, session_id: str) -> Latest | None:
    """A session's latest checkpoint."""
    row = await _sql.latest(conn, agent_id=agent_id, session_id=session_id, **_where(place))
    return row and Latest(**row)


async def add(conn: Connection, place: Place, row: KvCheckpointRow) -> None:
    """Make a checkpoint its session's latest, for who holds the namespace's lock."""
    session = {"agent_id": row.agent_id, "session_id": row.session_id}
    await _sql.supersede(conn, **session, **_where(place))
    await _sql.add(
        conn,
        checkpoint_id=row.checkpoint_id,
        revision=row.revision,
        latest_revision=row.latest_revision,
        refs=list(row.refs),
        size=row.size,
        content_hash=row.content_hash,
        **session,
        **_where(place),
    )


async def delete(conn: Connection, place: Place, checkpoint_id: str) -> None:
    """Tell of a checkpoint no longer, for who holds the namespace's lock."""
    await _sql.delete(conn, checkpoint_id=checkpoint_id, **_where(place))


async def count(conn: Connection, place: Place, usage: Usage) -> None:
    """Note what a namespace holds, for who holds its lock."""
    await _sql.count(conn, revision=usage.revision, entries=usage.entries, bytes=usage.bytes, **_where(place))


async def revisions(conn: Connection, place: Place, records: Sequence[tuple[str, str]]) -> list[int | None]:
    """Which revisions some records of the branch are at, by namespace and key; None: it is not there."""
    found = _sql.revisions(
        conn,
        line=place.line,
        branch_id=place.branch_id,
        namespaces=[namespace for namespace, _ in records],
        keys=[key for _, key in records],
    )
    return await queries.rows(found, lambda row: row["revision"])


def _where(place: Place) -> dict[str, str]:
    return {"line": place.line, "branch_id": place.branch_id, "namespace": place.namespace}
