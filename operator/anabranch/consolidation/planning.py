"""What the publication of some jobs would do at one head: decided before the lock, and again when the head has moved.

Jobs that change the same key do not go together: the later one is planned against the record that the earlier one
makes, and what it proposed against the old record goes back to review.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import gating, permits, withdrawing
from anabranch.consolidation.outcomes import Head, cited, compared, marked, policy_of, read_head, reopened
from anabranch.consolidation.reviewing import overruled
from anabranch.domain import lineage
from anabranch.domain.publication import Plan, Room, plan
from anabranch.model.limits import LINE_RECORDS, LINE_SCOPES
from anabranch.store import candidates, database, lines, manifests, publish, retractions, reviews

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from anabranch.consolidation.services import Services
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.recall import Gate, Hold
    from anabranch.store.retractions import Statement
    from anabranch.store.reviews import ReviewRow

GROUP_CHANGES: Final = 2_000
"""Changes of several jobs in a generation at most: many small jobs go together, a large one does not hold them up."""


@dataclass(frozen=True, slots=True)
class Share:
    """What becomes of one job's candidates.

    Attributes:
        job: The job.
        decided: Its accepted candidates as they are to be afterwards, and what is open again because one of them is not
            published.
        settled: Its other candidates.
    """

    job: JobRow
    decided: list[CandidateRow]
    settled: list[CandidateRow]

    @property
    def published(self) -> list[CandidateRow]:
        """Its candidates that become new versions."""
        return [row for row in self.decided if row.state == "published"]

    @property
    def moved(self) -> list[CandidateRow]:
        """Its candidates that wait for a review again."""
        return [row for row in self.decided if row.state == "waiting"]


@dataclass(frozen=True, slots=True)
class Group:
    """What a publication would do at one head.

    Attributes:
        head: The head.
        plan: The plan for all of its jobs.
        shares: What of it is whose, in the jobs' order.
        job_ids: The jobs that it was decided about, those among them that have failed.
        reviews: How many entries these jobs' reviews had then.
        failed: Jobs whose authors' grants could not be asked, with the reason.
        gate: What the Baseline asks of its recall; None: nothing.
        holds: What the jobs were held for by that, by job id.
        added: Candidates that are not stored yet (see `withdrawing.complete`).
        reinstated: What the plan publishes again that was withdrawn.
    """

    head: Head
    plan: Plan[CandidateRow]
    shares: list[Share]
    job_ids: list[str]
    reviews: int
    failed: dict[str, Exception]
    gate: Gate | None = None
    holds: Mapping[str, Hold] = field(default_factory=dict)
    added: Sequence[CandidateRow] = ()
    reinstated: Collection[Statement] = ()


@dataclass(frozen=True, slots=True)
class _Withdrawals:
    """What earlier retractions mean for the candidates of a group.

    Attributes:
        retracted: Source locators that some cite, of what was withdrawn or derived from what was.
        statements: What some say that was withdrawn.
    """

    retracted: Collection[str] = ()
    statements: Collection[Statement] = ()


async def decide(services: Services, jobs: Sequence[JobRow]) -> Group:
    """Plan against the head of now.

    Args:
        services: The parts.
        jobs: Of one line. The first is part of the group, others as far as they fit to it.

    Raises:
        HeadMovedError: If others have published meanwhile, which matters to a retraction.
    """
    line = jobs[0].line
    async with services.db.connection() as conn:
        rows = _fitting(
            {job.job_id: await candidates.of_job(conn, line=line, job_id=job.job_id) for job in _apart(jobs)}
        )
        completed = await withdrawing.complete(conn, jobs[0], rows[jobs[0].job_id])
        rows[jobs[0].job_id] = completed.rows
        # Counted first: a decision that comes between the two is then one too many, and all is planned again.
        count = await reviews.count(conn, line=line, job_ids=list(rows))
        gate, holds = await gating.heard(conn, line=line, job_ids=list(rows))
        latest = await reviews.latest(conn, line=line, job_ids=list(rows))
        decisions = [decision for decision in latest if gating.is_heard(decision, holds)]
        head = await read_head(conn, line, [row for own in rows.values() for row in own if row.state == "accepted"])
        if completed.generation not in (None, head.state.head.head_generation):
            raise publish.HeadMovedError("Others have published while a retraction was completed.", hint="Plan again.")
        room = await _room(conn, head)
        now = await database.now(conn)
        # Read behind the head: whoever withdraws something after this moves that on, and all is planned again.
        withdrawn = await retractions.any_published(conn, line=line)
    withdrawals = await _withdrawals(services, line, rows) if withdrawn else _Withdrawals()
    members = [job for job in jobs if job.job_id in rows]
    refused, failed = await _permits(services, members, rows, head)
    members = [job for job in members if job.job_id not in failed]
    made, shares = await asyncio.to_thread(
        _planned,
        members,
        rows,
        head,
        refused=refused,
        decisions=decisions,
        room=room,
        now=now,
        withdrawals=withdrawals,
        moot=completed.moot,
    )
    said = {
        (write.candidate.key, write.candidate.content_hash) for write in made.writes if write.candidate.mark is None
    }
    return Group(
        head,
        made,
        shares,
        list(rows),
        count,
        failed,
        gate=gate,
        holds=holds,
        added=completed.added,
        reinstated=said.intersection(withdrawals.statements),
    )


def _apart(jobs: Sequence[JobRow]) -> Sequence[JobRow]:
    """The jobs that may go together: a retraction goes alone, since it may have more keys than its candidates say."""
    if jobs[0].origin == "Retraction":
        return jobs[:1]
    return [job for job in jobs if job.origin != "Retraction"]


async def _withdrawals(services: Services, line: str, rows: Mapping[str, Sequence[CandidateRow]]) -> _Withdrawals:
    """What earlier retractions mean for the accepted candidates of some jobs."""
    accepted = [row for own in rows.values() for row in own if row.state == "accepted" and row.mark is None]
    async with services.db.connection() as conn:
        statements = await retractions.withdrawn_among(
            conn, line=line, statements={(row.key, row.content_hash) for row in accepted if row.op == "put"}
        )
    sources = lineage.cited(source["locator"] for row in accepted for source in row.sources)
    found = await withdrawing.withdrawn_sources(services.db, line, set(sources.values()))
    return _Withdrawals({text for text, version in sources.items() if version in found}, statements)


def _fitting(rows: Mapping[str, list[CandidateRow]]) -> dict[str, list[CandidateRow]]:
    """The first job's candidates, and those of the others that have no key in common and do not make it too large."""
    chosen: dict[str, list[CandidateRow]] = {}
    keys: set[str] = set()
    for job_id, own in rows.items():
        accepted = [row.key for row in own if row.state == "accepted"]
        fits = keys.isdisjoint(accepted) and len(keys) + len(accepted) <= GROUP_CHANGES
        # A job that has two candidates for a key cannot be published, which is no other job's trouble.
        if not chosen or (fits and len(set(accepted)) == len(accepted)):
            chosen[job_id] = own
            keys.update(accepted)
            if len(set(accepted)) < len(accepted):
                break
    return chosen


async def _permits(
    services: Services, members: Sequence[JobRow], rows: Mapping[str, list[CandidateRow]], head: Head
) -> tuple[dict[str, tuple[str, str]], dict[str, Exception]]:
    """Which candidates may not be published any more; and the jobs of which that could not be asked."""
    accepted = [[row for row in rows[job.job_id] if row.state == "accepted"] for job in members]
    answers = await asyncio.gather(
        *(permits.refusals(services, job, own, head.records) for job, own in zip(members, accepted, strict=True)),
        return_exceptions=True,
    )
    refused: dict[str, tuple[str, str]] = {}
    failed: dict[str, Exception] = {}
    for job, answer in zip(members, answers, strict=True):
        if isinstance(answer, Exception):
            failed[job.job_id] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            refused |= answer
    return refused, failed


def _planned(  # noqa: PLR0913  (everything that the outcome depends on)
    members: Sequence[JobRow],
    rows: Mapping[str, list[CandidateRow]],
    head: Head,
    *,
    refused: Mapping[str, tuple[str, str]],
    decisions: Sequence[ReviewRow],
    room: Room,
    now: datetime,
    withdrawals: _Withdrawals,
    moot: Mapping[str, CandidateRow],
) -> tuple[Plan[CandidateRow], list[Share]]:
    """The plan for the jobs' accepted candidates, and what becomes of each of them by it."""
    accepted: list[CandidateRow] = []
    stopped: dict[str, CandidateRow] = dict(moot)
    sources: dict[str, Sequence[str]] = {}
    for job in members:
        policy = policy_of(head.state, job)
        own = [row for row in rows[job.job_id] if row.state == "accepted"]
        accepted += own
        thought_better = overruled([row for row in own if row.candidate_id not in stopped], decisions, policy)
        if job.origin == "Retraction":
            thought_better |= withdrawing.overruled(own, thought_better)
        stopped |= thought_better
        sources |= {row.key: cited(row, verified_only=policy.require_sources) for row in own}
    stopped |= {
        row.candidate_id: marked(row, "rejected", *refused[row.candidate_id])
        for row in accepted
        if row.candidate_id in refused
    }
    made = plan(
        [row for row in accepted if row.candidate_id not in stopped],
        head=head.records,
        facts=head.facts,
        sources=sources,
        room=room,
        validated_at=now,
        retracted=withdrawals.retracted,
    )
    known = ("AlreadyKnown", "the baseline says so already")
    outcomes = [
        *(marked(write.candidate, "published") for write in made.writes),
        *(marked(row, "duplicate", *known) for row in made.duplicates),
        *(_moved(row, head) for row in made.moved),
        *(marked(row, "rejected", reason, detail) for row, reason, detail in made.refused),
        *stopped.values(),
    ]
    by_job: defaultdict[str, list[CandidateRow]] = defaultdict(list)
    for row in outcomes:
        by_job[row.job_id].append(row)
    return made, [_share(job, rows[job.job_id], by_job[job.job_id]) for job in members]


def _share(job: JobRow, rows: Sequence[CandidateRow], decided: list[CandidateRow]) -> Share:
    return Share(job, *reopened(decided, [row for row in rows if row.state != "accepted"]))


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
