"""Batches that came become jobs: one a branch at a time, so that what comes meanwhile goes together into the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.store import batches, completions, openings

if TYPE_CHECKING:
    from anabranch.store.database import Database


async def tell_paused(db: Database, *, limit: int = 100) -> bool:
    """Show what came while consolidation is paused; whether there may be more to show."""
    async with db.connection() as conn:
        told = await batches.tell_paused(conn, limit=limit)
    if told:
        db.notify("status")
    return told == limit


async def make_jobs(db: Database, *, limit: int = 100) -> int:
    """Make a job for each branch that has batches for one, branches at most ``limit``; how many were made.

    Two operators may do so at once: each batch gets into one job all the same. Runs whose last batch came while whoever
    received it died are closed on the way.
    """
    made = 0
    async with db.connection() as conn:
        for found in await batches.unassigned(conn, limit=limit):
            job = await openings.open_automatic(
                conn, line=found.line, branch_id=found.branch_id, namespace=found.namespace
            )
            made += job is not None
        await completions.close_ready(conn, limit=limit)
    if made:
        db.notify("work")
        db.notify("status")
    return made
