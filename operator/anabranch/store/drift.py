"""What Postgres believes of the cluster and is not so: deletions that nobody told, and a cluster that was set back.

A deletion while no operator runs is told to nobody afterwards, so from time to time what is there is compared with what
is believed to be there; whoever does so asks for each single one again before anything follows from it. And a cluster
that was restored from a backup has older specs than were seen of it, and resources that were deleted since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.ids import line_of
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection
    from anabranch.store.waiting import Kind

_sql: Final = queries.load("drift")
_ABSENT: Final[dict[Kind, str]] = {
    "Baseline": "absent_baselines",
    "Branch": "absent_branches",
    "ConsolidationJob": "absent_jobs",
}
_REWIND: Final[dict[Kind, str]] = {
    "Baseline": "rewind_baseline",
    "Branch": "rewind_branch",
    "ConsolidationJob": "rewind_job",
}
_UNCHANGED: Final[dict[Kind, str]] = {"Branch": "unchanged_branches", "ConsolidationJob": "unchanged_jobs"}
_HELD: Final[dict[Kind, str]] = {"Branch": "held_branches", "ConsolidationJob": "held_jobs"}


@dataclass(frozen=True, slots=True)
class Orphan:
    """A row whose resource a list did not show."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Rows of one kind whose resources a list did not show.

    Attributes:
        orphans: They.
        known: How many rows were compared, these among them; 0 where there are none of these.
    """

    orphans: tuple[Orphan, ...]
    known: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """A resource as the cluster has it.

    Attributes:
        id: What its status says is its branch or job.
        uid: Of the resource.
        generation: ``metadata.generation`` of its spec.
    """

    id: str
    uid: str
    generation: int


@dataclass(frozen=True, slots=True)
class Held:
    """What Postgres has for a resource.

    Attributes:
        id: Of the branch or job that is not deleted; None: there is none.
        waits: Whether it waits for something.
    """

    id: str | None = None
    waits: bool = False


async def absent(
    conn: Connection, *, kind: Kind, uids: Sequence[str], before: datetime, namespaces: Sequence[str] = ()
) -> Absent:
    """Compare what Postgres has of a kind with what a list shows.

    Args:
        conn: A connection.
        kind: Of the resources.
        uids: Of all that the list shows.
        before: When the list began, by the database's clock: rows that came since are left out.
        namespaces: Only those in these, as the list; none: everywhere.
    """
    query = getattr(_sql, _ABSENT[kind])
    found = [row async for row in query(conn, uids=list(uids), before=before, namespaces=list(namespaces))]
    orphans = tuple(Orphan(row["namespace"], row["name"], row["uid"]) for row in found)
    return Absent(orphans, found[0]["known"] if found else 0)


async def unchanged(conn: Connection, *, kind: Kind, sightings: Sequence[Sighting]) -> set[str]:
    """The uids of those that Postgres has in the very generation that was seen, not deleted, and not waiting.

    Args:
        conn: A connection.
        kind: Branch or ConsolidationJob.
        sightings: Any number of them; one query asks for all.
    """
    if kind not in _UNCHANGED:
        raise ValueError(f"{kind} is always reconciled: {sorted(_UNCHANGED)} can be compared")
    found = getattr(_sql, _UNCHANGED[kind])(
        conn,
        lines=[line_of(one.id) for one in sightings],
        ids=[one.id for one in sightings],
        uids=[one.uid for one in sightings],
        generations=[one.generation for one in sightings],
    )
    return {row["uid"] async for row in found}


async def held(
    conn: Connection, *, kind: Kind, places: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], Held]:
    """What Postgres has for resources; those for which it has nothing are left out.

    Args:
        conn: A connection.
        kind: Of the resources.
        places: Namespace, name and uid of each; any number of them.
    """
    namespaces, names, uids = ([place[at] for place in places] for at in range(3))
    asked = {"namespaces": namespaces, "names": names, "uids": uids}
    waiting = {row["uid"] async for row in _sql.held_waits(conn, kind=kind, **asked)}
    rows = getattr(_sql, _HELD[kind])(conn, **asked) if kind in _HELD else None
    ids = {row["uid"]: row["id"] async for row in rows} if rows is not None else {}
    found = {place: Held(ids.get(place[2]), waits=place[2] in waiting) for place in places}
    return {place: one for place, one in found.items() if one != Held()}


async def rewind(  # noqa: PLR0913  (what identifies it, and how far it was set back)
    conn: Connection, *, kind: Kind, namespace: str, name: str, uid: str, generation: int
) -> bool:
    """Take note that the spec of a resource was set back: what is older than was seen is the newest there is.

    Args:
        conn: A connection.
        kind: Of the resource.
        namespace: Of the resource.
        name: Of the resource.
        uid: Of the resource.
        generation: ``metadata.generation`` of the spec that is there.

    Returns:
        Whether a newer one had been seen.
    """
    query = getattr(_sql, _REWIND[kind])
    return queries.touched(await query(conn, namespace=namespace, name=name, uid=uid, generation=generation)) > 0


async def take_back_branch(conn: Connection, *, namespace: str, name: str, uid: str) -> bool:
    """Take note that a Branch which was believed to be deleted is there; whether there was one."""
    return queries.touched(await _sql.take_back_branch(conn, namespace=namespace, name=name, uid=uid)) > 0
