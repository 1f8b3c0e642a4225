"""Removes what finished runs and jobs leave behind: in pieces, and from the moment that it begins, for everybody.

A run is over when it ended long enough ago and all that it found is decided. Its row then says that its data is
leaving, so that nobody reads half of it, and the data goes. A row stays as long as its resource does: a Branch that the
store did not know any more would be forked again. Whatever a transaction removes, the next one finds what is left, so
whoever does it may die after any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import branches, queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("reclaiming")

_ROWS: Final = 2_000
"""Rows of a table that one transaction removes,"""

_BODIES: Final = 64
"""and of those that may have megabytes each."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A run whose data is being removed.

    Attributes:
        branch_id: The run's branch.
        jobs: Ids of the jobs of its batches.
    """

    branch_id: str
    jobs: tuple[str, ...]


async def ended_runs(conn: Connection, *, line: str, before: datetime, limit: int) -> list[str]:
    """Branches of runs that are over since before a moment, the oldest first.

    Args:
        conn: A connection.
        line: The line.
        before: The moment.
        limit: How many at most.
    """
    return await queries.rows(_sql.ended_runs(conn, line=line, branch_id=None, before=before, limit=limit), _branch_id)


async def leave(conn: Connection, *, line: str, branch_id: str, before: datetime) -> None:
    """Begin to remove a run's data, if it still is over since before a moment.

    Args:
        conn: Inside a transaction.
        line: The line.
        branch_id: The run's branch.
        before: As it was given to `ended_runs`.
    """
    await _sql.lock_branch(conn, line=line, branch_id=branch_id)
    # Asked again by a statement that begins with the lock held: a receipt may have come first.
    found = _sql.ended_runs(conn, line=line, branch_id=branch_id, before=before, limit=1)
    if await queries.rows(found, _branch_id):
        through = await branches.contiguous_through(conn, line=line, branch_id=branch_id)
        await _sql.leave(conn, line=line, branch_id=branch_id, through=through)


async def leaving(conn: Connection, *, line: str, limit: int) -> list[Leaving]:
    """Runs whose data is being removed."""
    found = _sql.leaving(conn, line=line, limit=limit)
    return await queries.rows(found, lambda row: Leaving(row["branch_id"], tuple(row["jobs"])))


async def empty_run(conn: Connection, *, line: str, run: Leaving) -> bool:
    """Remove some of a run's data; whether there is more. When there is none, only its row and its jobs' logs are left.

    Args:
        conn: Inside a transaction.
        line: The line.
        run: As `leaving` gave it.
    """
    more = await _drop_decisions(conn, line=line, job_ids=run.jobs)
    where = {"line": line, "branch_id": run.branch_id}
    for drop, limit in (
        (_sql.drop_evidence, _BODIES),
        (_sql.drop_batches, _BODIES),
        (_sql.drop_private, _ROWS),
        (_sql.drop_checkpoints, _ROWS),
        (_sql.drop_kv_records, _BODIES),
        (_sql.drop_kv_checkpoints, _ROWS),
        (_sql.drop_kv_namespaces, _ROWS),
    ):
        more |= queries.touched(await drop(conn, limit=limit, **where)) == limit
    await _sql.drop_signs(conn, **where)
    await _sql.drop_completion(conn, **where)
    if not more:
        await _sql.keep_logs(conn, line=line, job_ids=list(run.jobs))
        await _sql.keep_branch_row(conn, **where)
    return more


async def leave_jobs(conn: Connection, *, line: str, job_ids: Sequence[str]) -> None:
    """Begin to remove what finished jobs have decided about.

    Args:
        conn: A connection.
        line: The line.
        job_ids: As `branchless_jobs` gave them.
    """
    await _sql.leave_jobs(conn, line=line, job_ids=list(job_ids))


async def branchless_jobs(conn: Connection, *, line: str, before: datetime, limit: int) -> list[str]:
    """Jobs without a branch that finished before a moment, the oldest first; arguments as in `ended_runs`."""
    return await queries.rows(_sql.branchless_jobs(conn, line=line, before=before, limit=limit), _job_id)


async def empty_jobs(conn: Connection, *, line: str, job_ids: Sequence[str]) -> bool:
    """Remove some candidates and reviews of finished jobs; whether there are more. Then only rows and logs are left.

    Args:
        conn: Inside a transaction.
        line: The line.
        job_ids: As they were given to `leave_jobs`.
    """
    more = await _drop_decisions(conn, line=line, job_ids=job_ids)
    if not more:
        await _sql.keep_logs(conn, line=line, job_ids=list(job_ids))
    return more


async def logged_jobs(conn: Connection, *, line: str, before: datetime, limit: int) -> list[str]:
    """Jobs that finished before a moment and of which row and log are left; arguments as in `ended_runs`."""
    return await queries.rows(_sql.logged_jobs(conn, line=line, before=before, limit=limit), _job_id)


async def drop_logs(conn: Connection, *, line: str, job_ids: Sequence[str]) -> bool:
    """Remove some of the logs of finished jobs; whether there is more. Then only rows are left.

    Args:
        conn: Inside a transaction.
        line: The line.
        job_ids: As `logged_jobs` gave them.
    """
    tag = await _sql.drop_transitions(conn, line=line, job_ids=list(job_ids), limit=_ROWS)
    if more := queries.touched(tag) == _ROWS:
        return more
    await _sql.keep_rows(conn, line=line, job_ids=list(job_ids))
    return False


async def drop_rows(conn: Connection, *, line: str) -> bool:
    """Remove some rows of emptied jobs and runs whose resources are gone; whether there are more.

    Args:
        conn: Inside a transaction.
        line: The line.
    """
    jobs = queries.touched(await _sql.drop_jobs(conn, line=line, limit=_ROWS))
    runs = queries.touched(await _sql.drop_branches(conn, line=line, limit=_ROWS))
    return _ROWS in (jobs, runs)


async def _drop_decisions(conn: Connection, *, line: str, job_ids: Sequence[str]) -> bool:
    ids = list(job_ids)
    candidates = await _sql.drop_candidates(conn, line=line, job_ids=ids, limit=_ROWS)
    reviews = queries.touched(await _sql.drop_reviews(conn, line=line, job_ids=ids, limit=_ROWS))
    merges = queries.touched(await _sql.drop_merges(conn, line=line, job_ids=ids, limit=_ROWS))
    drafts = queries.touched(await _sql.drop_drafts(conn, line=line, job_ids=ids, limit=_BODIES))
    holds = queries.touched(await _sql.drop_holds(conn, line=line, job_ids=ids, limit=_ROWS))
    proposals = queries.touched(await _sql.drop_proposals(conn, line=line, job_ids=ids, limit=_ROWS))
    return _ROWS in (candidates, reviews, merges, holds, proposals) or drafts == _BODIES


def _branch_id(row: Any) -> str:
    return str(row["branch_id"])


def _job_id(row: Any) -> str:
    return str(row["job_id"])
