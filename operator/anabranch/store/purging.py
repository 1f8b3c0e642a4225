"""The end of a line: a Baseline was deleted, and its policy says that its data goes too.

A line may be large, so it goes in many short transactions, and whoever works on it may die in between. First, in one
transaction, it is condemned: nobody finds it from then on, nothing of it is consolidated or received, and the
resources that stood on it say so. Then its rows go, table by table, in pieces; the row of the line is the last one, so
that what is not finished is found again. Several processes may do it at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from anabranch.store import lines, queries

if TYPE_CHECKING:
    from datetime import timedelta

    from anabranch.store.database import Connection, Database

_sql: Final = queries.load("purging")

BASELINE_DELETED: Final = "BaselineDeleted"
"""Why the resources of branches and jobs of a condemned line are stalled for good."""

_ROWS: Final = 5_000
_FEW: Final = 100
"""Rows at once of tables whose rows may have megabytes."""

_TABLES: Final = {
    # Those that refer to others first. What a reader joins goes before what it reads, so that none sees a part.
    "publications": _ROWS,
    "recall_holds": _ROWS,
    "reviews": _ROWS,
    "merges": _ROWS,
    "drafts": _FEW,
    "transitions": _ROWS,
    "likenesses": _ROWS,
    "candidates": _ROWS,
    "proposals": _ROWS,
    "jobs": _ROWS,
    "completions": _ROWS,
    "batches": _FEW,
    "evidence": _FEW,
    "kv_records": _FEW,
    "kv_checkpoints": _ROWS,
    "kv_namespaces": _ROWS,
    "private_records": _ROWS,
    "presence": _ROWS,
    "followers": _ROWS,
    "checkpoints": _ROWS,
    "rebases": _ROWS,
    "agent_outbox": _ROWS,
    "branches": _ROWS,
    "restores": _ROWS,
    "archive_chunks": _FEW,
    "archives": _ROWS,
    "manifests": _ROWS,
    "pruned_manifests": _ROWS,
    "events": _ROWS,
    "search_vectors": _FEW,
    "search_segments": _ROWS,
    "search_documents": _ROWS,
    "search_words": _FEW,
    "search_progress": _ROWS,
    "quality_counts": _ROWS,
    "quality_progress": _ROWS,
    "recall_results": _FEW,
    "recall_gates": _FEW,
    "derivations": _ROWS,
    "derivation_progress": _ROWS,
    "retractions": _ROWS,
    "backups": _ROWS,
    "backup_turns": _ROWS,
    "record_versions": _ROWS,
    "trie_nodes": _ROWS,
    "contents": _ROWS,
    "facts": _ROWS,
    "released_hashes": _ROWS,
    "import_base": _ROWS,
}
"""How many rows of each table go in one transaction, in the order in which they can go."""

_IN_THE_WAY: Final = (asyncpg.ForeignKeyViolationError, asyncpg.DeadlockDetectedError)
"""What work that began before the line was condemned may lead to: the next round finds it ended."""

TABLES: Final = frozenset({*_TABLES, "lines", "line_heads", "line_scopes"})
"""All tables that a line has rows in."""


@dataclass(frozen=True, slots=True)
class Condemned:
    """A line that is to go, and the Baseline that it was."""

    line: str
    namespace: str
    name: str


async def condemn(conn: Connection, *, uid: str, namespace: str, name: str) -> str | None:
    """Give up the line that a Baseline stands for, once and for all.

    Its live branches expire, so that no batch is acknowledged any more that would go with them; the resources of its
    branches and jobs are stalled. Needs a transaction.

    Args:
        conn: Inside a transaction.
        uid: ``metadata.uid`` of the Baseline: a line that another one stands for by now is not meant.
        namespace: Of the Baseline.
        name: Of the Baseline.

    Returns:
        The line, also when it was condemned before and is not gone yet; None: there is none.
    """
    line: str | None = await _sql.line_of(conn, uid=uid, namespace=namespace, name=name)
    if line is None:
        return None
    await lines.lock_head(conn, line)
    if await _sql.condemn(conn, line=line) is None:
        return line
    await _sql.pause(conn, line=line)
    message = farewell(namespace, name)
    await _sql.stall_branches(conn, line=line, reason=BASELINE_DELETED, message=message)
    await _sql.stall_jobs(conn, line=line, reason=BASELINE_DELETED, message=message)
    await _sql.end_branches(conn, line=line)
    await _sql.end_jobs(conn, line=line)
    return line


def farewell(namespace: str, name: str) -> str:
    """What the resources of a Baseline's branches and jobs say once it was deleted with its data."""
    return (
        f"The Baseline {namespace}/{name} was deleted together with its data, as its deletionPolicy said."
        " Nothing is left of this: delete the resource too."
    )


async def stands(conn: Connection, *, line: str) -> bool:
    """Whether a line is there and not condemned."""
    found: bool = await _sql.stands(conn, line=line)
    return found


async def claim(conn: Connection, *, hold: timedelta) -> Condemned | None:
    """Take a condemned line of any Baseline; nobody else is given it for a while.

    Args:
        conn: A connection.
        hold: For how long. It is only to save work: it does no harm if others join in.
    """
    row = await _sql.claim(conn, hold=hold)
    return None if row is None else Condemned(**row)


async def purge(db: Database, *, line: str) -> None:
    """Delete all that is left of a condemned line. May be cancelled at any time, and begun again.

    Args:
        db: The database.
        line: A line that was condemned.
    """
    while not await _bury(db, line):
        for table, rows in _TABLES.items():
            while await _delete(db, line=line, table=table, rows=rows) == rows:
                pass


async def _delete(db: Database, *, line: str, table: str, rows: int) -> int:
    """Delete up to so many rows of one table; how many there were."""
    try:
        async with db.connection() as conn:
            return queries.touched(await getattr(_sql, f"delete_{table}")(conn, line=line, limit=rows))
    except _IN_THE_WAY:
        return 0  # something came in that refers to them, begun before the line was condemned: the next round has it


async def _bury(db: Database, line: str) -> bool:
    """Delete the line's own rows, if nothing else is left of it; whether it is gone."""
    try:
        async with db.transaction() as conn:
            if await _sql.lock(conn, line=line) is None:
                return True
            # Whoever writes where no foreign key leads to the line does so under the head's lock.
            for table, rows in _TABLES.items():
                if queries.touched(await getattr(_sql, f"delete_{table}")(conn, line=line, limit=rows)):
                    return False
            await _sql.delete_line(conn, line=line)
    except _IN_THE_WAY:
        return False
    return True
