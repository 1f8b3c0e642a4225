"""Proposals: which candidates a model is to be asked about, what it was asked, and what that has cost.

A request is counted before it is made, under the lock of its job, so neither two operators nor one that dies spend more
than the budget says. Its number is the fence: what comes back to somebody who was too slow changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from anabranch.store.database import Connection

Kind: TypeAlias = Literal["merge", "summary"]
State: TypeAlias = Literal["open", "proposed", "nothing"]

_sql: Final = queries.load("proposals")


@dataclass(frozen=True, slots=True)
class ProposingLine:
    """A line whose review policy names a model.

    Attributes:
        policy: What it says of it: ``spec.review.proposals`` in its JSON form.
        unavailable: Whether its Baseline has a condition that the model is not there.
    """

    line: str
    policy: Mapping[str, Any]
    unavailable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Candidates that wait in one job, of which a model is to make one.

    Attributes:
        kind: ``merge``: they are for one key, and say different things. ``summary``: they are of one topic.
        key: Of what it is to make.
        inputs: Their ids, in order.
        record_revision: Of the record that they were compared with; None: there was none.
    """

    line: str
    job_id: str
    kind: Kind
    key: str
    inputs: tuple[str, ...]
    record_revision: int | None

    @property
    def place(self) -> dict[str, str]:
        """The key of its row."""
        return {"line": self.line, "job_id": self.job_id, "kind": self.kind, "key": self.key}

    @property
    def columns(self) -> dict[str, Any]:
        """What its row says of it."""
        return {**self.place, "inputs": list(self.inputs), "record_revision": self.record_revision}


@dataclass(frozen=True, slots=True)
class Spent:
    """What something has cost."""

    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was asked about the same candidates before.

    Attributes:
        attempts: How often a model was asked.
        settled: Whether it need not be asked now: it has answered, or somebody asks it, or it is too early.
    """

    attempts: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is counted.

    Attributes:
        number: Among those about its key: its fence.
        attempt: Among those about these candidates.
    """

    number: int
    attempt: int


async def proposing_lines(conn: Connection) -> list[ProposingLine]:
    """Lines whose review policy names a model, and that are not paused."""
    return await queries.rows(_sql.lines(conn), lambda row: ProposingLine(**row))


async def merges_wanted(conn: Connection, *, line: str, limit: int) -> list[Question]:
    """Of which keys a model is to propose a merge now, in the order of jobs and keys."""
    found = _sql.merges_wanted(conn, line=line, limit=limit)
    return await queries.rows(found, lambda row: _question(line, "merge", row))


async def summaries_wanted(conn: Connection, *, line: str, findings: int, limit: int) -> list[Question]:
    """Of which topics a model is to propose a summary now: those with so many findings in a job, or more."""
    found = _sql.summaries_wanted(conn, line=line, findings=findings, limit=limit)
    return await queries.rows(found, lambda row: _question(line, "summary", row))


async def lock_job(conn: Connection, *, line: str, job_id: str) -> bool:
    """Keep a job as it is until the transaction ends; False: it does not wait for a review any more."""
    return bool(await _sql.lock_job(conn, line=line, job_id=job_id))


async def earlier(conn: Connection, question: Question) -> Earlier | None:
    """What was asked about the same candidates before; None: nothing."""
    row = await _sql.earlier(
        conn,
        **question.columns,
    )
    return None if row is None else Earlier(**row)


async def spent(conn: Connection, *, line: str, job_id: str) -> Spent:
    """What a job has cost so far: requests that may still be answered count with what they may come to."""
    return Spent(**await _sql.spent(conn, line=line, job_id=job_id))


async def begin(conn: Connection, question: Question, *, model: str, tokens: int, hold: timedelta) -> Request:
    """Count a request, before it is made.

    Args:
        conn: Inside a transaction that has locked the job.
        question: What is asked.
        model: Name of the model.
        tokens: What the request and its answer may come to.
        hold: For how long nobody else asks the same.
    """
    row = await _sql.begin(
        conn,
        **question.columns,
        model=model,
        tokens=tokens,
        hold=hold,
    )
    return Request(number=row["requests"], attempt=row["attempts"])


async def note(  # noqa: PLR0913  (what a row has)
    conn: Connection, question: Question, *, model: str, state: State, reason: str, due_in: timedelta
) -> None:
    """Note why a model is not asked: ``nothing`` until the candidates change, ``open`` until then or a time."""
    await _sql.note(
        conn,
        **question.columns,
        model=model,
        state=state,
        reason=reason,
        due_in=due_in,
    )


async def settle(  # noqa: PLR0913  (what a row has)
    conn: Connection,
    question: Question,
    request: Request,
    *,
    state: State,
    due_in: timedelta,
    reason: str = "",
    candidate_id: str | None = None,
    saved: int = 0,
) -> bool:
    """Note what came of a request; False: another one was made since, and nothing is noted.

    Args:
        conn: A connection, in the transaction that also keeps the proposal.
        question: What was asked.
        request: As `begin` gave it.
        state: ``open``: it is to be asked again.
        due_in: When, from now.
        reason: CamelCase: why there is nothing, or why it is asked again.
        candidate_id: The proposal.
        saved: Tokens that were counted, and not used.
    """
    tag = await _sql.settle(
        conn,
        **question.place,
        requests=request.number,
        state=state,
        reason=reason,
        candidate_id=candidate_id,
        saved=saved,
        due_in=due_in,
    )
    return queries.touched(tag) > 0


def _question(line: str, kind: Kind, row: Mapping[str, Any]) -> Question:
    return Question(
        line=line,
        job_id=row["job_id"],
        kind=kind,
        key=row["key"],
        inputs=tuple(row["inputs"]),
        record_revision=row["record_revision"],
    )
