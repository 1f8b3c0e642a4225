"""The receipt of a batch: its bytes become durable, then they are acknowledged, and nothing more is promised.

An agent may lose the answer and send again, from another process, in another order. The place (branch, sequence) and
the digest decide what that means, so the answer is always either the same receipt or a conflict that names both
sides.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from anabranch.model import misfits
from anabranch.model.breadth import SMALL_BYTES, check_breadth
from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text, parse_canonical, plain_bytes, sha256
from anabranch.model.errors import (
    AnabranchError,
    DigestMismatchError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
)
from anabranch.model.ids import LineId, new_receipt_id
from anabranch.model.limits import BATCH_BYTES, CONTENT_BYTES, IN_LOOP_BYTES
from anabranch.model.objects import FindingBatch, Publication, Receipt
from anabranch.store import batches, branches, completions, jobs, manifests, receipts
from anabranch.store.receiver import Receiver
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database

_HASH: Final = "content_hash"
_MEMBER: Final = b'"content_hash":'


@dataclass(frozen=True, slots=True)
class Touch:
    """What some changes of a batch would do, as far as a grant decides over it.

    Attributes:
        scope: Where.
        op: ``put`` needs `write` on the scope, ``tombstone`` needs `tombstone` as well.
        visibility: ``private`` needs `export` as well, and the branch's ``exportPrivate``.
    """

    scope: str
    op: Literal["put", "tombstone"]
    visibility: Literal["private", "shareable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch that is what it says it is.

    Attributes:
        batch: The batch.
        content_hash: Its digest, 32 bytes, recomputed.
        body: Its canonical bytes.
        touches: What it would do, for the grants.
    """

    batch: FindingBatch
    content_hash: bytes
    body: bytes
    touches: frozenset[Touch]


async def read(raw: bytes) -> Submission:
    """Parse and check a batch; a large one without holding up other requests.

    Args:
        raw: The request's body.

    Raises:
        InvalidInputError: If it is no FindingBatch; naming the member.
        DigestMismatchError: If ``content_hash`` is not that of the batch.
        TooLargeError: If the batch or a content is larger than its limit.
    """
    if len(raw) > BATCH_BYTES:
        raise TooLargeError(
            f"The batch has {len(raw)} bytes, the limit is {BATCH_BYTES}.",
            hint="Split it into several sequences.",
            limit=BATCH_BYTES,
        )
    return parse(raw) if len(raw) <= IN_LOOP_BYTES else await asyncio.to_thread(parse, raw)


def parse(raw: bytes) -> Submission:
    """Parse and check a batch (see `read`)."""
    value, form = parse_canonical(raw)
    return check(value, plain=form is raw)


def check_each(values: Sequence[Any], *, plain: bool = False) -> list[Submission | AnabranchError]:
    """Check batches that are parsed already, each by itself (see `read` and `check`)."""
    return [_checked(value, plain=plain) for value in values]


def _checked(value: Any, *, plain: bool) -> Submission | AnabranchError:
    try:
        return check(value, plain=plain)
    except AnabranchError as error:
        return error


def check(value: Any, *, plain: bool = False) -> Submission:
    """Check a batch that is parsed already, strictly (see `read`).

    Args:
        value: The batch.
        plain: Whether it, or what it is a part of, came in the form that `canonical.plain_bytes` writes.

    Raises:
        AnabranchError: As `read` tells.
    """
    if not isinstance(value, dict):
        raise InvalidInputError("The batch is not a JSON object.", hint="Send a FindingBatch.")
    unsigned, body = forms(value, plain=plain)
    if len(body) > SMALL_BYTES:
        check_breadth(FindingBatch, value)
    digest = sha256(unsigned)
    batch = _model(body)
    if hash_bytes(batch.content_hash) != digest:
        raise DigestMismatchError(
            f"content_hash is {batch.content_hash}, and the batch that arrived has {hash_text(digest)}.",
            hint="Hash the RFC 8785 form of the batch without content_hash; if you did, send it again.",
            submitted=batch.content_hash,
            received=hash_text(digest),
        )
    if len(body) > CONTENT_BYTES:
        _check_contents(batch)
    return Submission(
        batch=batch,
        content_hash=digest,
        body=body,
        touches=frozenset(Touch(change.scope, change.op, change.visibility) for change in batch.changes),
    )


async def receive(db: Database, *, branch: BranchRow, submission: Submission) -> Receipt | Publication:
    """Make one batch durable, with nothing else going on (see `receive_each`).

    Raises:
        AnabranchError: What `receive_each` would give instead of a receipt.
    """
    (answer,) = await receive_each(Receiver(db), branch=branch, submissions=[submission])
    if isinstance(answer, AnabranchError):
        raise answer
    return answer


async def receive_each(
    receiver: Receiver, *, branch: BranchRow, submissions: Sequence[Submission]
) -> list[Receipt | Publication | AnabranchError]:
    """Make batches durable, and say so; or, of one that was and whose job has ended, say what came of it.

    The caller has checked that this is the branch's agent, and its grants for the ``touches``.

    Args:
        receiver: Writes them, together with what arrives for other branches.
        branch: The branch. Only what never changes of it is relied on.
        submissions: As `read` gave them.

    Returns:
        For each of them what it is answered with, or why it was not received: as `receipts.receive` tells, and
        InvalidInputError if it names another branch.

    Raises:
        UnavailableError: If Postgres cannot be reached; all of it may be sent again.
    """
    answers: dict[int, Receipt | Publication | AnabranchError] = {}
    arrivals: dict[int, receipts.Arrival] = {}
    for place, submission in enumerate(submissions):
        batch = submission.batch
        if batch.branch_id == branch.branch_id:
            arrivals[place] = _arrival(branch, submission)
        else:
            answers[place] = InvalidInputError(
                f"The batch names the branch {batch.branch_id}, and was sent to {branch.branch_id}.",
                hint="Send each batch to its own branch.",
            )
    with tracing.span("receive batches", batches=len(arrivals)):
        rows = await receiver.receive(list(arrivals.values())) if arrivals else []
    for place, row in zip(arrivals, rows, strict=True):
        answers[place] = row if isinstance(row, AnabranchError) else _receipt(arrivals[place], row)
    received = [row for row in rows if not isinstance(row, AnabranchError)]
    if any(row.completes for row in received):
        async with receiver.db.connection() as conn:
            await completions.close(conn, line=branch.line, branch_id=branch.branch_id)
    if not all(row.duplicate for row in received):
        receiver.db.notify("work")
        receiver.db.notify("status")
    for place, row in zip(arrivals, rows, strict=True):
        if not isinstance(row, AnabranchError) and row.duplicate:
            async with receiver.db.connection() as conn:
                published = await _publication(conn, branch, arrivals[place].sequence)
            answers[place] = published or answers[place]
    return [answers[place] for place in range(len(submissions))]


async def acknowledgement(db: Database, *, branch: BranchRow, sequence: int) -> Receipt | Publication:
    """What can be said of a batch now: its receipt, or the publication that its job ended with.

    Raises:
        NotFoundError: If it has not come in.
    """
    async with db.connection() as conn:
        batch = await batches.get(conn, line=branch.line, branch_id=branch.branch_id, sequence=sequence)
        if batch is None:
            raise NotFoundError(f"Batch {sequence} has not been received.", hint="Send it.")
        return await _publication(conn, branch, sequence) or Receipt(
            receipt_id=batch.receipt_id,
            branch_id=branch.branch_id,
            sequence=sequence,
            content_hash=hash_text(batch.content_hash),
            contiguous_through=await branches.contiguous_through(conn, line=branch.line, branch_id=branch.branch_id),
            received_at=batch.received_at,
        )


async def _publication(conn: Connection, branch: BranchRow, sequence: int) -> Publication | None:
    """How a batch's job ended; None while it has not."""
    batch = await batches.get(conn, line=branch.line, branch_id=branch.branch_id, sequence=sequence)
    job = await jobs.get(conn, batch.job_id) if batch and batch.job_id else None
    if batch is None or job is None or job.state != "published":
        return None
    generation = job.published_generation
    manifest = await manifests.named(conn, line=branch.line, generation=generation) if generation else None
    return Publication(
        receipt_id=batch.receipt_id,
        branch_id=branch.branch_id,
        sequence=sequence,
        content_hash=hash_text(batch.content_hash),
        job_id=job.job_id,
        published_baseline_id=manifest and manifest.baseline_id,
        generation=generation,
        revision=str(manifest.revision) if manifest else None,
    )


def _arrival(branch: BranchRow, submission: Submission) -> receipts.Arrival:
    return receipts.Arrival(
        line=branch.line,
        branch_id=branch.branch_id,
        sequence=submission.batch.sequence,
        receipt_id=new_receipt_id(LineId(branch.line)),
        content_hash=submission.content_hash,
        body=submission.body,
        changes=len(submission.batch.changes),
        final=submission.batch.final,
        traceparent=tracing.handed_on(),
    )


def _receipt(arrival: receipts.Arrival, row: receipts.ReceiptRow) -> Receipt:
    return Receipt.model_construct(
        receipt_id=row.receipt_id,
        branch_id=arrival.branch_id,
        sequence=arrival.sequence,
        content_hash=hash_text(row.content_hash),
        contiguous_through=row.contiguous_through,
        received_at=row.received_at,
    )


def forms(value: dict[str, Any], *, plain: bool) -> tuple[bytes, bytes]:
    """The RFC 8785 form of a batch without its ``content_hash``, which covers it, and that of the whole.

    The members are sorted, so the whole has the member right before those that come after it; what is before it, which
    is nearly all of a batch, is written once.
    """
    encode = plain_bytes if plain else canonical_bytes
    body = encode(value)
    if _HASH not in value:
        return body, body
    after = encode({name: member for name, member in value.items() if name > _HASH})[1:-1]
    end = len(body) - 1 - (len(after) + 1 if after else 0)
    before = body[: end - len(_MEMBER) - len(encode(value[_HASH]))]
    if before == b"{":
        return b"{%b}" % after, body
    return before[:-1] + body[end:], body


def _check_contents(batch: FindingBatch) -> None:
    """Check each content against its limit."""
    for index, change in enumerate(batch.changes):
        if (size := len(canonical_bytes(change.content))) > CONTENT_BYTES:
            raise TooLargeError(
                f"changes[{index}].content has {size} bytes, the limit is {CONTENT_BYTES}.",
                hint="Split it into several records, or upload it as evidence.",
                limit=CONTENT_BYTES,
            )


def _model(body: bytes) -> FindingBatch:
    try:
        return FindingBatch.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise misfits.refusal(
            error, hint="Mend the batch, as FindingBatch in GET /openapi.json describes it."
        ) from None
