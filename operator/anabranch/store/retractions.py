"""Retractions: what somebody asked to be withdrawn, and what came of it.

A row is what the API writes; the job that has it decided is made by the operator, once. What was withdrawn is a
statement: what a key says, whichever of its revisions says so. So it stays withdrawn when the same is written anew with
further sources, or brought back by a restore.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.model.errors import UnavailableError
from anabranch.store import durability, queries

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

_sql: Final = queries.load("retractions")

State: TypeAlias = Literal["requested", "proposed", "published", "rejected", "void", "reinstated"]

Statement: TypeAlias = tuple[str, bytes]
"""What a key says: the key, and the hash of the content, 32 bytes."""

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionRow:
    """A retraction.

    Attributes:
        revision: The one that was named, or that was current when it was asked for.
        scope: Of that revision.
        content_hash: What it says, 32 bytes.
        requested_by: Username of who asked for it.
        state: ``requested`` until it has a job, ``proposed`` until that is decided; then what came of it.
        detail: Why there was nothing to decide (``void``).
        job_id: The job that has it decided.
        generation: The one in which it was withdrawn.
    """

    line: str
    retraction_id: str
    key: str
    revision: int
    scope: str
    content_hash: bytes
    reason: str
    requested_by: str
    requested_at: datetime
    state: State
    detail: str
    job_id: str | None
    generation: int | None
    decided_at: datetime | None


_FIELDS: Final = tuple(field.name for field in fields(RetractionRow))


async def request(  # noqa: PLR0913  (the columns of a retraction)
    conn: Connection,
    *,
    line: str,
    retraction_id: str,
    key: str,
    revision: int,
    scope: str,
    content_hash: bytes,
    reason: str,
    requested_by: str,
) -> RetractionRow:
    """Ask for something to be withdrawn; what is asked for already, and not decided, is not asked for again.

    Raises:
        UnavailableError: If others kept asking for it, and it kept being decided, in between.
    """
    for _ in range(_ATTEMPTS):
        asked = await _sql.request(
            conn,
            line=line,
            retraction_id=retraction_id,
            key=key,
            revision=revision,
            scope=scope,
            content_hash=content_hash,
            reason=reason,
            requested_by=requested_by,
        )
        if asked is not None:
            return _from_row(asked)
        if (known := await _sql.open_of(conn, line=line, key=key, content_hash=content_hash)) is not None:
            await durability.settle(conn)
            return _from_row(known)
    raise UnavailableError("It was being retracted by others at the same moment.", hint="Try again.")


async def get(conn: Connection, *, line: str, retraction_id: str) -> RetractionRow | None:
    """A retraction by its id."""
    row = await _sql.get(conn, line=line, retraction_id=retraction_id)
    return None if row is None else _from_row(row)


async def page(
    conn: Connection, *, line: str, scopes: Sequence[str], before: str = "", limit: int
) -> list[RetractionRow]:
    """Retractions in some scopes, the newest first, older than one."""
    return await queries.rows(_sql.page(conn, line=line, scopes=list(scopes), before=before, limit=limit), _from_row)


async def of_key(conn: Connection, *, line: str, key: str, scopes: Sequence[str]) -> list[RetractionRow]:
    """The retractions of what a key says or said, the newest first."""
    return await queries.rows(_sql.of_key(conn, line=line, key=key, scopes=list(scopes)), _from_row)


async def requested(conn: Connection, *, limit: int) -> list[tuple[str, str]]:
    """Retractions of any line that no job has yet: line and id, the oldest first."""
    return await queries.rows(
        _sql.requested(conn, limit=limit), lambda row: (str(row["line"]), str(row["retraction_id"]))
    )


async def take(conn: Connection, *, line: str, retraction_id: str) -> RetractionRow | None:
    """A retraction that no job has yet; nobody else takes it until the transaction ends. None: somebody has."""
    row = await _sql.take(conn, line=line, retraction_id=retraction_id)
    return None if row is None else _from_row(row)


async def propose(conn: Connection, *, line: str, retraction_id: str, job_id: str) -> None:
    """Note which job has a retraction decided, in the transaction that makes the job."""
    await _sql.propose(conn, line=line, retraction_id=retraction_id, job_id=job_id)


async def void(conn: Connection, *, line: str, retraction_id: str, detail: str) -> None:
    """End a retraction of which there is nothing to decide."""
    await _sql.void(conn, line=line, retraction_id=retraction_id, detail=detail)


async def of_job(conn: Connection, *, line: str, job_id: str) -> RetractionRow | None:
    """The retraction that a job decides."""
    row = await _sql.of_job(conn, line=line, job_id=job_id)
    return None if row is None else _from_row(row)


async def settle(conn: Connection, *, line: str, job_id: str) -> None:
    """Note what a job has decided, in the transaction that ends it: it has published something, or nothing."""
    await _sql.settle(conn, line=line, job_id=job_id)


async def any_published(conn: Connection, *, line: str) -> bool:
    """Whether anything of a line is withdrawn."""
    found: bool = await _sql.any_published(conn, line=line)
    return found


async def withdrawn(conn: Connection, *, line: str, statement: Statement) -> RetractionRow | None:
    """How a statement was withdrawn; None: it was not."""
    key, content_hash = statement
    row = await _sql.withdrawn(conn, line=line, key=key, content_hash=content_hash)
    return None if row is None else _from_row(row)


async def withdrawn_among(conn: Connection, *, line: str, statements: Collection[Statement]) -> set[Statement]:
    """Those of some statements that were withdrawn."""
    asked = list(statements)
    found = _sql.withdrawn_among(
        conn, line=line, keys=[key for key, _ in asked], content_hashes=[digest for _, digest in asked]
    )
    return set(await queries.rows(found, lambda row: (str(row["key"]), bytes(row["content_hash"]))))


async def reinstate(conn: Connection, *, line: str, statements: Collection[Statement]) -> None:
    """Note that some statements are published again, after a review: if they were withdrawn, they are no more."""
    asked = list(statements)
    await _sql.reinstate(
        conn, line=line, keys=[key for key, _ in asked], content_hashes=[digest for _, digest in asked]
    )


def _from_row(row: Any) -> RetractionRow:
    return RetractionRow(**{name: row[name] for name in _FIELDS})
