"""Retention: what no promise of ``spec.retention`` covers is removed, a line at a time, in short transactions.

A line's turn comes every few minutes. It does no more than so much, and says so when there is more, so that a line with
much to remove does not keep the others waiting. Each step finds what is to be done in the database and is whole or not
done at all: a turn may die anywhere, be repeated, or run in two processes at once.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.domain.retention import RetentionPolicy, droppable, oldest_counted
from anabranch.model.errors import GoneError
from anabranch.store import database, derivations, indexing, lines, pruning, publish, reclaiming, retention, tombstones
from anabranch.telemetry import logs
from anabranch.telemetry.of_operator import RETENTION_TURNS

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Database

_HOLD: Final = timedelta(minutes=10)
"""How long a line is nobody else's. A turn may take longer; two at once do no harm."""

_ARCHIVE_IMPORTED: Final = timedelta(hours=1)
"""How long an archive is kept once it is imported: another operator may be reading it still."""

_ARCHIVE_UPLOADED: Final = timedelta(days=7)
"""How long one is kept that nobody imports; after that it has to be uploaded again."""

# How much a turn does at most,
_GENERATIONS: Final = 500
_RUNS: Final = 50
_JOBS: Final = 200
_EVENT_STEPS: Final = 50
_RELEASE_STEPS: Final = 200
# and a transaction.
_SWEPT_GENERATIONS: Final = 20
_NODES: Final = 2_000
_DERIVATIONS: Final = 2_000
_EVENTS: Final = 2_000
_HASHES: Final = 500
_NAMES: Final = 2_000


async def turn(db: Database) -> bool:
    """Take up the line that is due, if one is, and do what is to be done; whether one was.

    Raises:
        UnavailableError: If the database cannot be reached; the line comes up again.
    """
    async with db.connection() as conn:
        claim = await retention.claim(conn, hold=_HOLD)
    if claim is None:
        return False
    policy = RetentionPolicy.parse(claim.policy.get("retention") or {})
    began, outcome = time.perf_counter(), "failed"
    try:
        with logs.bound(line=claim.line):
            more = await retain(db, line=claim.line, policy=policy)
        outcome = "more" if more else "done"
    finally:
        RETENTION_TURNS.labels(outcome).observe(time.perf_counter() - began)
    async with db.connection() as conn:
        await retention.settle(conn, claim=claim, pause=timedelta() if more else policy.pause)
    return True


async def retain(db: Database, *, line: str, policy: RetentionPolicy) -> bool:
    """Remove what no promise covers, up to so much; whether there is more.

    Args:
        db: The database.
        line: The line.
        policy: The promises.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    async with db.connection() as conn:
        now = await database.now(conn)
    more = [
        await _events(db, line, now - policy.events),
        await _tombstones(db, line, policy, now),
        await _generations(db, line, policy, now),
        await _runs(db, line, now - policy.completed_runs),
        await _jobs(db, line, policy, now),
    ]
    # What those have left, or a turn that died.
    await _sweep(db, line)
    more.append(await _release(db, line))
    async with db.transaction() as conn:
        await retention.be_patient(conn)
        await retention.drop_archives(
            conn, line=line, imported_before=now - _ARCHIVE_IMPORTED, uploaded_before=now - _ARCHIVE_UPLOADED
        )
        await pruning.forget(conn, line=line, before=now - policy.memory, limit=_NAMES)
    return any(more)


async def _events(db: Database, line: str, before: datetime) -> bool:
    """Shorten the feed."""
    for _ in range(_EVENT_STEPS):
        async with db.transaction() as conn:
            if await retention.prune_events(conn, line=line, before=before, limit=_EVENTS) < _EVENTS:
                return False
    return True


async def _tombstones(db: Database, line: str, policy: RetentionPolicy, now: datetime) -> bool:
    """Publish a generation without the tombstones that have been kept long enough."""
    try:
        async with db.connection() as conn:
            planned = await tombstones.plan(
                conn, line=line, overdue=now - policy.overdue, expired=now - policy.tombstones
            )
        if planned is None:
            return False
        async with db.transaction() as conn:
            await tombstones.purge(conn, planned=planned)
    except (GoneError, publish.HeadMovedError, publish.RestoreUnderWayError):
        return True  # somebody has published meanwhile, or is about to
    db.notify("status")
    return len(planned.keys) == tombstones.KEYS


async def _generations(db: Database, line: str, policy: RetentionPolicy, now: datetime) -> bool:
    """Remove the manifests that go; readers and forks are refused from then on."""
    async with db.connection() as conn:
        head = await lines.head(conn, line)
        found = await pruning.standings(conn, line=line, below=oldest_counted(head, policy), limit=_GENERATIONS)
    chosen = droppable(found, places=head, policy=policy, now=now)
    if chosen:
        async with db.transaction() as conn:
            await pruning.drop(conn, line=line, generations=chosen)
        db.notify("status")
    return len(chosen) == _GENERATIONS


async def _sweep(db: Database, line: str) -> None:
    """Remove the versions and nodes that went out of sight with their manifests, and derivations that ended so."""
    async with db.connection() as conn:
        gaps = await pruning.unswept(conn, line)
    if not gaps:
        return
    for gap in gaps:
        for after in range(gap.after, gap.through, _SWEPT_GENERATIONS):
            async with db.transaction() as conn:
                await retention.be_patient(conn)
                through = min(after + _SWEPT_GENERATIONS, gap.through)
                await pruning.sweep_versions(conn, line=line, after=after, through=through)
    async with db.connection() as conn:
        await pruning.sweep_tombstones(conn, line=line)
    place: pruning.Place | None = pruning.Place()
    while place is not None:
        async with db.connection() as conn:
            place = await pruning.sweep_nodes(conn, line=line, place=place, limit=_NODES)
    derived: derivations.Place | None = derivations.Place()
    while derived is not None:
        async with db.connection() as conn:
            derived = await derivations.sweep(conn, line=line, place=derived, limit=_DERIVATIONS)
    async with db.transaction() as conn:
        swept = [generation for gap in gaps for generation in gap.generations]
        await pruning.mark_swept(conn, line=line, generations=swept)
        await indexing.recount(conn, line=line)


async def _runs(db: Database, line: str, before: datetime) -> bool:
    """Remove what runs have brought that are over."""
    async with db.connection() as conn:
        ended = await reclaiming.ended_runs(conn, line=line, before=before, limit=_RUNS)
    for branch_id in ended:
        async with db.transaction() as conn:
            await reclaiming.leave(conn, line=line, branch_id=branch_id, before=before)
    async with db.connection() as conn:
        leaving = await reclaiming.leaving(conn, line=line, limit=_RUNS)
    for run in leaving:
        more = True
        while more:
            async with db.transaction() as conn:
                more = await reclaiming.empty_run(conn, line=line, run=run)
    return _RUNS in (len(ended), len(leaving))


async def _jobs(db: Database, line: str, policy: RetentionPolicy, now: datetime) -> bool:
    """Remove what finished jobs have left: candidates where no run stands for them, logs, and rows in the end."""
    async with db.connection() as conn:
        branchless = await reclaiming.branchless_jobs(conn, line=line, before=now - policy.completed_runs, limit=_JOBS)
        await reclaiming.leave_jobs(conn, line=line, job_ids=branchless)
    more = bool(branchless)
    while more:
        async with db.transaction() as conn:
            more = await reclaiming.empty_jobs(conn, line=line, job_ids=branchless)
    async with db.connection() as conn:
        logged = await reclaiming.logged_jobs(conn, line=line, before=now - policy.jobs, limit=_JOBS)
    more = bool(logged)
    while more:
        async with db.transaction() as conn:
            more = await reclaiming.drop_logs(conn, line=line, job_ids=logged)
    async with db.transaction() as conn:
        more = await reclaiming.drop_rows(conn, line=line)
    return more or _JOBS in (len(branchless), len(logged))


async def _release(db: Database, line: str) -> bool:
    """Remove contents and provenance that nothing has any more."""
    for _ in range(_RELEASE_STEPS):
        async with db.transaction() as conn:
            if not await pruning.release(conn, line=line, limit=_HASHES):
                return False
    return True
