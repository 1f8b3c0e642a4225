"""What a Baseline's source said at first: the base against which a changed source is compared, for good.

Generation 1 is the first import, and as long as its version of a record is there, that version tells. When retention
removes the version it leaves the hash of what it said, which is all that a comparison needs: content that was deleted
does not live on here. What later imports said is told by their candidates (`candidates.import_changes`), and once those
are removed by the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from anabranch.store.database import Connection

_sql: Final = queries.load("import_base")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """What the first import said of a key.

    Attributes:
        key: The record's key.
        scope: Where it was visible.
        content_hash: SHA-256 of the content's canonical bytes.
        revision: The line's revision that it was published as.
    """

    key: str
    scope: str
    content_hash: bytes
    revision: int


async def page(conn: Connection, *, line: str, after: str, limit: int) -> list[ImportedRow]:
    """What the first import said, in the order of the keys (by code point).

    Args:
        conn: A connection.
        line: The line.
        after: The last key of the page before; empty for the first page.
        limit: How many at most. Fewer come only at the end.
    """
    return await queries.rows(_sql.page(conn, line=line, after=after, limit=limit), lambda row: ImportedRow(**row))
