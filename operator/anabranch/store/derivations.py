"""Which versions of records cite which: the index over what their provenance says, and the walks along it.

Whoever brings the index of a line on holds the row of its progress, so there is one at a time, and a transaction
brings derivations and progress together: who dies leaves the index as it was. What is asked downstream also looks at
versions that are not in the index yet, where those are few; what is asked upstream wants the index whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from anabranch.domain.lineage import Step
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.domain.lineage import Named
    from anabranch.store.database import Connection

_sql: Final = queries.load("derivations")

FEW: Final = 2_000
"""Versions that are looked at at once by the generation in which they began; more are walked by their keys."""

PAGE: Final = 20_000
"""Versions that a step of a walk looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the derivations of a line are known.

    Attributes:
        line: The line.
        through: Those of all versions that begin up to this generation are known.
        target: Up to where a walk over the keys goes that is under way; not above `through`: there is none.
        walked_key: The last version that the walk has seen: its key,
        walked_generation: and where it begins.
        head_generation: Up to where there is something to look at.
    """

    line: str
    through: int
    target: int
    walked_key: str
    walked_generation: int
    head_generation: int


@dataclass(frozen=True, slots=True)
class Known:
    """How far the derivations of a line are known, and the generation up to which there are any."""

    through: int
    head_generation: int


class Place(NamedTuple):
    """A place among a line's derivations, which are in the order of these."""

    source_key: str = ""
    source_revision: int = 0
    key: str = ""
    revision: int = 0


async def next_line(conn: Connection) -> str | None:
    """The line whose turn it is; None: all are up to date."""
    line: str | None = await _sql.next(conn)
    return line


async def put_off(conn: Connection, *, line: str) -> None:
    """Let other lines come before this one."""
    await _sql.put_off(conn, line=line)


async def known(conn: Connection, *, line: str) -> Known:
    """How far the derivations of a line are known."""
    row = await _sql.known(conn, line=line)
    return Known(0, 0) if row is None else Known(row["through"], row["head_generation"])


async def lag(conn: Connection, *, line: str, progress: Known) -> int:
    """How many versions are not in the index yet; not counted beyond `FEW` and one."""
    late: int = await _sql.lag(conn, line=line, after=progress.through, through=progress.head_generation, limit=FEW + 1)
    return late


async def bring_on(conn: Connection, *, line: str) -> bool:
    """Look at what is new of a line, or at the next part of it if it is much; whether there is more.

    Args:
        conn: Inside a transaction.
        line: The line.
    """
    await _sql.be_patient(conn)
    await _sql.enrol(conn, line=line)
    row = await _sql.take(conn, line=line)
    if row is None:
        return False
    progress = Progress(**row)
    if progress.target <= progress.through:
        head = progress.head_generation
        if head == progress.through:
            return False
        where = {"line": line, "after": progress.through, "through": head}
        if await _sql.lag(conn, **where, limit=FEW + 1) <= FEW:
            await _sql.add_begun(conn, **where)
            await _advance(conn, _at(progress, head))
            return False
        progress = replace(progress, target=head, walked_key="", walked_generation=0)
    last = await _sql.add_walked(
        conn,
        line=line,
        after=progress.through,
        through=progress.target,
        key=progress.walked_key,
        generation=progress.walked_generation,
        limit=PAGE,
    )
    if last is None or last["seen"] < PAGE:
        progress = _at(progress, progress.target)
    else:
        progress = replace(progress, walked_key=last["key"], walked_generation=last["from_generation"])
    await _advance(conn, progress)
    return progress.through < progress.head_generation


async def downstream(  # noqa: PLR0913  (a walk has that many bounds)
    conn: Connection,
    *,
    line: str,
    key: str,
    content_hash: bytes,
    scopes: Sequence[str] | None = None,
    after: int,
    limit: int,
) -> list[Step]:
    """All that was derived from what a key says, over any number of steps; each step once, in no order.

    Args:
        conn: A connection.
        line: The line.
        key: The key.
        content_hash: Of what it says, whichever of its revisions says so.
        scopes: Only through versions in these; None: through all.
        after: The generation up to which the index is known; later versions are looked at, too.
        limit: Steps at most; one more tells that there are more.
    """
    found = _sql.downstream(
        conn,
        line=line,
        key=key,
        content_hash=content_hash,
        scopes=None if scopes is None else list(scopes),
        after=after,
        limit=limit,
    )
    return await queries.rows(found, _step)


async def retracted(conn: Connection, *, line: str, versions: Collection[Named]) -> set[Named]:
    """Those of some versions that were withdrawn, or that were derived from what was.

    Args:
        conn: A connection.
        line: The line, whose derivations are all in the index.
        versions: Key and revision each.
    """
    asked = list(versions)
    found = _sql.retracted(
        conn, line=line, keys=[key for key, _ in asked], revisions=[revision for _, revision in asked]
    )
    return set(await queries.rows(found, lambda row: (row["key"], row["revision"])))


async def sweep(conn: Connection, *, line: str, place: Place, limit: int) -> Place | None:
    """Look at some derivations, and remove those of versions that are gone and that nothing cites any more.

    Args:
        conn: A connection.
        line: The line.
        place: Where to begin: behind this.
        limit: How many to look at.

    Returns:
        Where to go on; None when that were all.
    """
    row = await _sql.sweep(conn, line=line, **place._asdict(), limit=limit)
    return None if row is None else Place(**row)


async def _advance(conn: Connection, progress: Progress) -> None:
    await _sql.advance(
        conn,
        line=progress.line,
        through=progress.through,
        target=progress.target,
        walked_key=progress.walked_key,
        walked_generation=progress.walked_generation,
    )


def _at(progress: Progress, generation: int) -> Progress:
    return replace(progress, through=generation, target=generation, walked_key="", walked_generation=0)


def _step(row: Any) -> Step:
    return Step(
        source=(row["source_key"], row["source_revision"]), version=(row["key"], row["revision"]), scope=row["scope"]
    )
