"""The recall gate: what Baselines ask of their recall, what generations answer, and what was held.

The set of questions is kept with what is asked, so that it is never another one than its digest says; a generation's
answers name the set that they are to. What reviewers were told when something was held is kept for as long as their
decisions are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.gate import Bounds
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from anabranch.domain.gate import Reason
    from anabranch.store.database import Connection
    from anabranch.store.reviews import ReviewRow

_sql: Final = queries.load("recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a Baseline asks of its recall.

    Attributes:
        line: The line.
        config_map: Name of the ConfigMap that has the set.
        k: How many hits count.
        floor: The lowest recall that is let through.
        max_regression: By how much a publication may lower it.
        digest: Of the set, 32 bytes; None: there is none, and publications wait.
    """

    line: str
    config_map: str
    k: int
    floor: float
    max_regression: float
    digest: bytes | None

    @property
    def bounds(self) -> Bounds:
        """As the gate decides by them."""
        return Bounds(k=self.k, floor=self.floor, max_regression=self.max_regression)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a generation answers.

    Attributes:
        digest: Of the set, 32 bytes.
        k: How many hits count.
        tasks: How many of the set's recall counts.
        recall: At k, the mean over them.
        recall_at_1: At 1.
        mrr: The mean reciprocal rank of the first answer; None: no task has answers.
        against: The generation that the change is from; None: nothing is known of one.
        change: Of recall at k.
        low: Lower end of its 95 % interval.
        high: Upper end.
        worse: Ids of the tasks that were answered better there.
    """

    digest: bytes
    k: int
    tasks: int
    recall: float
    recall_at_1: float
    mrr: float | None
    against: int | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    worse: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Result):
    """The result of a generation that was kept."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A generation to be measured after the fact, and by what."""

    line: str
    generation: int
    digest: bytes
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What was held of a job, as its reviewers are told.

    Attributes:
        job_id: The job.
        number: Among the holds of the job, from 1.
        reason: Why.
        generation: The head that it was measured against.
        recall: Of the set, had it been published.
        change: Of recall.
        failing: Ids of the tasks that are not answered.
        reviews_through: Decisions up to this entry of the job's reviews came before.
    """

    job_id: str
    number: int
    reason: Reason
    generation: int
    recall: float
    change: float
    failing: Sequence[str]
    reviews_through: int

    def is_known_to(self, decision: ReviewRow) -> bool:
        """Whether a decision counts: it was made after this, and if it accepts, by somebody who names this.

        That it was noted later does not say that its reviewer knew: it may have been on its way, or in a resource that
        was read late.
        """
        if decision.ordinal <= self.reviews_through:
            return False
        return decision.action != "accept" or decision.hold == self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHold:
    """A hold to be noted; attributes as of `Hold` and `Result`."""

    reason: Reason
    generation: int
    digest: bytes
    k: int
    recall: float
    change: float
    low: float
    high: float
    failing: Sequence[str]


async def gate(conn: Connection, *, line: str) -> Gate | None:
    """What a Baseline asks of its recall; None: nothing."""
    row = await _sql.gate(conn, line=line)
    return None if row is None else Gate(**row)


async def keep(conn: Connection, *, gate: Gate, tasks: bytes | None) -> bool:
    """Keep what a Baseline asks of its recall; whether that is anything new.

    Args:
        conn: A connection.
        gate: What it asks.
        tasks: The set that the gate's digest is of.
    """
    return await _sql.keep(conn, tasks=tasks, **asdict(gate)) is not None


async def drop(conn: Connection, *, line: str) -> bool:
    """A Baseline asks nothing of its recall; whether it did."""
    return await _sql.drop(conn, line=line) is not None


async def tasks(conn: Connection, *, line: str, digest: bytes) -> bytes | None:
    """The set of questions as JSON Lines; None: it is another one by now."""
    found: bytes | None = await _sql.tasks(conn, line=line, digest=digest)
    return found


async def write(conn: Connection, *, line: str, generation: int, result: Result, recalls: Mapping[str, float]) -> None:
    """Note what a generation answers, and forget what those answered that are not kept any more.

    Args:
        conn: A connection, in the transaction that publishes it; or any, if that was before.
        line: The line.
        generation: Its number.
        result: What it answers.
        recalls: Recall at k by task.
    """
    values = asdict(result) | {"worse": list(result.worse), "recalls": dict(recalls)}
    await _sql.write(conn, line=line, generation=generation, **values)
    await _sql.forget(conn, line=line)


async def recalls(
    conn: Connection, *, line: str, before: int, digest: bytes, k: int
) -> tuple[int, dict[str, float]] | None:
    """What the newest generation before one answers that was asked the same: its number, and recall at k by task."""
    row = await _sql.recalls(conn, line=line, before=before, digest=digest, k=k)
    return None if row is None else (row["generation"], row["recalls"])


async def results(conn: Connection, *, line: str, before: int, limit: int) -> list[Measured]:
    """What retained generations before one answer, newest first; not all of them were asked."""
    return await queries.rows(_sql.results(conn, line=line, before=before, limit=limit), _measured)


async def unmeasured(conn: Connection, *, every: timedelta) -> Unmeasured | None:
    """A generation that is to be measured; None: there is none.

    Args:
        conn: A connection.
        every: Not of a line whose last turn is not as long ago.
    """
    row = await _sql.next(conn, every=every)
    return None if row is None else Unmeasured(**row)


async def turned(conn: Connection, *, line: str) -> None:
    """Let the other lines come first."""
    await _sql.turned(conn, line=line)


async def hold(conn: Connection, *, line: str, job_id: str, hold: NewHold) -> None:
    """Note what is held of a job. Needs the lock of its row, which every decision takes, too."""
    await _sql.hold(conn, line=line, job_id=job_id, **(asdict(hold) | {"failing": list(hold.failing)}))


async def holds(conn: Connection, *, line: str, job_ids: Sequence[str]) -> dict[str, Hold]:
    """The newest hold of those of some jobs that have one, by job id."""
    found = await queries.rows(_sql.holds(conn, line=line, job_ids=list(job_ids)), lambda row: Hold(**row))
    return {one.job_id: one for one in found}


def _measured(row: Any) -> Measured:
    return Measured(**row)
