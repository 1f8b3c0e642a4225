"""How batches come in: durable before they are acknowledged, or told why not.

A batch's place is (branch, sequence). The same digest in the same place is the same batch, whoever sends it how often;
another digest there is a conflict. Sequences may come out of order within a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.canonical import hash_text
from anabranch.model.errors import (
    AnabranchError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from anabranch.model.limits import BATCH_BYTES, SEQUENCE_WINDOW
from anabranch.store import branches, durability, queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_ATTEMPTS: Final = 5

_sql = queries.load("receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A batch that wants to be received.

    Attributes:
        sequence: From 1, without gaps in the end.
        receipt_id: A fresh id, used if the batch is new.
        content_hash: The batch's digest, 32 bytes, checked by the caller.
        body: The FindingBatch in canonical JSON.
        changes: How many it holds.
        final: Whether the agent calls it its last.
        traceparent: Of the request that brings it; None: it is part of no trace.
    """

    line: str
    branch_id: str
    sequence: int
    receipt_id: str
    content_hash: bytes
    body: bytes
    changes: int
    final: bool
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
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


async def receive(conn: Connection, arrivals: Sequence[Arrival]) -> list[ReceiptRow | AnabranchError]:
    """Receive batches, or recognize them, of any branches: each by itself, all in one statement.

    Args:
        conn: A connection; on one in autocommit they are durable when this returns.
        arrivals: The batches.

    Returns:
        For each of them, in their order, its receipt or why it was not received:

        ConflictError: Another batch has this place (``extra`` has both digests), or the run is complete
            (``extra["reason"]`` is ``RunCompleted``).
        InvalidInputError: The sequence is more than 1,024 ahead of the gap-free run.
        TooLargeError: It is larger than the Baseline allows.
        NotFoundError: There is no such branch.
        ForbiddenError: The branch's grant was revoked.
        GoneError: The branch has expired.
        ReclaimedError: Retention has removed what the run brought.
        UnavailableError: Others took the place again and again, and gave it up.
    """
    results: dict[int, ReceiptRow | AnabranchError] = {}
    for _ in range(_ATTEMPTS):
        asked = [place for place in range(len(arrivals)) if place not in results]
        results |= await _receive_once(conn, {place: arrivals[place] for place in asked})
        if len(results) == len(arrivals):
            break
    if any(isinstance(result, ReceiptRow) and result.duplicate for result in results.values()):
        await durability.settle(conn)
    lost = UnavailableError("The batch met others in the same place again and again.", hint="Send it again.")
    return [results.get(place, lost) for place in range(len(arrivals))]


async def _receive_once(conn: Connection, arrivals: Mapping[int, Arrival]) -> dict[int, ReceiptRow | AnabranchError]:
    """What became of some batches, by the places they are given under; one that met a race is left out."""
    results: dict[int, ReceiptRow | AnabranchError] = {}
    places, given = list(arrivals), list(arrivals.values())
    found = await queries.rows(
        _sql.receive(
            conn,
            lines=[one.line for one in given],
            branch_ids=[one.branch_id for one in given],
            sequences=[one.sequence for one in given],
            receipt_ids=[one.receipt_id for one in given],
            content_hashes=[one.content_hash for one in given],
            bodies=[one.body for one in given],
            changes=[one.changes for one in given],
            finals=[one.final for one in given],
            traceparents=[one.traceparent for one in given],
            window=SEQUENCE_WINDOW,
            batch_bytes=BATCH_BYTES,
        ),
        lambda row: row,
    )
    for number, *columns in found:
        place = places[number - 1]
        receipt, submitted = ReceiptRow(*columns), arrivals[place]
        taken = receipt.content_hash != submitted.content_hash
        results[place] = _taken(submitted, received=receipt.content_hash) if taken else receipt
    for place, arrival in arrivals.items():
        # Neither written nor refused: another transaction took the place after our snapshot. The next one shows it.
        if place not in results and (error := await _refusal(conn, arrival)):
            results[place] = error
    return results


async def _refusal(conn: Connection, arrival: Arrival) -> AnabranchError | None:
    """Why a batch was not received, or None if it may be tried again."""
    branch = await _sql.refusal(conn, line=arrival.line, branch_id=arrival.branch_id, sequence=arrival.sequence)
    # The same batch by another way, a moment ago, may have been the one that completed the run: the next look finds it.
    if branch is not None and branch["taken"] and branch["kept"] == "whole" and branch["deleted_at"] is None:
        return None
    if branch is not None and (error := _ended(branch, arrival.sequence)):
        return error
    if branch is None or branch["deleted_at"] is not None:
        return NotFoundError(f"There is no branch {arrival.branch_id}.", hint="Use the id in the Branch's status.")
    limit = branch["batch_bytes"]
    if limit is not None and len(arrival.body) > limit:
        return TooLargeError(
            f"The batch has {len(arrival.body)} bytes, the Baseline's limit is {limit}.",
            hint="Split it into several sequences.",
            limit=limit,
        )
    through = await branches.contiguous_through(conn, line=arrival.line, branch_id=arrival.branch_id)
    if arrival.sequence > through + SEQUENCE_WINDOW:
        return InvalidInputError(
            f"Batch {arrival.sequence} is more than {SEQUENCE_WINDOW} ahead of {through}, up to which all batches "
            "are in.",
            hint=f"Send batch {through + 1} first.",
            limit=SEQUENCE_WINDOW,
            contiguous_through=through,
        )
    return None


def _ended(branch: Any, sequence: int) -> AnabranchError | None:
    """What a batch is told whose branch takes it no more; None: it does."""
    final = branch["final_sequence"]
    if branch["kept"] != "whole":
        return branches.reclaimed()
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
    return None


def _taken(arrival: Arrival, *, received: bytes) -> ConflictError:
    return ConflictError(
        f"Batch {arrival.sequence} was received before, with other content.",
        hint="Give changed findings the next free sequence.",
        received=hash_text(received),
        submitted=hash_text(arrival.content_hash),
    )
