"""Leaving validation or review: what is decided goes on, what must wait is split off, in one transaction.

The job that goes on must not carry anything undecided, and the job that waits must not keep anything from going on.
So whenever a job leaves a state with both kinds, the undecided ones move into a job of their own, which begins where
they wait. Candidates keep their ids, so nobody's decision is lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import telling
from anabranch.consolidation.outcomes import counts
from anabranch.store import candidates, jobs, leases, lines, merges, openings, outbox, recall, retractions, reviews

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.consolidation.services import Services
    from anabranch.model.objects import JobState
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow

NOTHING_TO_PUBLISH: Final = "NothingToPublish"

AT_ONCE: Final = timedelta()

_ALL_DECIDED: Final = "all that it was to be made of had been decided when it came"


async def leave(  # noqa: PLR0913  (what the step has found out)
    services: Services,
    job: JobRow,
    *,
    decided: Sequence[CandidateRow],
    settled: Sequence[CandidateRow],
    revision: int,
    known: Collection[str] = (),
    hold: recall.NewHold | None = None,
    why: str = "",
) -> JobRow | None:
    """Save what was decided on a job's candidates, and move the job to where they take it.

    Args:
        services: The parts.
        job: The job, held.
        decided: The candidates that change, as they are to be.
        settled: Its other candidates.
        revision: The line's, as of the head that they were compared with.
        known: Ids of those whose conflict their branch was told of before.
        hold: What the recall gate holds the job for; all that was accepted is waiting then.
        why: What the log says of it.

    Returns:
        The job, held, in ``publishing``; or None when there is nothing more to do now.

    Raises:
        FencedError: If the job is somebody else's by now; nothing was written.
    """
    rows = [*decided, *settled]
    waiting = [row for row in rows if row.state == "waiting"]
    accepted = [row for row in rows if row.state == "accepted"]
    # What the import has refused is settled by now, and nobody has told of it.
    new = rows if job.state == "validating" else decided
    async with services.db.transaction() as conn:
        await candidates.save_outcomes(conn, decided)
        await outbox.add(conn, line=job.line, notices=telling.notices(job, new, known=known))
        if waiting and not accepted:
            await leases.advance(
                conn,
                job=job,
                to_state="awaiting_review",
                reason="AwaitingReview" if hold is None else hold.reason,
                detail=why or f"{len(waiting)} of {len(rows)} candidates wait for a review",
                counts=counts(rows, job),
                release=True,
            )
            if hold is not None:
                await recall.hold(conn, line=job.line, job_id=job.job_id, hold=hold)
            moved = None
            await _wake_if_moved(conn, job, revision=revision)
        else:
            held_job = await split(conn, job, waiting, revision=revision) if waiting else None
            to_state: JobState = "publishing" if accepted else "published"
            moved = await leases.advance(
                conn,
                job=job,
                to_state=to_state,
                reason="" if accepted else NOTHING_TO_PUBLISH,
                detail=f"{len(accepted)} accepted, {len(waiting)} held",
                counts=counts(rows, job, held=len(waiting)),
                held_job=held_job,
            )
            if not waiting:
                # Whoever knocks from here on is told that the job has gone on.
                await merges.void_requested(conn, line=job.line, job_id=job.job_id, detail=_ALL_DECIDED)
            if not accepted:
                await finished(conn, job)
    announce(services.db)
    return moved if accepted else None


def announce(db: Database, *, feed: str | None = None) -> None:
    """After the commit, tell every process to look: for work, for what status shows, and for a line's new events."""
    db.notify("work")
    db.notify("status")
    if feed is not None:
        db.notify(f"feed {feed}")


async def finished(conn: Connection, job: JobRow) -> None:
    """Let those know, in the transaction that ends a job, who wait for what it decides."""
    if job.origin == "Import" or (job.origin == "Held" and job.branch_id is None):
        # The Baseline's condition ImportChanged stands until what its import proposed is decided.
        await lines.set_due(conn, line=job.line, delay=AT_ONCE)
    if job.origin == "Retraction":
        await retractions.settle(conn, line=job.line, job_id=job.job_id)


async def split(conn: Connection, job: JobRow, waiting: Sequence[CandidateRow], *, revision: int) -> str:
    """Move a job's waiting candidates into the job that is split off from it; the name of that one.

    Args:
        conn: Inside the transaction that moves the job on.
        job: The job.
        waiting: Its candidates that wait.
        revision: As for `leave`.

    Raises:
        FencedError: If the job is somebody else's by now.
    """
    held = await openings.open_held(conn, job=job, counts=counts(waiting))
    # That has locked the line's row, which comes before a job's. From here on nobody decides on the candidates in the
    # job that they leave: what was said so far goes along, and who comes later is told that they have gone.
    if not await leases.hold(conn, jobs=[job]):
        raise leases.fenced(job)
    ids = [row.candidate_id for row in waiting]
    await candidates.move(conn, line=job.line, from_job=job.job_id, to_job=held.job_id, candidate_ids=ids)
    said = await reviews.follow(conn, line=job.line, from_job=job.job_id, to_job=held.job_id, candidate_ids=ids)
    written = await merges.follow(conn, line=job.line, from_job=job.job_id, to_job=held.job_id)
    if said or written:
        await jobs.wake(conn, line=held.line, job_id=held.job_id)
    await _wake_if_moved(conn, held, revision=revision)
    return held.name


async def _wake_if_moved(conn: Connection, job: JobRow, *, revision: int) -> None:
    """Have a job looked at again whose candidates were compared with a head that is none any more.

    Whoever publishes wakes those that wait for the records' sake, and locks the line's row before. It is locked here
    too, by what has just put the job where it waits: so either they see it waiting, or it sees here what they did.
    """
    if (await lines.head(conn, job.line)).revision != revision:
        await jobs.wake(conn, line=job.line, job_id=job.job_id)
