"""Reviews: an append-only table of who decided what, having seen which content and which record.

Decisions come by the job's resource (admission checked the reviewer) or by HTTP (the API did). Taking one back is an
entry too. The latest of a reviewer on a candidate counts; one that is taken back out of a resource does not take back
what the same person said by HTTP. Deleting the resource loses nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

Via: TypeAlias = Literal["resource", "http"]

_sql = queries.load("reviews")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One reviewer's decision on one candidate.

    Attributes:
        reviewer: Username.
        content_hash: Of the content that the reviewer saw, 32 bytes.
        base_revision: Of the canonical record that the reviewer saw; 0 for none.
        hold: Number of the recall gate's hold that the reviewer saw; None: of none.
    """

    candidate_id: str
    reviewer: str
    content_hash: bytes
    base_revision: int
    action: Literal["accept", "reject", "withdraw"]
    reason: str = ""
    hold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRow(Decision):
    """A decision as it was noted.

    Attributes:
        ordinal: Later ones are greater.
        via: By which way it came.
    """

    line: str
    job_id: str
    ordinal: int
    via: Via
    at: datetime


_FIELDS: Final = tuple(field.name for field in fields(ReviewRow))


async def append(conn: Connection, *, line: str, job_id: str, decisions: Iterable[Decision], via: Via = "http") -> None:
    """Note decisions, in their order. Callers wake the job in the same transaction."""
    rows = [asdict(decision) | {"line": line, "job_id": job_id, "via": via} for decision in decisions]
    await _sql.append(conn, rows)


async def effective(
    conn: Connection, *, line: str, job_id: str, known: Callable[[ReviewRow], bool] = lambda _: True
) -> list[ReviewRow]:
    """The decision of each reviewer on each candidate that counts: the latest that was not withdrawn.

    Args:
        conn: A connection.
        line: The job's.
        job_id: The job.
        known: Whether a decision was made knowing what there was to know. One that was not is passed over.
    """
    found = await queries.rows(_sql.standing(conn, line=line, job_id=job_id), _from_row)
    return list({(row.candidate_id, row.reviewer): row for row in found if known(row)}.values())


async def standing(conn: Connection, *, line: str, job_id: str, via: Via) -> list[Decision]:
    """The decision of each reviewer on each candidate by one way that was not withdrawn."""
    rows = await queries.rows(_sql.standing(conn, line=line, job_id=job_id), _from_row)
    return [_said(row) for row in rows if row.via == via]


async def latest(conn: Connection, *, line: str, job_ids: Sequence[str]) -> list[ReviewRow]:
    """The latest decision of each reviewer on each candidate of some jobs by each way, withdrawals among them."""
    return await queries.rows(_sql.latest(conn, line=line, job_ids=list(job_ids)), _from_row)


async def count(conn: Connection, *, line: str, job_ids: Sequence[str]) -> int:
    """How many entries the reviews of some jobs have. None is ever removed while a job is open: equal is unchanged."""
    entries: int = await _sql.count_entries(conn, line=line, job_ids=list(job_ids))
    return entries


async def follow(conn: Connection, *, line: str, from_job: str, to_job: str, candidate_ids: Sequence[str]) -> int:
    """Note again for a job what was said by HTTP of candidates that it takes over, and stands; how many decisions.

    Args:
        conn: Inside the transaction that moves the candidates, and holds the job that they come from.
        line: The line.
        from_job: Where they come from.
        to_job: Where they go.
        candidate_ids: The candidates.
    """
    noted: int = await _sql.follow(conn, line=line, from_job=from_job, to_job=to_job, candidate_ids=list(candidate_ids))
    return noted


async def history(
    conn: Connection, *, line: str, job_id: str, after: int = 0, limit: int | None = None
) -> list[ReviewRow]:
    """The decisions on a job's candidates in order, withdrawals among them, beginning after an ordinal; None: all."""
    return await queries.rows(_sql.history(conn, line=line, job_id=job_id, after=after, limit=limit), _from_row)


async def sync_resource(
    conn: Connection, *, line: str, job_id: str, observed_generation: int, decisions: Iterable[Decision]
) -> list[Decision]:
    """Take over the decisions of a job's resource: note new and changed ones, and withdraw those that are gone.

    Two operators may do so at once, and one of them may hold an older resource: that one changes nothing.

    Args:
        conn: A connection; a transaction of its own is opened on it.
        line: The job's.
        job_id: The job.
        observed_generation: ``metadata.generation`` of the resource that was read.
        decisions: All that stand in it; the last counts where a reviewer names a candidate twice.

    Returns:
        What was noted, withdrawals among it: where there is anything, the job is to be woken.
    """
    wanted = {(decision.candidate_id, decision.reviewer): decision for decision in decisions}
    async with conn.transaction():
        where = {"line": line, "job_id": job_id, "observed_generation": observed_generation}
        if not await _sql.lock_job(conn, **where):
            return []
        stood = {
            (said.candidate_id, said.reviewer): said
            for said in await standing(conn, line=line, job_id=job_id, via="resource")
        }
        changed = [decision for place, decision in wanted.items() if stood.get(place) != decision]
        changed += [_withdrawn(decision) for place, decision in stood.items() if place not in wanted]
        await append(conn, line=line, job_id=job_id, decisions=changed, via="resource")
        await _sql.seen(conn, **where)
    return changed


def _said(row: ReviewRow) -> Decision:
    return Decision(**{field.name: getattr(row, field.name) for field in fields(Decision)})


def _withdrawn(decision: Decision) -> Decision:
    return Decision(
        candidate_id=decision.candidate_id,
        reviewer=decision.reviewer,
        content_hash=decision.content_hash,
        base_revision=decision.base_revision,
        action="withdraw",
    )


def _from_row(row: Mapping[str, Any]) -> ReviewRow:
    return ReviewRow(**{name: row[name] for name in _FIELDS})
