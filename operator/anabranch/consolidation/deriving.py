"""Keeps the index of derivations: after the fact, a line at a time, by whichever operator gets to it.

Neither an import nor a publication waits for it (see `anabranch.store.derivations`). Who must know all that was derived
from something, or all that something was derived from, brings the index up to date first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.store import derivations
from anabranch.telemetry import logs

if TYPE_CHECKING:
    from anabranch.store.database import Database


async def turn(db: Database) -> bool:
    """Bring the index of the line whose turn it is on by one step; whether there may be more to do.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    async with db.connection() as conn:
        line = await derivations.next_line(conn)
    if line is None:
        return False
    with logs.bound(line=line):
        try:
            async with db.transaction() as conn:
                await derivations.bring_on(conn, line=line)
        except Exception:
            async with db.connection() as conn:
                await derivations.put_off(conn, line=line)
            raise
    return True


async def catch_up(db: Database, line: str) -> None:
    """Bring the index of a line up to the generation that is the head now.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    more = True
    while more:
        async with db.transaction() as conn:
            more = await derivations.bring_on(conn, line=line)
