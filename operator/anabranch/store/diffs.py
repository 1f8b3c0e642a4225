"""What differs between two generations, by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import manifests, queries, records
from anabranch.store.records import RecordRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.store.database import Connection

_sql: Final = queries.load("diffs")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """What one key is in two generations, bodies left out; None where it is absent, or not to be seen."""

    key: str
    before: RecordRow | None
    after: RecordRow | None


async def page(  # noqa: PLR0913  (a page has that many bounds)
    conn: Connection,
    *,
    line: str,
    from_generation: int,
    to_generation: int,
    after_key: str = "",
    limit: int,
    scopes: Sequence[str] | None,
) -> list[DiffRow]:
    """The keys whose revision differs between two generations, either way round, in the order of the keys.

    Args:
        conn: A connection.
        line: The line.
        from_generation: What ``before`` speaks of.
        to_generation: What ``after`` speaks of.
        after_key: The last key of the page before.
        limit: How many at most. Fewer come only at the end.
        scopes: Those to be seen; None for all.

    Raises:
        GoneError: If one of the generations was pruned.
        NotFoundError: If there never was one of them, or the line.
    """
    found = await queries.rows(
        _sql.page(
            conn,
            line=line,
            from_generation=from_generation,
            to_generation=to_generation,
            after_key=after_key,
            scopes=None if scopes is None else list(scopes),
            limit=limit,
        ),
        lambda row: row,
    )
    if not found:
        raise records.no_line()
    for name, generation in (("from_found", from_generation), ("to_found", to_generation)):
        if found[0][name] is None:
            raise manifests.missing(generation, head_generation=found[0]["head_generation"])
    return [DiffRow(row["key"], _side(row, "from"), _side(row, "to")) for row in found if row["key"] is not None]


_HASHED: Final = ("revision", "scope", "content_hash", "fact_hash", "tombstone")


def _side(row: Any, side: str) -> RecordRow | None:
    if row[f"{side}_revision"] is None:
        return None
    return RecordRow(key=row["key"], **{name: row[f"{side}_{name}"] for name in _HASHED})
