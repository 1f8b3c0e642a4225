"""Publication: accepted candidates become a generation, in one transaction, once per job.

Everything slow comes before the lock: grants, the plan, the trie's new nodes. Under the lock it is only checked that
the head is still the one that was planned for; if another publication came in between, all is planned again. Each job's
fence, its row in ``publications`` and its last state are part of the same transaction, so a worker that died, or was
thought dead, can neither publish twice nor half. Several jobs may share a generation (see `gathering`); one of them
that is somebody else's by now, or whose reviews have changed, makes the others plan again without it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.backup import gate
from anabranch.consolidation import gating, holding, planning, withdrawing, written
from anabranch.consolidation.outcomes import counts
from anabranch.model.errors import UnavailableError
from anabranch.store import (
    batches,
    candidates,
    database,
    jobs,
    leases,
    lines,
    outbox,
    publications,
    publish,
    recall,
    retractions,
    reviews,
)
from anabranch.telemetry import tracing
from anabranch.telemetry.of_operator import CHANGES, GROUPS, LATENCY, LOCK_HELD, PUBLICATIONS, REPLANS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.consolidation.gathering import Outcome
    from anabranch.consolidation.planning import Group, Share
    from anabranch.consolidation.services import Services
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.manifests import ManifestRow

_log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 10

LARGE: Final = 1_000
"""Changes from which a generation is written before the head's lock, in which it would take a second and more."""


class _PausedError(Exception):
    """The line was paused between the claim and the lock."""


class _LostError(Exception):
    """Some of the jobs are held by others."""

    def __init__(self, lost: list[JobRow]) -> None:
        super().__init__()
        self.lost = lost


class _ReviewsChangedError(Exception):
    """Reviewers have said something since the plan was made."""


_AGAIN: Final = (publish.HeadMovedError, _ReviewsChangedError, *database.LOST_RACES)


async def publish_accepted(services: Services, job: JobRow) -> JobRow | None:
    """Publish what was accepted in a job, together with other jobs of its line that are ready.

    Returns:
        The job if it goes on otherwise; None if it is published, or waits for a review again because all its records
        moved, or for its line to resume, or for a backup.

    Raises:
        UnavailableError: If other publications kept coming in between.
        FencedError: If the job is somebody else's by now; nothing of it was written.
    """
    # Whoever publishes it, perhaps with others, goes on from here.
    traced = replace(job, traceparent=tracing.handed_on() or job.traceparent)
    return await services.gathering.publish(traced, lambda group, outcomes: publish_together(services, group, outcomes))


async def publish_together(services: Services, group: Sequence[JobRow], outcomes: dict[str, Outcome]) -> None:
    """Publish what was accepted in some jobs of a line, as one generation.

    Args:
        services: The parts.
        group: The jobs, held by this process.
        outcomes: Is given, by job id, the outcome of the first and of the others that fit to it.

    Raises:
        AnabranchError: If the jobs without an outcome cannot be published; nothing of them was.
    """
    began = time.perf_counter()
    group = await gate.let_through(services.db, group, outcomes)
    for _ in range(_ATTEMPTS):
        left = [job for job in group if job.job_id not in outcomes]
        if not left:
            return
        try:
            decided = await planning.decide(services, left)
        except publish.HeadMovedError:
            REPLANS.inc()
            continue
        outcomes.update(decided.failed)
        await _leave(services, decided, outcomes)
        shares = [share for share in decided.shares if share.published]
        if not shares:
            continue
        try:
            await _publish(services, shares, decided, began=began)
        except _AGAIN:
            REPLANS.inc()
            continue
        except _LostError as error:
            outcomes.update({job.job_id: leases.fenced(job) for job in error.lost})
            continue
        except _PausedError:
            async with services.db.connection() as conn:
                for share in shares:
                    await leases.release(conn, job=share.job, due_in=holding.AT_ONCE)
        outcomes.update(dict.fromkeys((share.job.job_id for share in shares), None))
        return
    raise UnavailableError("Other publications kept coming in between.", hint="It is tried again.")


async def _leave(services: Services, decided: Group, outcomes: dict[str, Outcome]) -> None:
    """See to the jobs that turn out to have nothing to publish."""
    for share in decided.shares:
        if share.published:
            continue
        job_id = share.job.job_id
        try:
            outcomes[job_id] = await holding.leave(
                services,
                share.job,
                decided=share.decided,
                settled=share.settled,
                revision=decided.head.state.head.revision,
            )
        except Exception as error:  # noqa: BLE001  (it is this job's, and must not become another's)
            outcomes[job_id] = error


async def _publish(services: Services, shares: Sequence[Share], decided: Group, *, began: float) -> None:
    """Publish what was planned, and tell of it; or let go of the jobs, if their recall speaks against it."""
    if gating.lacks_tasks(decided, shares):
        await gating.wait_for_tasks(services, shares)
        return
    async with services.db.connection() as conn:
        prepared = await publish.prepare(conn, head=decided.head.state.head, versions=written.versions(decided.plan))
    asked = await gating.ask(services, decided, shares)
    if isinstance(asked, gating.Held):
        await gating.hold(services, shares[0], asked, revision=decided.head.state.head.revision)
        return
    changes = len(prepared.versions)
    with tracing.together("publish generation", [share.job.traceparent for share in shares]) as spans:
        generation = await _write(services, shares, decided, prepared, passed=asked, spans=spans)
        spans.set(line=shares[0].job.line, generation=generation, changes=changes, jobs=len(shares))
    holding.announce(services.db, feed=shares[0].job.line)
    _log.info("published", generation=generation, changes=changes, jobs=len(shares))
    await _tell(services, shares, changes=changes, seconds=time.perf_counter() - began)


async def _write(  # noqa: PLR0913  (what was prepared for it)
    services: Services,
    shares: Sequence[Share],
    decided: Group,
    prepared: publish.Prepared,
    *,
    passed: gating.Passed | None,
    spans: tracing.Together,
) -> int:
    """The transaction that publishes; the generation that it made."""
    own = [share.job for share in shares]
    line = own[0].line
    async with services.db.transaction() as conn:
        # The jobs are ours alone, so this needs no lock: what can be written before it is.
        if decided.added:
            await candidates.insert(conn, decided.added)
        await candidates.save_outcomes(conn, [row for share in shares for row in share.decided])
        generation = prepared.parent.generation + 1
        await outbox.add(
            conn,
            line=line,
            notices=[
                *written.notices(shares, generation=generation),
                *await withdrawing.notices(conn, own, generation=generation),
            ],
        )
        if passed is not None:
            await recall.write(conn, line=line, generation=generation, result=passed.result, recalls=passed.recalls)
        ahead = await publish.write_ahead(conn, prepared=prepared) if len(prepared.versions) >= LARGE else None
        head = await lines.lock_head(conn, line)
        locked = time.perf_counter()
        if head.paused:
            raise _PausedError
        manifest = await publish.write_generation(
            conn,
            head=head,
            prepared=prepared,
            events=written.events(shares, decided.plan, spans),
            origin=written.origin(own),
            ahead=ahead,
        )
        await _check(conn, own, decided)
        if decided.reinstated:
            await retractions.reinstate(conn, line=line, statements=decided.reinstated)
        await _wake_others(conn, own, [write.candidate.key for write in decided.plan.writes])
        for share in shares:
            await _finish(conn, share, manifest)
    LOCK_HELD.observe(time.perf_counter() - locked)
    return manifest.generation


async def _tell(services: Services, shares: Sequence[Share], *, changes: int, seconds: float) -> None:
    """Measure a publication that is done; nothing that goes wrong here is a failure of it."""
    PUBLICATIONS.observe(seconds)
    GROUPS.observe(len(shares))
    CHANGES.observe(changes)
    handed_in = [share.job for share in shares if share.job.origin == "Branch"]
    with contextlib.suppress(UnavailableError):
        async with services.db.connection() as conn:
            ages = await batches.ages(conn, jobs=handed_in) if handed_in else ()
        for age in ages:
            LATENCY.observe(age)


async def _check(conn: Connection, own: Sequence[JobRow], decided: Group) -> None:
    """Make sure that the jobs are ours, and that what was decided about them is what their reviewers say.

    It comes after the generation was written, whose last step locks the line: who writes a job or a review of it waits
    for the jobs' rows from here on.
    """
    held = await leases.hold(conn, jobs=own)
    if lost := [job for job in own if job.job_id not in held]:
        raise _LostError(lost)
    if await reviews.count(conn, line=own[0].line, job_ids=decided.job_ids) != decided.reviews:
        raise _ReviewsChangedError


async def _finish(conn: Connection, share: Share, manifest: ManifestRow) -> None:
    """Note that a job has published its share of a generation."""
    job, moved, generation = share.job, share.moved, manifest.generation
    await publications.record(conn, line=job.line, job_id=job.job_id, generation=generation)
    held_job = await holding.split(conn, job, moved, revision=manifest.revision) if moved else None
    await holding.finished(conn, job)
    await leases.advance(
        conn,
        job=job,
        to_state="published",
        detail=f"{len(share.published)} records in generation {generation}",
        counts=counts([*share.decided, *share.settled], job, held=len(moved)),
        held_job=held_job,
        published_generation=generation,
    )


async def _wake_others(conn: Connection, own: Sequence[JobRow], keys: list[str]) -> None:
    """Have the jobs looked at again whose candidates wait for a decision against a record that has just changed."""
    waiting = {row.job_id for row in await candidates.waiting_on_keys(conn, line=own[0].line, keys=keys)}
    for job_id in sorted(waiting - {job.job_id for job in own}):
        await jobs.wake(conn, line=own[0].line, job_id=job_id)
