"""How much waits, and for how long: the numbers that tell whether the operator keeps up, in one statement."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.store.database import Connection

MANY: Final = 10_000
"""How far due rows and statuses that lag are counted, each queue by itself."""

MOST: Final = 100_000
"""How far batches and candidates are counted."""

BASELINES: Final = 1_000
"""Baselines of which something is told one by one."""

_sql = queries.load("backlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBaseline:
    """What is told of a Baseline.

    Attributes:
        asked: Whether it has a recall gate.
        missing: Whether that has no set of questions.
        recall: Of what readers see; None: not asked yet.
        change: From the generation before; None: that was not asked the same.
        short: Whether it is less than is asked for; None as ``recall``.
        verified: The share of its records; None: not counted, or nobody had to look.
        conflicts: Candidates that contradict a record and wait.
        age: Seconds since the oldest of them waits; 0: there is none.
    """

    namespace: str
    name: str
    asked: bool
    missing: bool
    recall: float | None
    change: float | None
    short: bool | None
    verified: float | None
    conflicts: int
    age: float


async def look(conn: Connection) -> Mapping[str, dict[str, float]]:
    """The numbers, by what they count (see the query) and then by kind, which is empty where there is only one."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    async for row in _sql.look(conn, many=MANY, most=MOST):
        found[row["what"]][row["kind"]] = row["value"]
    return found


async def baselines(conn: Connection) -> list[OfBaseline]:
    """What is told of Baselines one by one; of the first so many."""
    return await queries.rows(_sql.baselines(conn, limit=BASELINES), lambda row: OfBaseline(**row))
