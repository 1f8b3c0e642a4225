"""Batches of findings, and the completion of a run: what an agent hands in, to be kept before it is acknowledged."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response

from anabranch.api import problems
from anabranch.api.access import OfOwnBranch, OfReceivingBranch
from anabranch.api.bodies import RawBody, fit
from anabranch.api.paging import PageQuery, Pager
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnBranch
from anabranch.branches import completion, read
from anabranch.consolidation import admission, receipt
from anabranch.identity import grants
from anabranch.model.answers import BatchPage, BulkAnswer, BulkResult, CompletionState
from anabranch.model.canonical import hash_text, parse_canonical
from anabranch.model.errors import AnabranchError, ConflictError, GoneError, InvalidInputError, NotFoundError
from anabranch.model.limits import BATCH_BYTES, BULK_BATCHES, BULK_BYTES
from anabranch.model.objects import Publication, Receipt, RunCompletion
from anabranch.model.requests import BulkBatches
from anabranch.model.wire import Sequence as BatchSequence
from anabranch.store.completions import CompletionRow

router = APIRouter(prefix="/v1/namespaces/{namespace}/branches/{branch}", route_class=Route, tags=["findings"])

AtOwnBranch = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH))]
at_receipt = OfReceivingBranch(grants.OWN_BRANCH, grants.SCOPE_WRITE, stale=True)
AtReceipt = Annotated[OnBranch, Depends(at_receipt)]
SequencePath = Annotated[BatchSequence, Path(alias="sequence")]

batch_body = RawBody(
    limit=BATCH_BYTES,
    what="batch",
    schema={"$ref": "#/components/schemas/FindingBatch"},
    hint="Split it into several sequences.",
)
bulk_body = RawBody(
    limit=BULK_BYTES,
    what="request",
    schema={"$ref": "#/components/schemas/BulkBatches"},
    hint="Send fewer batches at once.",
)
_submitting: dict[str, object] = {}
may_fail(_submitting, ConflictError, GoneError)


@router.put(
    "/batches/{sequence}",
    response_model=Receipt | Publication,
    summary="Submit a batch",
    openapi_extra=_submitting,
)
async def put_batch(
    at: AtReceipt, sequence: SequencePath, parts: WithParts, body: Annotated[bytes, Depends(batch_body)]
) -> Response:
    """Receive a batch. The same again is answered with the same receipt, or with its publication once there is one."""
    submission = await receipt.read(body)
    if submission.batch.sequence != sequence:
        raise InvalidInputError(
            f"The batch has the sequence {submission.batch.sequence}, the path {sequence}.",
            hint="Send each batch to its own sequence.",
        )
    (answer,) = await _received(parts, at, [submission])
    if isinstance(answer, AnabranchError):
        raise answer
    return reply(answer)


@router.post("/batches", response_model=BulkAnswer, summary="Submit several batches", openapi_extra=_submitting)
async def post_batches(at: AtReceipt, parts: WithParts, body: Annotated[bytes, Depends(bulk_body)]) -> Response:
    """Receive up to 100 batches, in their order; each is received or refused by itself."""
    sequences, submissions = await asyncio.to_thread(_read_bulk, body)
    answers = await _received(parts, at, submissions)
    return reply(BulkAnswer.model_construct(results=tuple(map(_bulk_result, sequences, answers))))


@router.get("/batches", response_model=BatchPage, summary="List received batches")
async def list_batches(at: AtOwnBranch, parts: WithParts, query: PageQuery) -> Response:
    """The batches that came in, by sequence, without their changes."""
    pager = Pager(parts.sealer, f"batches {at.branch.branch_id}")
    after = pager.place(query.cursor) or 0
    items = await read.received(at.store.db, at.branch, after=after, limit=query.limit)
    cursor = pager.after(items, query.limit, lambda item: item.sequence)
    return reply(BatchPage(items=tuple(items), next_cursor=cursor))


@router.get("/batches/{sequence}", response_model=Receipt | Publication, summary="What became of a batch")
async def get_batch(at: AtOwnBranch, sequence: SequencePath) -> Response:
    """Its receipt, or the publication that its job ended with."""
    return reply(await receipt.acknowledgement(at.store.db, branch=at.branch, sequence=sequence))


@router.put("/completion", response_model=CompletionState, summary="Complete the run", openapi_extra=_submitting)
async def put_completion(
    at: AtOwnBranch,
    body: Annotated[
        bytes,
        Depends(RawBody(limit=BATCH_BYTES, what="completion", schema={"$ref": "#/components/schemas/RunCompletion"})),
    ],
) -> Response:
    """Close the run once every batch up to `last_submitted_sequence` is in; the same again changes nothing."""
    submitted, raw = await asyncio.to_thread(fit, RunCompletion, body)
    return reply(_completion(await completion.submit(at.store.db, branch=at.branch, completion=submitted, raw=raw)))


@router.get("/completion", response_model=CompletionState, summary="How the run was completed")
async def get_completion(at: AtOwnBranch) -> Response:
    """The completion, and whether batches are missing still."""
    row = await read.completion(at.store.db, at.branch)
    if row is None:
        raise NotFoundError("The run is not completed.", hint="PUT its RunCompletion when it ends.")
    return reply(_completion(row))


async def _received(
    parts: Parts, at: OnBranch, submissions: Sequence[receipt.Submission | AnabranchError]
) -> list[Receipt | Publication | AnabranchError]:
    """What each batch is answered with; one that could not be read, with why."""
    answers: list[Receipt | Publication | AnabranchError | None] = []
    admitted: list[receipt.Submission] = []
    outcomes: dict[frozenset[receipt.Touch], AnabranchError | None] = {}
    for submission in submissions:
        if isinstance(submission, AnabranchError):
            answers.append(submission)
            continue
        if submission.touches not in outcomes:
            outcomes[submission.touches] = await _refused(parts, at, submission)
        answers.append(outcomes[submission.touches])
        if answers[-1] is None:
            admitted.append(submission)
    received = iter(await receipt.receive_each(at.store.receiver, branch=at.branch, submissions=admitted))
    return [next(received) if answer is None else answer for answer in answers]


async def _refused(parts: Parts, at: OnBranch, submission: receipt.Submission) -> AnabranchError | None:
    """Why the agent may not submit what touches this, or None."""
    try:
        await admission.admit(parts.grants, at.caller, branch=at.branch, submission=submission)
    except AnabranchError as error:
        return error
    return None


def _read_bulk(body: bytes) -> tuple[list[int | None], list[receipt.Submission | AnabranchError]]:
    """The batches of a bulk request, checked each by itself, and the sequences that they name."""
    value, form = parse_canonical(body)
    # A model would go through every member of what is looked at batch by batch next; it says what is wrong, though.
    batches = value["batches"] if _is_bulk(value) else fit(BulkBatches, body)[0].batches
    named = [batch.get("sequence") for batch in batches]
    return [one if type(one) is int else None for one in named], receipt.check_each(batches, plain=form is body)


def _is_bulk(value: Any) -> bool:
    """Whether a JSON value is a `BulkBatches`."""
    if not isinstance(value, dict) or value.keys() != {"batches"}:
        return False
    batches = value["batches"]
    return (
        isinstance(batches, list)
        and 1 <= len(batches) <= BULK_BATCHES
        and all(isinstance(batch, dict) for batch in batches)
    )


def _bulk_result(sequence: int | None, answer: Receipt | Publication | AnabranchError) -> BulkResult:
    if isinstance(answer, AnabranchError):
        found = problems.problem(answer).model_dump(mode="json", exclude_none=True)
        return BulkResult(sequence=sequence, status=answer.status, answer=found)
    return BulkResult.model_construct(sequence=sequence, status=200, answer=answer.model_dump(mode="json"))


def _completion(row: CompletionRow) -> CompletionState:
    return CompletionState(
        branch_id=row.branch_id,
        run_id=row.run_id,
        content_hash=hash_text(row.content_hash),
        last_submitted_sequence=row.last_submitted_sequence,
        contiguous_through=row.contiguous_through,
        received_at=row.received_at,
        closed_at=row.closed_at,
    )
