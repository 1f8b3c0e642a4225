"""Completions: the end of a run, once every batch before it is in.

A completion may overtake its last batches on the way. It is kept at once, and from then on no later batch is
received; the run closes with the batch that fills the last gap. Whoever brings that batch closes it, and a sweep
finds what a crash left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.model.canonical import hash_text
from anabranch.model.errors import ConflictError, ForbiddenError, GoneError, NotFoundError
from anabranch.store import branches, queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

_sql = queries.load("completions")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRow:
    """The completion of a run.

    Attributes:
        content_hash: 32 bytes.
        body: The RunCompletion in canonical JSON.
        closed_at: When all batches were in; None while some are missing.
        contiguous_through: Batches 1 to this one are in.
    """

    line: str
    branch_id: str
    run_id: str
    content_hash: bytes
    body: bytes
    last_submitted_sequence: int
    received_at: datetime
    closed_at: datetime | None
    contiguous_through: int


async def submit(  # noqa: PLR0913  (the columns of a completion)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    run_id: str,
    content_hash: bytes,
    body: bytes,
    last_submitted_sequence: int,
) -> CompletionRow:
    """Keep a run's completion, and close the run if all its batches are in.

    Args:
        conn: A connection; a transaction of its own is opened on it.
        line: The branch's.
        branch_id: The branch.
        run_id: The branch's run.
        content_hash: Of the completion, 32 bytes: the same again changes nothing.
        body: The RunCompletion in canonical JSON.
        last_submitted_sequence: Of the run's last batch; 0: it had none.

    Raises:
        ConflictError: If the run was completed with other content (``extra`` has both digests), or batches after the
            last one were received.
        NotFoundError: If there is no such branch.
        ForbiddenError: If the branch's grant was revoked.
        GoneError: If the branch has expired.
    """
    async with conn.transaction():
        phase: str | None = await _sql.lock(conn, line=line, branch_id=branch_id)
        if phase is None:
            raise NotFoundError(f"There is no branch {branch_id}.", hint="Use the id in the Branch's status.")
        before = await _sql.get(conn, line=line, branch_id=branch_id)
        if before is None:
            _check_open(phase)
            await _check_last(conn, line=line, branch_id=branch_id, last=last_submitted_sequence)
            await _sql.submit(
                conn,
                line=line,
                branch_id=branch_id,
                run_id=run_id,
                content_hash=content_hash,
                body=body,
                last_submitted_sequence=last_submitted_sequence,
            )
        elif before["content_hash"] != content_hash:
            raise ConflictError(
                "The run was completed before, with other content.",
                hint="Nothing is to be done if the first completion was right; else fork a new branch.",
                received=hash_text(before["content_hash"]),
                submitted=hash_text(content_hash),
            )
        await close(conn, line=line, branch_id=branch_id)
        row = await get(conn, line=line, branch_id=branch_id)
    if row is None:
        raise NotFoundError(f"The branch {branch_id} has no completion.", hint="Submit it again.")
    return row


async def get(conn: Connection, *, line: str, branch_id: str) -> CompletionRow | None:
    """The completion of a branch's run."""
    row = await _sql.get(conn, line=line, branch_id=branch_id)
    if row is None:
        return None
    through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
    return CompletionRow(**row, contiguous_through=through)


async def close(conn: Connection, *, line: str, branch_id: str) -> bool:
    """Close a run if it was completed and all its batches are in; whether this call closed it.

    No lock is needed: no batch comes after the last one any more, and a batch that is in stays in.
    """
    through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
    return bool(await _sql.close(conn, line=line, branch_id=branch_id, through=through))


async def close_ready(conn: Connection, *, limit: int) -> int:
    """Close runs of any line whose batches have all come in and whose receipts died before they could; how many."""
    ready = await queries.rows(_sql.ready(conn, limit=limit), lambda row: (row["line"], row["branch_id"]))
    return sum([await close(conn, line=line, branch_id=branch_id) for line, branch_id in ready])


def _check_open(phase: str) -> None:
    if phase == "Denied":
        raise ForbiddenError("The branch's grant was revoked.", hint="Ask the owner of the Baseline.")
    if phase == "Expired":
        raise GoneError("The branch has expired.", hint="Fork a new branch.")


async def _check_last(conn: Connection, *, line: str, branch_id: str, last: int) -> None:
    newest: int = await _sql.last_sequence(conn, line=line, branch_id=branch_id)
    if newest > last:
        raise ConflictError(
            f"The completion names batch {last} as the last, and batch {newest} was received.",
            hint=f"Complete the run with last_submitted_sequence {newest} or later.",
            last_submitted_sequence=last,
            received_through=newest,
        )
