"""One question to a model: counted, asked, and what comes of it kept.

These are three steps. In a transaction the request is counted against the job's budget; outside of any, the model is
asked, which may take a minute; in another transaction the proposal is kept and the request settled, if the candidates
are still what was asked about. Whoever dies in between has spent one request, and the same is asked again when the hold
on it has run out. A proposal is never kept twice: who has lost the hold has lost the number of the request too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from anabranch.consolidation import merging
from anabranch.model.errors import ConflictError, NotFoundError, QuotaExceededError
from anabranch.proposals import prompt
from anabranch.proposals.answer import Nothing
from anabranch.proposals.endpoint import ModelError
from anabranch.proposals.questions import Pointless, pose
from anabranch.store import jobs, proposals
from anabranch.telemetry.of_operator import PROPOSALS

if TYPE_CHECKING:
    from anabranch.model.crd import Proposals
    from anabranch.proposals.answer import Written
    from anabranch.proposals.breaker import Breaker
    from anabranch.proposals.endpoint import Endpoint, Reply
    from anabranch.proposals.questions import Posed
    from anabranch.store.database import Connection, Database
    from anabranch.store.proposals import Question, Request

_log = structlog.get_logger(__name__)

ATTEMPTS: Final = 3
"""Times that the same is asked, if it is not answered."""

RETRY: Final = timedelta(minutes=1)
SPENT: Final = timedelta(minutes=5)
"""When a job whose budget is spent is looked at again: somebody may have raised it."""

_MARGIN: Final = timedelta(seconds=30)
"""For which nobody else asks the same, beyond the time that an answer may take."""

_AT_ONCE: Final = timedelta()

_BYTES_PER_TOKEN: Final = 2
"""Fewer than texts have, so that a request is hardly ever counted for less than it comes to."""

_MOST: Final = 4
"""An endpoint that tells more tokens than so many times what a request can come to is not believed."""


class _OvertakenError(ConflictError):
    """Somebody else asks the same by now."""

    code: ClassVar[str] = "Overtaken"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question whose request is counted.

    Attributes:
        reserved: The tokens that were counted for it.
    """

    question: Question
    posed: Posed
    request: Request
    reserved: int


async def ask(db: Database, question: Question, policy: Proposals, *, endpoint: Endpoint, breaker: Breaker) -> None:
    """Ask a question, if it still is one and there is budget for it, and keep what comes of it.

    Args:
        db: The store.
        question: The question.
        policy: What the Baseline says of proposals.
        endpoint: The model.
        breaker: Is told whether it answers.
    """
    async with db.transaction() as conn:
        asked = await _begin(conn, question, policy, endpoint=endpoint)
    if asked is None:
        return
    try:
        reply = await endpoint.ask(asked.posed.messages)
    except ModelError as error:
        if error.outcome == "junk":
            breaker.succeeded()  # it is there: what it says is this question's alone
        else:
            breaker.failed(asyncio.get_running_loop().time(), pause=error.pause)
        _log.warning("a model gives no answer", outcome=error.outcome, detail=error.detail)
        await _unanswered(db, asked, endpoint.name, reason=error.outcome.capitalize())
        return
    breaker.succeeded()
    found = await asyncio.to_thread(asked.posed.read, reply.text)
    saved = _saved(asked, reply)
    reason = found.reason if isinstance(found, Nothing) else await _keep(db, asked, endpoint.name, found, saved=saved)
    PROPOSALS.labels(endpoint.name, reason or "proposed").inc()
    if reason:
        _log.info("a model proposes nothing", reason=reason)
        async with db.connection() as conn:
            await proposals.settle(
                conn, question, asked.request, state="nothing", reason=reason, due_in=_AT_ONCE, saved=saved
            )


async def _begin(conn: Connection, question: Question, policy: Proposals, *, endpoint: Endpoint) -> _Asked | None:
    """Count a request; None: nothing is asked, for good or for now."""
    settings = endpoint.settings
    if not await proposals.lock_job(conn, line=question.line, job_id=question.job_id):
        return None
    earlier = await proposals.earlier(conn, question)
    if earlier is not None and earlier.settled:
        return None
    posed = await pose(conn, question, limit=settings.max_input_bytes)
    if posed is None:
        return None
    if isinstance(posed, Pointless) or (earlier is not None and earlier.attempts >= ATTEMPTS):
        reason = posed.reason if isinstance(posed, Pointless) else "Unanswered"
        await proposals.note(conn, question, model=endpoint.name, state="nothing", reason=reason, due_in=_AT_ONCE)
        PROPOSALS.labels(endpoint.name, reason).inc()
        return None
    reserved = prompt.size(posed.messages) // _BYTES_PER_TOKEN + settings.max_tokens
    spent = await proposals.spent(conn, line=question.line, job_id=question.job_id)
    if spent.requests >= policy.budget.requests or spent.tokens + reserved > policy.budget.tokens:
        await proposals.note(conn, question, model=endpoint.name, state="open", reason="BudgetSpent", due_in=SPENT)
        return None
    hold = timedelta(seconds=settings.timeout_seconds) + _MARGIN
    request = await proposals.begin(conn, question, model=endpoint.name, tokens=reserved, hold=hold)
    return _Asked(question, posed, request, reserved)


async def _unanswered(db: Database, asked: _Asked, model: str, *, reason: str) -> None:
    """Note that there was no answer, and have it asked again in a while, unless that was often enough."""
    last = asked.request.attempt >= ATTEMPTS
    async with db.connection() as conn:
        await proposals.settle(
            conn,
            asked.question,
            asked.request,
            state="nothing" if last else "open",
            reason="Unanswered" if last else reason,
            due_in=RETRY * asked.request.attempt,
        )
    if last:
        PROPOSALS.labels(model, "Unanswered").inc()


async def _keep(db: Database, asked: _Asked, model: str, written: Written, *, saved: int) -> str:
    """Propose what a model has written; why that is too late, or empty."""
    question = asked.question

    async def settle(conn: Connection, candidate_id: str) -> None:
        if not await proposals.settle(
            conn, question, asked.request, state="proposed", candidate_id=candidate_id, due_in=_AT_ONCE, saved=saved
        ):
            raise _OvertakenError("Somebody else asks the same by now.")

    async with db.connection() as conn:
        job = await jobs.get(conn, question.job_id)
    if job is None:
        return _OvertakenError.code
    try:
        await merging.propose(
            db,
            job=job,
            author=f"model:{model}",
            body=written.body,
            inputs=question.inputs,
            base_revision=asked.posed.base_revision,
            with_record=asked.posed.with_record,
            origin=question.kind,
            key=question.key,
            model=model,
            also=settle,
        )
    except (NotFoundError, QuotaExceededError, ConflictError) as error:
        _log.info("what a model has written comes too late", error=str(error))
        return error.code if isinstance(error, QuotaExceededError) else _OvertakenError.code
    return ""


def _saved(asked: _Asked, reply: Reply) -> int:
    """By how much a request came to less than what was counted for it."""
    return 0 if reply.tokens is None else asked.reserved - min(reply.tokens, _MOST * asked.reserved)
