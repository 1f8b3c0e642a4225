"""Rebases: a run that goes on is given another parent, and how it came there is noted.

It is one transaction: the foreign key of live runs decides a race with a prune, and whoever dies in it has moved
nothing. What the run keeps for itself stays byte for byte. Only what it is based on moves with the parent, and only
where the two say the same: what the new parent contradicts stays based on what its agent has seen, so that it stays a
conflict until the agent has settled it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import lines, manifests, queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

SHOWN: Final = 5
"""Earlier parents that are told of, the newest ones."""

Outcome: TypeAlias = Literal["moved", "there", "over", "outdated"]

_sql: Final = queries.load("rebases")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebaseRow:
    """What a run stood on before it was rebased.

    Attributes:
        ordinal: Its place among those of its branch, from 1.
        from_manifest_hash: 32 bytes.
        conflicts: Private records that the next parent contradicted, as far as the agent could read it.
        at: When.
    """

    ordinal: int
    from_generation: int
    from_baseline_id: str
    from_manifest_hash: bytes
    to_generation: int
    conflicts: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRow:
    """A private record that is based on another revision than a manifest shows, and says something else.

    Attributes:
        revision: Of the private record.
        base_revision: That it is based on; 0 for none.
        target_revision: What the manifest shows; None: no such record, or none that the agent may read.
    """

    key: str
    scope: str
    revision: int
    content_hash: bytes
    base_revision: int
    target_revision: int | None
    target_scope: str | None
    target_content_hash: bytes | None
    target_fact_hash: bytes | None
    target_tombstone: bool | None


async def rebase(  # noqa: PLR0913  (the run, its wish, and what its agent may read)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    generation: int,
    observed_generation: int,
    scopes: Sequence[str],
) -> Outcome:
    """Let a run stand on another manifest.

    Args:
        conn: Inside a transaction.
        line: The branch's.
        branch_id: The branch.
        generation: The manifest.
        observed_generation: ``metadata.generation`` of the resource that wishes it: one that is older than what was
            seen wishes nothing any more.
        scopes: Those that the agent may read: nothing follows from records elsewhere.

    Returns:
        ``moved``; ``there``: it stood there before; ``over``: the run has ended; ``outdated``: by an older resource.

    Raises:
        NotFoundError: If there never was such a manifest.
        GoneError: If it was pruned.
    """
    where = {"line": line, "branch_id": branch_id}
    branch = await _sql.lock(conn, **where)
    if branch is None or branch["observed_generation"] > observed_generation:
        return "outdated"
    if branch["parent_generation"] == generation:
        return "there"
    if branch["phase"] not in ("Active", "Stale"):
        return "over"
    target = await manifests.hold(conn, line=line, generation=generation)
    if target is None:
        head = await lines.head(conn, line)
        raise manifests.missing(generation, head_generation=head.head_generation)
    readable = {**where, "generation": generation, "scopes": list(scopes)}
    await _sql.advance(conn, **readable)
    await _sql.note(conn, **where, to_generation=generation, conflicts=await _sql.count(conn, **readable))
    await _sql.move(
        conn,
        **where,
        generation=generation,
        baseline_id=target.baseline_id,
        manifest_hash=target.manifest_hash,
        observed_generation=observed_generation,
    )
    return "moved"


async def conflicts(  # noqa: PLR0913  (the bounds of a page)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    generation: int,
    scopes: Sequence[str],
    after: str = "",
    limit: int,
) -> list[ConflictRow]:
    """Private records that a manifest contradicts, by key: with another parent, or after a rebase.

    Args:
        conn: A connection, with the manifest resolved in the same snapshot.
        line: The branch's.
        branch_id: The branch.
        generation: The manifest.
        scopes: Those that the agent may read.
        after: A key to begin after.
        limit: How many at most.
    """
    found = _sql.conflicts(
        conn,
        line=line,
        branch_id=branch_id,
        generation=generation,
        scopes=list(scopes),
        after=after,
        limit=limit,
    )
    return await queries.rows(found, lambda row: ConflictRow(**row))


async def lineage(conn: Connection, *, line: str, branch_id: str, limit: int = SHOWN) -> list[RebaseRow]:
    """What a run stood on before, newest first."""
    return await queries.rows(_sql.lineage(conn, line=line, branch_id=branch_id, limit=limit), from_row)


_FIELDS: Final = tuple(RebaseRow.__dataclass_fields__)


def from_row(row: Any) -> RebaseRow:
    """A rebase of a row that has all its columns."""
    return RebaseRow(**{name: row[name] for name in _FIELDS})
