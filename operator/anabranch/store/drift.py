"""What Postgres believes of the cluster and is not so: deletions that nobody told, and a cluster that was set back.

A deletion while no operator runs is told to nobody afterwards, so from time to time what is there is compared with what
is believed to be there; whoever does so asks for each single one again before anything follows from it. And a cluster
that was restored from a backup has older specs than were seen of it, and resources that were deleted since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
