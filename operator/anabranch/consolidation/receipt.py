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

from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text, parse_json, sha256
from anabranch.model.errors import DigestMismatchError, InvalidInputError, NotFoundError, TooLargeError
from anabranch.model.ids import LineId, new_receipt_id
from anabranch.model.limits import BATCH_BYTES, CONTENT_BYTES
from anabranch.model.objects import FindingBatch, Publication, Receipt
from anabranch.store import batches, branches, completions, jobs, lines, manifests

if TYPE_CHECKING:
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database

_IN_LOOP_BYTES: Final = 32 << 10
"""Up to here parsing takes about a millisecond; larger batches are parsed beside the event loop."""


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
    return parse(raw) if len(raw) <= _IN_LOOP_BYTES else await asyncio.to_thread(parse, raw)


def parse(raw: bytes) -> Submission:
    """Parse and check a batch (see `read`)."""
    return check(parse_json(raw))


def check(value: Any) -> Submission:
    """Check a batch that is parsed already, strictly (see `read`)."""
    if not isinstance(value, dict):
        raise InvalidInputError("The batch is not a JSON object.", hint="Send a FindingBatch.")
    digest = sha256(canonical_bytes({name: member for name, member in value.items() if name != "content_hash"}))
    body = canonical_bytes(value)
    batch = _model(body)
    if hash_bytes(batch.content_hash) != digest:
        raise DigestMismatchError(
            f"content_hash is {batch.content_hash}, and the batch that arrived has {hash_text(digest)}.",
            hint="Hash the RFC 8785 form of the batch without content_hash; if you did, send it again.",
            submitted=batch.content_hash,
            received=hash_text(digest),
        )
    for index, change in enumerate(batch.changes):
        if (size := len(canonical_bytes(change.content))) > CONTENT_BYTES:
            raise TooLargeError(
                f"changes[{index}].content has {size} bytes, the limit is {CONTENT_BYTES}.",
                hint="Split it into several records, or upload it as evidence.",
                limit=CONTENT_BYTES,
            )
    return Submission(
        batch=batch,
        content_hash=digest,
        body=body,
        touches=frozenset(Touch(change.scope, change.op, change.visibility) for change in batch.changes),
    )


async def receive(db: Database, *, branch: BranchRow, submission: Submission) -> Receipt | Publication:
    """Make a batch durable, and say so; or, if it was and its job has ended, say what came of it.

    The caller has checked that this is the branch's agent, and its grants for ``submission.touches``.

    Args:
        db: The store.
        branch: The branch.
        submission: As `read` gave it.

    Raises:
        InvalidInputError: If the batch names another branch, or its sequence is too far ahead.
        ConflictError: If another batch has the sequence, or the run is complete.
        TooLargeError: If it is larger than the Baseline allows.
        ForbiddenError: If the branch's grant was revoked.
        GoneError: If the branch has expired.
    """
    batch = submission.batch
    if batch.branch_id != branch.branch_id:
        raise InvalidInputError(
            f"The batch names the branch {batch.branch_id}, and was sent to {branch.branch_id}.",
            hint="Send each batch to its own branch.",
        )
    async with db.connection() as conn:
        await _check_size(conn, branch, submission)
        receipt = await batches.receive(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            sequence=batch.sequence,
            receipt_id=new_receipt_id(LineId(branch.line)),
            content_hash=submission.content_hash,
            body=submission.body,
            changes=len(batch.changes),
            final=batch.final,
        )
        if receipt.completes:
            await completions.close(conn, line=branch.line, branch_id=branch.branch_id)
        published = await _publication(conn, branch, batch.sequence) if receipt.duplicate else None
    if not receipt.duplicate:
        db.notify("work")
        db.notify("status")
    return published or Receipt(
        receipt_id=receipt.receipt_id,
        branch_id=branch.branch_id,
        sequence=batch.sequence,
        content_hash=hash_text(receipt.content_hash),
        contiguous_through=receipt.contiguous_through,
        received_at=receipt.received_at,
    )


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


async def _check_size(conn: Connection, branch: BranchRow, submission: Submission) -> None:
    """Check a batch against the Baseline's own limit."""
    policy = (await lines.get(conn, branch.line)).line.policy
    limit = policy.get("limits", {}).get("batchBytes", BATCH_BYTES)
    if len(submission.body) > limit:
        raise TooLargeError(
            f"The batch has {len(submission.body)} bytes, the Baseline's limit is {limit}.",
            hint="Split it into several sequences.",
            limit=limit,
        )


def _model(body: bytes) -> FindingBatch:
    try:
        return FindingBatch.model_validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the batch"
        raise InvalidInputError(
            f"{where}: {first['msg']}.", hint="Send a FindingBatch as its JSON Schema describes it."
        ) from None
