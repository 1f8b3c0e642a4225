"""The recall gate before a publication: what the Baseline's questions would find if it were made.

Asked after the plan and before the head's lock, outside transactions, so that it may take its time. Its verdict is
bound to the head and the changes that it was asked about: if the head moves, all is planned, and asked, again.

A publication that answers less than the Baseline allows goes back to its reviewers with the figures and the questions
that it costs. What they decided before they could read that lets nothing through; what they decide afterwards does,
unless it has become worse than they read, or costs other questions. Jobs that fail together are tried one by one, so
that each is held for what it does itself.

A retraction is not held: what is untrue is to go, whoever asks for it. A first import and a restore are none of a job's
publications, and the way out of trouble. All of them are measured afterwards.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.consolidation import holding, telling
from anabranch.consolidation.outcomes import marked, reopened
from anabranch.domain import gate, recall
from anabranch.model.errors import ConflictError
from anabranch.quality import measuring, recalling
from anabranch.quality.measuring import Changed
from anabranch.store import leases
from anabranch.store import recall as store
from anabranch.store.publish import HeadMovedError
from anabranch.telemetry.of_operator import RECALL_GATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.consolidation.planning import Group, Share
    from anabranch.consolidation.services import Services
    from anabranch.domain.gate import Verdict
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.recall import Gate, Hold, Result
    from anabranch.store.reviews import ReviewRow

TASKS_UNAVAILABLE: Final = "RecallTasksUnavailable"

_LOOK_AGAIN: Final = timedelta(seconds=30)
"""A set that comes wakes what waits for it; this is for noises that get lost."""


class GroupFailsError(ConflictError):
    """Jobs that would be published together lower recall too much; each is to be tried by itself."""

    code = "RecallOfGroup"


@dataclass(frozen=True, slots=True)
class Passed:
    """What is known of a publication that the gate lets through.

    Attributes:
        result: What the new generation answers.
        recalls: Recall at k by task.
    """

    result: Result
    recalls: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Held:
    """A publication that the gate does not let through.

    Attributes:
        hold: What is to be noted of it.
        detail: What its reviewers are told.
    """

    hold: store.NewHold
    detail: str


async def ask(services: Services, decided: Group, shares: Sequence[Share]) -> Passed | Held | None:
    """Ask what the recall of a publication would be.

    Args:
        services: The parts.
        decided: The plan.
        shares: The jobs that would publish something.

    Returns:
        None: nobody asks, or the answer holds nothing up and is found afterwards.

    Raises:
        GroupFailsError: If it may not be made, and is of several jobs.
        HeadMovedError: If the Baseline asks something else by now.
        UnavailableError: If the head is not indexed yet, or the database cannot be reached.
    """
    wanted = decided.gate
    if wanted is None or wanted.digest is None or _is_exempt(shares):
        return None
    began = time.perf_counter()
    line, head = wanted.line, decided.head.state.head.head_generation
    async with services.db.connection() as conn:
        tasks = await recalling.read(conn, line=line, digest=wanted.digest)
    if not tasks:
        raise HeadMovedError("The Baseline asks other questions by now.", hint="Plan again.")
    changes = [
        Changed(
            key=write.candidate.key,
            scope=write.candidate.scope,
            content_hash=write.candidate.content_hash,
            removed=write.candidate.op == "tombstone",
        )
        for write in decided.plan.writes
    ]
    outcomes = await measuring.measure(
        services.db, line=line, generation=head, tasks=tasks, k=wanted.k, changes=changes
    )
    before, after = (recall.recalls(some, k=wanted.k) for some in outcomes)
    verdict = await asyncio.to_thread(gate.decide, before, after, wanted.bounds)
    told = decided.holds.get(shares[0].job.job_id) if len(shares) == 1 else None
    overruled = verdict.reason is not None and told is not None and _is_known(verdict, told)
    passed = verdict.reason is None or overruled
    way = "overruled" if overruled else "passed" if passed else "held" if len(shares) == 1 else "apart"
    RECALL_GATE.labels(way).observe(time.perf_counter() - began)
    if passed:
        change = recall.compare(before, after)
        result = recalling.summed(outcomes[1], digest=wanted.digest, k=wanted.k, against=head, change=change)
        return Passed(result, after)
    if len(shares) > 1:
        raise GroupFailsError(f"{len(shares)} jobs together: {verdict.detail}", hint="Each is tried by itself.")
    return Held(_hold(verdict, wanted, head), verdict.detail)


async def hold(services: Services, share: Share, held: Held, *, revision: int) -> None:
    """Give a job back to its reviewers.

    Args:
        services: The parts.
        share: The job, and what would have become of its candidates.
        held: What the gate said.
        revision: The line's, as of the head that was planned against.

    Raises:
        FencedError: If the job is somebody else's by now; nothing was written.
    """
    told = f"{held.detail}; accept it again, saying why, to publish it all the same"
    decided = [
        marked(row, "waiting", held.hold.reason, told) if row.state == "published" else row for row in share.decided
    ]
    changed, rest = reopened(decided, share.settled)
    await holding.leave(
        services,
        share.job,
        decided=changed,
        settled=rest,
        revision=revision,
        known=telling.in_conflict(row for row in decided if row.reason in gate.REASONS),
        hold=held.hold,
        why=held.detail,
    )


def lacks_tasks(decided: Group, shares: Sequence[Share]) -> bool:
    """Whether a publication has to wait for the set of questions."""
    return decided.gate is not None and decided.gate.digest is None and not _is_exempt(shares)


async def wait_for_tasks(services: Services, shares: Sequence[Share]) -> None:
    """Let go of jobs until there is a set of questions; said once in each job's log."""
    async with services.db.connection() as conn:
        for share in shares:
            if share.job.reason == TASKS_UNAVAILABLE:
                await leases.release(conn, job=share.job, due_in=_LOOK_AGAIN)
                continue
            await leases.advance(
                conn,
                job=share.job,
                to_state=share.job.state,
                reason=TASKS_UNAVAILABLE,
                detail="There is no set of questions that spec.recall could be decided by.",
                release=True,
                due_in=_LOOK_AGAIN,
            )
    holding.announce(services.db)


async def heard(conn: Connection, *, line: str, job_ids: Sequence[str]) -> tuple[Gate | None, dict[str, Hold]]:
    """What a Baseline asks of its recall, and what some jobs were held for. Where it asks nothing, nothing is held."""
    wanted = await store.gate(conn, line=line)
    return wanted, await store.holds(conn, line=line, job_ids=job_ids) if wanted is not None else {}


def is_heard(decision: ReviewRow, holds: Mapping[str, Hold]) -> bool:
    """Whether a decision counts: it was made knowing what its job was last held for, if it was."""
    return decision.job_id not in holds or holds[decision.job_id].is_known_to(decision)


def is_held(row: CandidateRow) -> bool:
    """Whether a candidate waits because the gate held it."""
    return row.state == "waiting" and row.reason in gate.REASONS


def _is_known(verdict: Verdict, told: Hold) -> bool:
    return verdict.is_within(told.recall, told.change, told.failing)


def _is_exempt(shares: Sequence[Share]) -> bool:
    return any(share.job.origin == "Retraction" for share in shares)


def _hold(verdict: Verdict, wanted: Gate, head: int) -> store.NewHold:
    if verdict.reason is None or wanted.digest is None:
        raise ValueError("nothing is held")
    return store.NewHold(
        reason=verdict.reason,
        generation=head,
        digest=wanted.digest,
        k=wanted.k,
        recall=verdict.recall,
        change=verdict.mean,
        low=verdict.low,
        high=verdict.high,
        failing=verdict.failing,
    )
