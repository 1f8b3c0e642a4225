"""Publication: accepted candidates become a generation, in one transaction, once per job.

Everything slow comes before the lock: grants, the plan, the trie's new nodes. Under the lock it is only checked that
the head is still the one that was planned for; if another publication came in between, all is planned again. The
fence, the row in ``publications`` and the job's last state are part of the same transaction, so a worker that died,
or was thought dead, can neither publish twice nor half.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import holding, permits
from anabranch.consolidation.outcomes import Head, cited, compared, counts, marked, policy_of, read_head
from anabranch.domain.publication import Announcement, Plan, Room, plan
from anabranch.model.errors import UnavailableError
from anabranch.model.limits import LINE_RECORDS, LINE_SCOPES
from anabranch.store import candidates, database, jobs, leases, lines, manifests, publish

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from anabranch.consolidation.services import Services
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class _Decided:
    """What a publication would do at one head.

    Attributes:
        head: The head.
        plan: The plan.
        decided: The accepted candidates as they are to be after it.
        settled: The job's other candidates.
    """

    head: Head
    plan: Plan[CandidateRow]
    decided: list[CandidateRow]
    settled: list[CandidateRow]


class _PausedError(Exception):
    """The line was paused between the claim and the lock."""


async def publish_accepted(services: Services, job: JobRow) -> JobRow | None:
    """Publish what was accepted in a job.

    Returns:
        None: the job is published, waits for a review again because all its records moved, or for its line to resume.

    Raises:
        UnavailableError: If other publications kept coming in between.
        FencedError: If the job is somebody else's by now; nothing was written.
    """
    for _ in range(_ATTEMPTS):
        decided = await _decide(services, job)
        if not decided.plan.writes:
            return await holding.leave(services, job, decided=decided.decided, settled=decided.settled)
        try:
            async with services.db.connection() as conn:
                prepared = await publish.prepare(conn, head=decided.head.state.head, versions=_versions(decided.plan))
            await _write(services, job, decided, prepared)
        except publish.HeadMovedError:
            continue
        except _PausedError:
            async with services.db.connection() as conn:
                await leases.release(conn, job=job, due_in=holding.AT_ONCE)
            return None
        holding.announce(services.db, feed=job.line)
        return None
    raise UnavailableError("Other publications kept coming in between.", hint="It is tried again.")


async def _decide(services: Services, job: JobRow) -> _Decided:
    """Plan against the head of now."""
    async with services.db.connection() as conn:
        rows = await candidates.of_job(conn, line=job.line, job_id=job.job_id)
        accepted = [row for row in rows if row.state == "accepted"]
        head = await read_head(conn, job.line, accepted)
        room = await _room(conn, head)
        now = await database.now(conn)
    refused = await permits.refusals(services, job, accepted, head.records)
    return await asyncio.to_thread(_planned, job, rows, head, refused=refused, room=room, now=now)


def _planned(  # noqa: PLR0913  (everything that the outcome depends on)
    job: JobRow,
    rows: list[CandidateRow],
    head: Head,
    *,
    refused: Mapping[str, tuple[str, str]],
    room: Room,
    now: datetime,
) -> _Decided:
    """The plan for a job's accepted candidates, and what becomes of each of them by it."""
    policy = policy_of(head.state, job)
    accepted = [row for row in rows if row.state == "accepted"]
    made = plan(
        [row for row in accepted if row.candidate_id not in refused],
        head=head.records,
        facts=head.facts,
        sources={row.key: cited(row, verified_only=policy.require_sources) for row in accepted},
        room=room,
        validated_at=now,
    )
    known = ("AlreadyKnown", "the baseline says so already")
    decided = [
        *(marked(write.candidate, "published") for write in made.writes),
        *(marked(row, "duplicate", *known) for row in made.duplicates),
        *(_moved(row, head) for row in made.moved),
        *(marked(row, "rejected", reason, detail) for row, reason, detail in made.refused),
        *(marked(row, "rejected", *refused[row.candidate_id]) for row in accepted if row.candidate_id in refused),
    ]
    return _Decided(head, made, decided, [row for row in rows if row.state != "accepted"])


async def _write(services: Services, job: JobRow, decided: _Decided, prepared: publish.Prepared) -> None:
    """The transaction that publishes."""
    moved = [row for row in decided.decided if row.state == "waiting"]
    async with services.db.transaction() as conn:
        # The job is ours alone, so this needs no lock: what can be written before it is.
        await candidates.save_outcomes(conn, decided.decided)
        head = await lines.lock_head(conn, job.line)
        if head.paused:
            raise _PausedError
        manifest = await publish.write_generation(
            conn,
            head=head,
            prepared=prepared,
            events=[_event(announcement) for announcement in decided.plan.events],
            origin=_origin(job),
        )
        await publish.record_publication(conn, line=job.line, job_id=job.job_id, generation=manifest.generation)
        held_job = await holding.split(conn, job, moved) if moved else None
        await _wake_others(conn, job, [write.candidate.key for write in decided.plan.writes])
        await holding.finished(conn, job)
        await leases.advance(
            conn,
            job=job,
            to_state="published",
            detail=f"{len(decided.plan.writes)} records in generation {manifest.generation}",
            counts=counts([*decided.decided, *decided.settled], job, held=len(moved)),
            held_job=held_job,
            published_generation=manifest.generation,
        )


async def _wake_others(conn: Connection, job: JobRow, keys: list[str]) -> None:
    """Have the jobs looked at again whose candidates wait for a decision against a record that has just changed."""
    for waiting in {row.job_id for row in await candidates.waiting_on_keys(conn, line=job.line, keys=keys)}:
        if waiting != job.job_id:
            await jobs.wake(conn, line=job.line, job_id=waiting)


async def _room(conn: Connection, head: Head) -> Room:
    """How much the line may grow under its own limits."""
    state = head.state
    limits = state.line.policy.get("limits") or {}
    manifest = await manifests.get(conn, line=state.line.line, generation=state.head.head_generation)
    scopes = frozenset(await lines.scopes(conn, state.line.line))
    return Room(
        records=limits.get("records", LINE_RECORDS) - (manifest.records if manifest else 0),
        scopes=scopes,
        new_scopes=limits.get("scopes", LINE_SCOPES) - len(scopes),
    )


def _moved(row: CandidateRow, head: Head) -> CandidateRow:
    """An accepted candidate whose record changed before it was published."""
    candidate, assessment = compared(row, head)
    reason = assessment.reason or "RecordMoved"
    return marked(
        replace(candidate, conflicting=True), "waiting", reason, "the record changed after the finding was accepted"
    )


def _versions(made: Plan[CandidateRow]) -> list[publish.NewVersion]:
    return [
        publish.NewVersion(
            key=write.candidate.key,
            scope=write.candidate.scope,
            content_hash=write.candidate.content_hash,
            fact_body=write.fact.canonical(),
            tombstone=write.candidate.op == "tombstone",
        )
        for write in made.writes
    ]


def _event(announcement: Announcement) -> publish.NewEvent:
    return publish.NewEvent(
        kind=announcement.kind,
        scope=announcement.scope,
        key=announcement.key,
        revision=announcement.revision,
        content_hash=announcement.content_hash,
        origin_branch=announcement.origin_branch,
    )


def _origin(job: JobRow) -> dict[str, str]:
    """What the manifest says of how it was made."""
    origin = {"kind": "publication", "job_id": job.job_id}
    return origin | ({"branch_id": job.branch_id} if job.branch_id else {})
