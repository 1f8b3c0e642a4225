"""Batches of findings: durable before they are acknowledged, and never written again but for the job that has them.

A batch's place is (branch, sequence). The same digest in the same place is the same batch, whoever sends it how often;
another digest there is a conflict. Sequences may come out of order within a window; consolidation takes gap-free runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.canonical import hash_text
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from anabranch.model.limits import SEQUENCE_WINDOW
from anabranch.store import branches, queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

_ATTEMPTS: Final = 5

_sql = queries.load("batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """A batch is durable.

    Attributes:
        receipt_id: Of its first receipt, however often it was sent.
        content_hash: 32 bytes.
        contiguous_through: Batches 1 to this one are in; a lower bound while others are being received.
        duplicate: Whether it was there before.
        completes: Whether it is the last one that the run's completion waits for: the caller closes the run then.
    """

    receipt_id: str
    content_hash: bytes
    received_at: datetime
    contiguous_through: int
    duplicate: bool
    completes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """A batch without its body.

    Attributes:
        content_hash: 32 bytes.
        changes: How many it holds.
        job_id: Of the consolidation job that has it, once one does.
    """

    sequence: int
    receipt_id: str
    content_hash: bytes
    changes: int
    final: bool
    received_at: datetime
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow(BatchHeader):
    """A batch.

    Attributes:
        body: The FindingBatch in canonical JSON.
    """

    line: str
    branch_id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A branch with batches that could go into a job now.

    Attributes:
        namespace: Of the Baseline, where the job goes.
        oldest_received_at: When the first of them came.
    """

    line: str
    branch_id: str
    namespace: str
    oldest_received_at: datetime


async def receive(  # noqa: PLR0913  (the columns of a batch)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    sequence: int,
    receipt_id: str,
    content_hash: bytes,
    body: bytes,
    changes: int,
    final: bool,
) -> ReceiptRow:
    """Receive a batch, or recognize it.

    Args:
        conn: A connection; on one in autocommit the batch is durable when this returns.
        line: The branch's.
        branch_id: The branch.
        sequence: From 1, without gaps in the end.
        receipt_id: A fresh id, used if the batch is new.
        content_hash: The batch's digest, 32 bytes, checked by the caller.
        body: The FindingBatch in canonical JSON.
        changes: How many it holds.
        final: Whether the agent calls it its last.

    Raises:
        ConflictError: If another batch has this place (``extra`` has both digests), or the run is complete
            (``extra["reason"]`` is ``RunCompleted``).
        InvalidInputError: If the sequence is more than 1,024 ahead of the gap-free run.
        NotFoundError: If there is no such branch.
        ForbiddenError: If the branch's grant was revoked.
        GoneError: If the branch has expired.
    """
    for _ in range(_ATTEMPTS):
        row = await _sql.receive(
            conn,
            line=line,
            branch_id=branch_id,
            sequence=sequence,
            receipt_id=receipt_id,
            content_hash=content_hash,
            body=body,
            changes=changes,
            final=final,
            window=SEQUENCE_WINDOW,
        )
        if row is not None:
            receipt = ReceiptRow(**row)
            if receipt.content_hash != content_hash:
                raise _taken(sequence, received=receipt.content_hash, submitted=content_hash)
            return receipt
        if error := await _refusal(conn, line=line, branch_id=branch_id, sequence=sequence):
            raise error
        # Neither written nor refused: another transaction took the place after our snapshot. The next one shows it.
    raise UnavailableError("The batch met others in the same place again and again.", hint="Send it again.")


async def get(conn: Connection, *, line: str, branch_id: str, sequence: int) -> BatchRow | None:
    """A batch with its body."""
    row = await _sql.get(conn, line=line, branch_id=branch_id, sequence=sequence)
    return row and BatchRow(**row)


async def of_range(
    conn: Connection, *, line: str, branch_id: str, from_sequence: int, through_sequence: int
) -> list[BatchRow]:
    """The batches of a job in order, with their bodies."""
    found = _sql.of_range(
        conn, line=line, branch_id=branch_id, from_sequence=from_sequence, through_sequence=through_sequence
    )
    return await queries.rows(found, lambda row: BatchRow(**row))


async def page(conn: Connection, *, line: str, branch_id: str, after: int = 0, limit: int) -> list[BatchHeader]:
    """The receipts of a branch in order, beginning after one."""
    found = _sql.page(conn, line=line, branch_id=branch_id, after=after, limit=limit)
    return await queries.rows(found, lambda row: BatchHeader(**row))


async def unassigned(conn: Connection, *, limit: int) -> list[Unassigned]:
    """Branches for which `openings.open_automatic` would find something to do now, of any line that is not paused."""
    return await queries.rows(_sql.unassigned(conn, limit=limit), lambda row: Unassigned(**row))


async def _refusal(conn: Connection, *, line: str, branch_id: str, sequence: int) -> AnabranchError | None:
    """Why a batch was not received, or None if it may be tried again."""
    branch = await _sql.refusal(conn, line=line, branch_id=branch_id)
    if branch is None:
        return NotFoundError(f"There is no branch {branch_id}.", hint="Use the id in the Branch's status.")
    final = branch["final_sequence"]
    if branch["phase"] == "Denied":
        return ForbiddenError("The branch's grant was revoked.", hint="Ask the owner of the Baseline.")
    if branch["phase"] == "Expired":
        return GoneError("The branch has expired.", hint="Fork a new branch, and submit the findings there.")
    if branch["phase"] == "Completed" or (final is not None and sequence > final):
        return ConflictError(
            f"The run was completed with batch {final}, so there is no batch {sequence}.",
            hint="Fork a new branch for further findings.",
            reason="RunCompleted",
            last_submitted_sequence=final,
        )
    through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
    if sequence > through + SEQUENCE_WINDOW:
        return InvalidInputError(
            f"Batch {sequence} is more than {SEQUENCE_WINDOW} ahead of {through}, up to which all batches are in.",
            hint=f"Send batch {through + 1} first.",
            limit=SEQUENCE_WINDOW,
            contiguous_through=through,
        )
    return None


def _taken(sequence: int, *, received: bytes, submitted: bytes) -> ConflictError:
    return ConflictError(
        f"Batch {sequence} was received before, with other content.",
        hint="Give changed findings the next free sequence.",
        received=hash_text(received),
        submitted=hash_text(submitted),
    )
