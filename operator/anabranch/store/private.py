"""The private overlay of a branch: what its agent knows and nobody else sees.

Writes are conditional on the revision that the writer saw (``If-Match``), so two processes of one agent do not
overwrite each other unseen. A deleted key keeps its row and its revision: a number, once seen, never names another
content.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

from anabranch.model.errors import NotFoundError, PreconditionFailedError
from anabranch.model.limits import PAGE_BYTES
from anabranch.store import queries

if TYPE_CHECKING:
    from datetime import datetime

    from anabranch.store.database import Connection

_sql = queries.load("private")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRow:
    """A private record.

    Attributes:
        revision: 1 at first, one more with each write or deletion of the key in this branch.
        content_hash: Of the body, 32 bytes.
        body: Canonical JSON.
        base_revision: Of the record beneath the overlay that it is based on; 0 for none.
    """

    line: str
    branch_id: str
    key: str
    revision: int
    scope: str
    visibility: Literal["private", "shareable"]
    content_hash: bytes
    body: bytes
    base_revision: int
    updated_at: datetime


_FIELDS: Final = tuple(field.name for field in fields(PrivateRow))


async def get(conn: Connection, *, line: str, branch_id: str, key: str) -> PrivateRow | None:
    """A private record, or None when it is absent or deleted."""
    row = await _sql.get(conn, line=line, branch_id=branch_id, key=key)
    return row and PrivateRow(**row)


async def put(  # noqa: PLR0913  (the columns of a record)
    conn: Connection,
    *,
    line: str,
    branch_id: str,
    key: str,
    scope: str,
    visibility: Literal["private", "shareable"],
    content_hash: bytes,
    body: bytes,
    base_revision: int,
    expected: int | None,
    settle: bool = False,
) -> PrivateRow:
    """Write a private record.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        key: The record's.
        scope: The record's.
        visibility: Whether it may be shared later.
        content_hash: Of the body, 32 bytes.
        body: Canonical JSON.
        base_revision: Of the record beneath that it is based on; kept from the first write on.
        expected: The revision that the writer saw; 0: it must be absent; None: whatever is there.
        settle: Whether it is based on that from now on, whatever it was based on before.

    Raises:
        PreconditionFailedError: If the record is not at the expected revision; ``extra`` has the revision that it is
            at.
    """
    row = await _sql.put(
        conn,
        line=line,
        branch_id=branch_id,
        key=key,
        scope=scope,
        visibility=visibility,
        content_hash=content_hash,
        body=body,
        base_revision=base_revision,
        settle=settle,
        expected=expected,
    )
    if row is None:
        raise _not_as_expected(expected, await get(conn, line=line, branch_id=branch_id, key=key))
    return PrivateRow(**row)


async def delete(conn: Connection, *, line: str, branch_id: str, key: str, expected: int | None) -> int:
    """Delete a private record.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        key: The record's.
        expected: The revision that the writer saw; None: whatever is there.

    Returns:
        The revision of the deletion; a later write goes on from it.

    Raises:
        NotFoundError: If there is none.
        PreconditionFailedError: If it is not at the expected revision.
    """
    revision: int | None = await _sql.delete(conn, line=line, branch_id=branch_id, key=key, expected=expected)
    if revision is None:
        found = await get(conn, line=line, branch_id=branch_id, key=key)
        if found is None:
            raise NotFoundError(f"The branch has no private record {key!r}.", hint="List the branch's records.")
        raise _not_as_expected(expected, found)
    return revision


async def page(
    conn: Connection, *, line: str, branch_id: str, after: str = "", limit: int
) -> tuple[list[PrivateRow], bool]:
    """Private records of a branch by key, beginning after one, up to a size that a process can well hold.

    Args:
        conn: A connection.
        line: The branch's.
        branch_id: The branch.
        after: The last key of the page before.
        limit: How many at most.

    Returns:
        The records, and whether there may be more.
    """
    found = _sql.page(conn, line=line, branch_id=branch_id, after=after, limit=limit, bytes=PAGE_BYTES)
    return await queries.bounded(found, lambda row: PrivateRow(**{name: row[name] for name in _FIELDS}), limit=limit)


def _not_as_expected(expected: int | None, found: PrivateRow | None) -> PreconditionFailedError:
    at = str(found.revision) if found else "0"
    wanted = "be absent" if expected == 0 else f"be at revision {expected}"
    return PreconditionFailedError(
        f"The record should {wanted}, and {f'is at revision {at}' if found else 'is absent'}.",
        hint="Read it again, and repeat the change on what is there now.",
        revision=at,
    )
