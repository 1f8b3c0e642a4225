"""Removes generations: first the manifest, then what only it showed, then content that nothing has any more.

A generation goes with its manifest's row. Forks, pins and restores take hold of that row, so it decides every race
with them: whoever comes first wins, and the other one is told. From then on readers are answered 410, and nobody can
come to see the rows that are left; so they go in pieces, whenever somebody gets to it. Until a generation is *swept*
its name is marked, and what a removed row referred to is noted in the transaction that removes it: whoever dies,
another one goes on.

Versions are not searched for. One that went out of sight with a generation had ended before the next generation that is
kept, so it is found by the version that came after it. Nodes are few, some forty records share one; they are all looked
at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.retention import Standing
from anabranch.store import lines, queries

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("pruning")

LISTED: Final = 5
"""Manifests that a Baseline's status lists."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Removed generations between two kept ones, whose rows are not swept yet.

    Attributes:
        after: The oldest of them: what only they showed ended later than here,
        through: and not later than here, the next generation that is kept.
        generations: All of them.
    """

    after: int
    through: int
    generations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place among a line's nodes, which are in the order of path and generation."""

    path: str = ""
    generation: int = 0


async def standings(conn: Connection, *, line: str, below: int, limit: int) -> list[Standing]:
    """The oldest generations on which nobody stands.

    Args:
        conn: A connection.
        line: The line.
        below: Only generations older than this one.
        limit: How many at most.
    """
    found = _sql.standings(conn, line=line, below=below, limit=limit)
    return await queries.rows(found, lambda row: Standing(row["generation"], row["replaced_at"]))


async def drop(conn: Connection, *, line: str, generations: Collection[int]) -> list[int]:
    """Remove the manifests of generations, but for those on which somebody stands by now; which were removed.

    Args:
        conn: Inside a transaction.
        line: The line.
        generations: Which.
    """
    locked = await queries.rows(_sql.lock(conn, line=line, generations=list(generations)), _generation)
    # Asked again by a statement that begins with the locks held: it sees whoever came first.
    gone = await queries.rows(_sql.drop(conn, line=line, generations=locked), _generation)
    if gone and await _sql.shown(conn, line=line, generation=max(gone), newest=LISTED):
        await lines.touch(conn, line)
    return sorted(gone)


async def unswept(conn: Connection, line: str) -> list[Gap]:
    """Where rows of removed generations are left."""
    return await queries.rows(
        _sql.unswept(conn, line=line), lambda row: Gap(row["after"], row["through"], tuple(row["generations"]))
    )


async def sweep_versions(conn: Connection, *, line: str, after: int, through: int) -> int:
    """Remove the versions that ended in a range of generations and that no manifest shows; how many.

    Args:
        conn: A connection.
        line: The line.
        after: The generation before the range.
        through: Its last generation.
    """
    return int(await _sql.sweep_versions(conn, line=line, after=after, through=through))


async def sweep_tombstones(conn: Connection, *, line: str) -> int:
    """Remove tombstones that were purged (see `tombstones`) and that no manifest shows any more; how many."""
    return int(await _sql.sweep_tombstones(conn, line=line))


async def sweep_nodes(conn: Connection, *, line: str, place: Place, limit: int) -> Place | None:
    """Look at some nodes of the trie, and remove those that no manifest shows.

    Args:
        conn: A connection.
        line: The line.
        place: Where to begin: behind this.
        limit: How many to look at.

    Returns:
        Where to go on; None when that were all.
    """
    row = await _sql.sweep_nodes(conn, line=line, path=place.path, generation=place.generation, limit=limit)
    return None if row is None else Place(row["path"], row["from_generation"])


async def mark_swept(conn: Connection, *, line: str, generations: Collection[int]) -> None:
    """Note that nothing is left of removed generations but their names."""
    await _sql.swept(conn, line=line, generations=list(generations))


async def release(conn: Connection, *, line: str, limit: int) -> bool:
    """Remove contents and provenance that removed rows had and nothing else has; whether there was anything to look at.

    The head is locked for it, as for everything that begins to refer to one of them.

    Args:
        conn: Inside a transaction.
        line: The line.
        limit: How many hashes to look at.
    """
    hashes = await queries.rows(_sql.take_released(conn, line=line, limit=limit), lambda row: bytes(row["hash"]))
    if not hashes:
        return False
    await lines.lock_head(conn, line)
    contents = await queries.rows(
        _sql.lock_contents(conn, line=line, hashes=hashes), lambda row: bytes(row["content_hash"])
    )
    facts = await queries.rows(_sql.lock_facts(conn, line=line, hashes=hashes), lambda row: bytes(row["fact_hash"]))
    # Whether they are used is asked by statements that begin with the locks held.
    await _sql.drop_contents(conn, line=line, hashes=contents)
    await _sql.drop_facts(conn, line=line, hashes=facts)
    return True


async def forget(conn: Connection, *, line: str, before: datetime, limit: int) -> int:
    """Forget what removed manifests that were made before a moment were called; how many."""
    return queries.touched(await _sql.forget(conn, line=line, before=before, limit=limit))


def _generation(row: Any) -> int:
    return int(row["generation"])
