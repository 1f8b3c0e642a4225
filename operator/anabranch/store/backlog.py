"""How much waits, and for how long: the numbers that tell whether the operator keeps up, in one statement."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.store.database import Connection

MANY: Final = 10_000
"""How far due rows and statuses that lag are counted, each queue by itself."""

MOST: Final = 100_000
"""How far batches and candidates are counted."""

_sql = queries.load("backlog")


async def look(conn: Connection) -> Mapping[str, dict[str, float]]:
    """The numbers, by what they count (see the query) and then by kind, which is empty where there is only one."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    async for row in _sql.look(conn, many=MANY, most=MOST):
        found[row["what"]][row["kind"]] = row["value"]
    return found
