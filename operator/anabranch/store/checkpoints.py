"""Checkpoints: what an agent keeps in order to go on after it has forgotten everything else.

They are added and never changed: an id, once it is taken, names the same content for as long as the run's data is
kept, so writing it again after a lost answer changes nothing. Consolidation writes none. Those of a branch have an
order, in which a session's latest is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.canonical import hash_text
from anabranch.model.errors import ConflictError, NotFoundError, TooLargeError
from anabranch.model.limits import CHECKPOINTS_BRANCH
from anabranch.store import branches, durability, queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

_BEHIND_ALL: Final = (1 << 63) - 1

_sql: Final = queries.load("checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint.

    Attributes:
        checkpoint_id: The agent's own choice.
        session_id: Likewise: checkpoints of one session follow each other.
        ordinal: Its place among those of its branch, from 1.
        content_hash: Of the body, 32 bytes.
        body: ``{session_id, capsule, references}``, canonical JSON.
    """

    line: str
    branch_id: str
    checkpoint_id: str
    session_id: str
    ordinal: int
    content_hash: bytes
    body: bytes
    created_at: datetime


async def add(  # noqa: PLR0913  (the columns of a checkpoint)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    checkpoint_id: str,
    session_id: str,
    content_hash: bytes,
    body: bytes,
    after: str | None = None,
) -> tuple[CheckpointRow, bool]:
    """Keep a checkpoint of a live run; the same again changes nothing.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        checkpoint_id: Its id.
        session_id: Its session.
        content_hash: Of the body, 32 bytes.
        body: Canonical JSON.
        after: What must be the session's latest so far; empty: it must have none; None: whatever it has.

    Returns:
        What is kept, and whether it is new.

    Raises:
        ConflictError: If the id has another content, the session's latest is another one, or the run is over.
        ReclaimedError: If retention has removed what the run brought.
        TooLargeError: If the branch has as many as it may have.
    """
    where = {"line": line, "branch_id": branch_id}
    if (known := await get(conn, **where, checkpoint_id=checkpoint_id)) is not None:
        await durability.settle(conn)
        return _same(known, content_hash), False
    async with conn.transaction():
        phase = await _sql.lock(conn, **where)
        if (known := await get(conn, **where, checkpoint_id=checkpoint_id)) is not None:
            return _same(known, content_hash), False
        if phase is None:
            raise branches.reclaimed()
        branches.check_live(phase)
        if after is not None:
            await _check_latest(conn, line=line, branch_id=branch_id, session_id=session_id, after=after)
        row = await _sql.add(
            conn,
            **where,
            checkpoint_id=checkpoint_id,
            session_id=session_id,
            content_hash=content_hash,
            body=body,
            most=CHECKPOINTS_BRANCH,
        )
    if row is None:
        raise TooLargeError(
            f"The branch has {CHECKPOINTS_BRANCH} checkpoints already.",
            hint="Make them less often, or fork a new branch.",
            limit=CHECKPOINTS_BRANCH,
        )
    return CheckpointRow(**row), True


async def get(conn: Connection, *, line: str, branch_id: str, checkpoint_id: str) -> CheckpointRow | None:
    """A checkpoint of this branch."""
    row = await _sql.get(conn, line=line, branch_id=branch_id, checkpoint_id=checkpoint_id)
    return row and CheckpointRow(**row)


async def latest(conn: Connection, *, line: str, branch_id: str, session_id: str) -> str | None:
    """The id of a session's newest checkpoint."""
    found: str | None = await _sql.latest(conn, line=line, branch_id=branch_id, session_id=session_id)
    return found


async def page(  # noqa: PLR0913  (the bounds of a page)
    conn: Connection, *, line: str, branch_id: str, session_id: str | None, before: int | None, limit: int
) -> list[CheckpointRow]:
    """Checkpoints of a branch, newest first.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        session_id: Only of this session; None: of any.
        before: Only those before this ordinal; None: from the newest on.
        limit: How many at most.
    """
    found = _sql.page(
        conn,
        line=line,
        branch_id=branch_id,
        session_id=session_id,
        before=_BEHIND_ALL if before is None else before,
        limit=limit,
    )
    return await queries.rows(found, lambda row: CheckpointRow(**row))


async def require(conn: Connection, *, line: str, branch_id: str, checkpoint_id: str) -> CheckpointRow:
    """A checkpoint of this branch.

    Raises:
        NotFoundError: If it has none with this id.
    """
    row = await get(conn, line=line, branch_id=branch_id, checkpoint_id=checkpoint_id)
    if row is None:
        raise NotFoundError(f"The branch has no checkpoint {checkpoint_id!r}.", hint="List the branch's checkpoints.")
    return row


def _same(known: CheckpointRow, content_hash: bytes) -> CheckpointRow:
    if known.content_hash != content_hash:
        raise ConflictError(
            f"The checkpoint {known.checkpoint_id!r} has another content, and checkpoints never change.",
            hint="Take a new id for each checkpoint.",
            kept=hash_text(known.content_hash),
            received=hash_text(content_hash),
        )
    return known


async def _check_latest(conn: Connection, *, line: str, branch_id: str, session_id: str, after: str) -> None:
    found = await latest(conn, line=line, branch_id=branch_id, session_id=session_id) or ""
    if found != after:
        raise ConflictError(
            f"The latest checkpoint of the session {session_id!r} is {found or 'none'!r}, not {after or 'none'!r}.",
            hint="Read the latest one: another instance of the agent has gone on from there.",
            reason="NotLatest",
            latest=found or None,
        )
