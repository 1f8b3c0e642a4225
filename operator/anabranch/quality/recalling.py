"""What generations answer: measured before a publication by the gate, and here for all others, after the fact.

A first import, a restore, a retraction, a purge, what an older program published during an upgrade, a gate that was
just declared: none of them waits to be measured. What is missing follows from the lines' heads, so nothing is queued,
and who dies while measuring leaves it to the next.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.domain import recall
from anabranch.quality.measuring import measure
from anabranch.store import lines
from anabranch.store import recall as store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.domain.recall import Change, Outcome
    from anabranch.model.recall import RecallTask
    from anabranch.store.database import Connection, Database
    from anabranch.store.recall import Result, Unmeasured

EVERY: Final = timedelta(seconds=30)
"""A line is not measured more often after the fact."""


async def turn(db: Database, *, every: timedelta = EVERY) -> bool:
    """Measure one generation that nobody has; whether there was one.

    Raises:
        UnavailableError: If it is not indexed yet, or the database cannot be reached.
    """
    async with db.connection() as conn:
        found = await store.unmeasured(conn, every=every)
        if found is None:
            return False
        await store.turned(conn, line=found.line)
        tasks = await read(conn, line=found.line, digest=found.digest)
    if tasks:
        await _measure(db, found, tasks)
    return True


async def read(conn: Connection, *, line: str, digest: bytes) -> list[RecallTask]:
    """The questions of a Baseline; none if its set is another one by now.

    Args:
        conn: A connection.
        line: The line.
        digest: Of the set that is meant, 32 bytes.
    """
    body = await store.tasks(conn, line=line, digest=digest)
    return [] if body is None else await asyncio.to_thread(recall.parse, body, name="the set")


def summed(outcomes: Sequence[Outcome], *, digest: bytes, k: int, against: int | None, change: Change | None) -> Result:
    """The result of a generation, as it is kept.

    Args:
        outcomes: Of all tasks of the set.
        digest: Of the set, 32 bytes.
        k: How many hits count.
        against: The generation that the change is from.
        change: The change of recall; None: there is nothing to compare with.

    Raises:
        ValueError: If no task counts.
    """
    part = recall.report(outcomes, k=k).all
    if part is None:
        raise ValueError("no task counts for recall")
    return store.Result(
        digest=digest,
        k=k,
        tasks=part.tasks,
        recall=part.recall,
        recall_at_1=part.recall_at_1,
        mrr=part.mrr,
        against=against if change is not None else None,
        change=change.mean if change is not None else None,
        low=change.low if change is not None else None,
        high=change.high if change is not None else None,
        worse=change.worse if change is not None else (),
    )


async def _measure(db: Database, found: Unmeasured, tasks: Sequence[RecallTask]) -> None:
    outcomes, _ = await measure(db, line=found.line, generation=found.generation, tasks=tasks, k=found.k)
    after = recall.recalls(outcomes, k=found.k)
    async with db.connection() as conn:
        earlier = await store.recalls(conn, line=found.line, before=found.generation, digest=found.digest, k=found.k)
    against, before = earlier or (None, {})
    change = await asyncio.to_thread(recall.compare, before, after)
    result = summed(outcomes, digest=found.digest, k=found.k, against=against, change=change)
    async with db.transaction() as conn:
        await store.write(conn, line=found.line, generation=found.generation, result=result, recalls=after)
        await lines.touch(conn, found.line)
    db.notify("status")
