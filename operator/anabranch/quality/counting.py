"""Keeps the counters of quality: after the fact, a line at a time, by whichever operator gets to it.

A publication is the one thing that all wait for, so it counts nothing. What is not counted yet follows from the line's
head: a turn reads what the generations since the last one have brought and ended, adds that up, and notes the counters
of each together with how far it has come. So they are exact at the generation that they name, whoever dies when, and
behind the head by half a minute at most.

The sum over the scopes must be the number that the manifest has. Where it is not (retention has removed versions that
nobody had counted yet), or where a turn would read much, the head is counted from its records.
"""

from __future__ import annotations

import time
from collections import defaultdict
from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.domain.facts import Fact
from anabranch.domain.quality import Counts
from anabranch.store import lines, quality, records
from anabranch.telemetry import logs
from anabranch.telemetry.of_operator import QUALITY_TURNS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from anabranch.store.database import Connection, Database
    from anabranch.store.quality import Change, Progress

_log = structlog.get_logger(__name__)

EVERY: Final = timedelta(seconds=30)
"""A line is not counted more often: each time its status is written, beside the one that tells of the publication."""

_MUCH: Final = 50_000
"""Versions from which on a line is counted from its records: an import, a restore, a database from an older release."""


async def turn(db: Database, *, every: timedelta = EVERY) -> bool:
    """Count the line whose turn it is up to its head; whether there was one.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    return await _turn(db, lambda conn: quality.claim(conn, every=every))


async def begin(db: Database, *, namespace: str, name: str) -> None:
    """Count the line of a Baseline, unless that was begun: its first status is to tell of it, too.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    async with db.connection() as conn:
        state = await lines.find(conn, namespace=namespace, name=name)
        if state is None or await quality.begun(conn, line=state.line.line):
            return
    await _turn(db, lambda conn: quality.take(conn, line=state.line.line))


async def _turn(db: Database, take: Callable[[Connection], Awaitable[Progress | None]]) -> bool:
    began = time.perf_counter()
    progress: Progress | None = None
    try:
        async with db.transaction() as conn:
            await quality.be_patient(conn)
            if (progress := await take(conn)) is None:
                return False
            with logs.bound(line=progress.line):
                await _count(conn, progress)
    except Exception:
        QUALITY_TURNS.labels("failed").observe(time.perf_counter() - began)
        if progress is not None:
            async with db.connection() as conn:
                await quality.put_off(conn, line=progress.line)
        raise
    QUALITY_TURNS.labels("done").observe(time.perf_counter() - began)
    db.notify("status")
    return True


async def _count(conn: Connection, progress: Progress) -> None:
    since = progress.since
    if not since or await quality.much(conn, progress, limit=_MUCH) or not await _go_on(conn, progress):
        await _begin(conn, progress)
        since = progress.head_generation
    await quality.advance(conn, progress, since=since)
    await lines.touch(conn, progress.line)


async def _go_on(conn: Connection, progress: Progress) -> bool:
    """Count what has changed; whether that leads to what the head has."""
    of_scope: defaultdict[str, Counts] = defaultdict(Counts)
    of_scope.update(await quality.counts(conn, line=progress.line, generation=progress.through))
    rows: dict[tuple[str, int], Counts] = {}
    changes = await quality.changed(conn, progress)
    for change, counted in await _counted(conn, progress.line, changes):
        of_scope[change.scope].add(counted)
        rows[change.scope, change.generation] = deepcopy(of_scope[change.scope])
    found = sum(counts.records for counts in of_scope.values())
    if found != progress.head_records:
        _log.warning("counters of quality do not add up", counted=found, records=progress.head_records)
        return False
    await quality.write(conn, line=progress.line, rows=rows)
    return True


async def _begin(conn: Connection, progress: Progress) -> None:
    """Count the head from its records."""
    of_scope: defaultdict[str, Counts] = defaultdict(Counts)
    async for some in quality.live(conn, progress):
        for change, counted in await _counted(conn, progress.line, some):
            of_scope[change.scope].add(counted)
    await quality.forget_all(conn, line=progress.line)
    rows = {(scope, progress.head_generation): counts for scope, counts in of_scope.items()}
    await quality.write(conn, line=progress.line, rows=rows)


async def _counted(conn: Connection, line: str, changes: Iterable[Change]) -> list[tuple[Change, Counts]]:
    some = list(changes)
    bodies = await records.facts(conn, line=line, hashes={change.fact_hash for change in some})
    facts = {digest: Fact.parse(body) for digest, body in bodies.items()}
    return [(change, Counts.of(facts[change.fact_hash], change.records)) for change in some]
