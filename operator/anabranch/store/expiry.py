"""Resources that have been kept long enough after the end of what they stand for.

How long that is stands in each resource's spec, and when the end was is a time of Postgres' own clock; both are in the
row, so what is due is found by an index, by whichever process leads, however long none did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("expiry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A resource that is to be deleted.

    Attributes:
        id: Of its branch or job.
        observed_generation: ``metadata.generation`` of the spec that this follows from.
        ttl_seconds: What that spec says.
        now: By the database's clock.
    """

    kind: Literal["Branch", "ConsolidationJob"]
    namespace: str
    name: str
    uid: str
    id: str
    observed_generation: int
    ttl_seconds: int
    now: datetime


async def due(
    conn: Connection, *, namespaces: Sequence[str] = (), exclude: Sequence[str] = (), limit: int
) -> list[Expired]:
    """Resources whose time is over.

    Args:
        conn: A connection.
        namespaces: Only those in these; none: everywhere.
        exclude: Ids of branches and jobs that are not wanted now, so that they do not crowd out others.
        limit: At most so many of each kind.
    """
    found = _sql.due(conn, namespaces=list(namespaces), exclude=list(exclude), limit=limit)
    return await queries.rows(found, lambda row: Expired(**row))
