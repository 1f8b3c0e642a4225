"""Merges: what somebody has written of several candidates, and what became of it.

A row is what the API writes; the candidate is made by the operator, once. The text lies apart from it, as a draft by
its hash: a merge in a job's resource names it and has no room for it, and may come before it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from anabranch.store.database import Connection

State: TypeAlias = Literal["requested", "made", "void"]
Origin: TypeAlias = Literal["merge", "summary"]

_sql: Final = queries.load("merges")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMerge:
    """A merge that is proposed.

    Attributes:
        candidate_id: Of the candidate that is made of it.
        job_id: The job that decides its inputs.
        digest: Of all that makes it the same merge, 32 bytes.
        author: Username.
        model: That wrote it; None: a person did.
        content_hash: Of its text, 32 bytes.
        inputs: Ids of the candidates that it was made of, sorted.
        base_revision: Of the record, as its author saw it; 0 for none.
        with_record: Whether that record is an input, too.
    """

    line: str
    candidate_id: str
    job_id: str
    digest: bytes
    origin: Origin
    author: str
    model: str | None
    key: str
    content_hash: bytes
    inputs: tuple[str, ...]
    base_revision: int
    with_record: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRow(NewMerge):
    """A merge.

    Attributes:
        state: ``requested`` until the operator has made a candidate of it.
        detail: Why none could be made (``void``).
    """

    state: State
    detail: str
    proposed_at: datetime


_NEW: Final = tuple(field.name for field in fields(NewMerge))
_FIELDS: Final = tuple(field.name for field in fields(MergeRow))


async def put_draft(  # noqa: PLR0913  (the columns of a text)
    conn: Connection, *, line: str, job_id: str, content_hash: bytes, body: bytes, uploaded_by: str
) -> None:
    """Keep a text, as canonical JSON, that somebody has written for a job."""
    await _sql.put_draft(conn, line=line, job_id=job_id, content_hash=content_hash, body=body, uploaded_by=uploaded_by)


@dataclass(frozen=True, slots=True)
class Written:
    """What somebody has written for a job.

    Attributes:
        drafts: How many texts.
        size: Bytes of these together.
        merges: How many merges.
    """

    drafts: int
    size: int
    merges: int


async def written(conn: Connection, *, line: str, job_id: str, content_hash: bytes, by: str) -> Written:
    """What somebody has written for a job beside one text."""
    row = await _sql.draft_room(conn, line=line, job_id=job_id, content_hash=content_hash, uploaded_by=by)
    return Written(row["drafts"], int(row["bytes"]), row["merges"])


async def propose(conn: Connection, new: NewMerge) -> MergeRow | None:
    """Propose a merge; None: the same is proposed already."""
    row = await _sql.propose(conn, **{name: getattr(new, name) for name in _NEW})
    return None if row is None else _from_row(row)


async def same(conn: Connection, *, line: str, digest: bytes) -> MergeRow | None:
    """The merge of a digest, unless there is none, or it is void."""
    row = await _sql.same(conn, line=line, digest=digest)
    return None if row is None else _from_row(row)


async def known(conn: Connection, *, line: str, job_id: str, digests: Collection[bytes]) -> set[bytes]:
    """Those of some digests whose merges a job has, or had."""
    found = _sql.known(conn, line=line, job_id=job_id, digests=list(digests))
    return set(await queries.rows(found, lambda row: row["digest"]))


async def page(conn: Connection, *, line: str, job_id: str, after: str, limit: int) -> list[MergeRow]:
    """The merges of a job by the ids of their candidates, after one."""
    return await queries.rows(_sql.page(conn, line=line, job_id=job_id, after=after, limit=limit), _from_row)


async def requested(conn: Connection, *, line: str, job_id: str) -> list[tuple[MergeRow, bytes | None]]:
    """The merges of a job of which no candidate was made yet, each with its text; None: that is not there yet."""
    found = _sql.requested(conn, line=line, job_id=job_id)
    return await queries.rows(found, lambda row: (_from_row(row), row["body"]))


async def settle(conn: Connection, *, line: str, outcomes: Mapping[str, tuple[State, str]]) -> None:
    """Note what became of merges: state and detail by candidate id."""
    await _sql.settle(
        conn,
        line=line,
        candidate_ids=list(outcomes),
        states=[state for state, _ in outcomes.values()],
        details=[detail for _, detail in outcomes.values()],
    )


async def follow(conn: Connection, *, line: str, from_job: str, to_job: str) -> int:
    """Hand those of which no candidate was made yet over to the job that their inputs go to; how many."""
    moved: int = await _sql.follow(conn, line=line, from_job=from_job, to_job=to_job)
    return moved


async def void_requested(conn: Connection, *, line: str, job_id: str, detail: str) -> None:
    """End those merges of a job of which no candidate was made, in the transaction that ends what they wait for."""
    await _sql.void_requested(conn, line=line, job_id=job_id, detail=detail)


def _from_row(row: Any) -> MergeRow:
    values = {name: row[name] for name in _FIELDS}
    return MergeRow(**values | {"inputs": tuple(row["inputs"])})
