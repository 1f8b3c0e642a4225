"""Nothing is published that no backup is a way back from, where the Baseline asks for one.

A job that comes here without a backup waits; it does not fail, and holds nothing but its own place. The wish is
written before the look: whoever records a backup afterwards wakes the job, and if they came before, the look sees it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.store import backups, leases

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow

AWAITED: Final = "BackupAwaited"

_LOOK_AGAIN: Final = timedelta(minutes=1)
"""A backup that is recorded wakes the job; this is for what changes without a noise, such as the time."""


async def let_through(
    db: Database, group: Sequence[JobRow], outcomes: MutableMapping[str, JobRow | Exception | None]
) -> list[JobRow]:
    """Let jobs publish, unless they must wait for a backup of their line: then they are let go of, until there is one.

    Args:
        db: The store.
        group: Jobs of one line in ``publishing``, held.
        outcomes: Is given, by job id, the outcome of those that wait (None), or are somebody else's by now.

    Returns:
        The jobs that may go on.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    line, passed, wished = group[0].line, True, False
    async with db.connection() as conn:
        asked = await backups.standing(conn, line=line)
        if asked is not None and not asked.fresh:
            wished = await backups.want(conn, line=line)
            asked = await backups.standing(conn, line=line)
            passed = asked is None or asked.fresh
        going: list[JobRow] = []
        for job in group:
            try:
                going += await (_go_on(conn, job) if passed else _wait(conn, job))
            except leases.FencedError as error:
                outcomes[job.job_id] = error
    if not passed:
        outcomes.update({job.job_id: None for job in group if job.job_id not in outcomes})
        db.notify("work" if wished else "status")
    return going


async def _go_on(conn: Connection, job: JobRow) -> list[JobRow]:
    """The job, which says no more that it waits."""
    return [job if job.reason != AWAITED else await leases.advance(conn, job=job, to_state="publishing")]


async def _wait(conn: Connection, job: JobRow) -> list[JobRow]:
    """Let go of a job, which says why; nothing goes on."""
    if job.reason == AWAITED:
        await leases.release(conn, job=job, due_in=_LOOK_AGAIN)
    else:
        detail = "There is no backup that is young enough."
        await leases.advance(
            conn, job=job, to_state="publishing", reason=AWAITED, detail=detail, release=True, due_in=_LOOK_AGAIN
        )
    return []
