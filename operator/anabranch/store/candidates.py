"""Knowledge candidates: what a job proposes, and what became of each.

A candidate belongs to the job that decides it now and remembers the one that imported it: that origin and its place
there make an import idempotent, whichever job it has been split off to since. Its content lies with the line's
contents, so that an accepted candidate is published without being copied.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.domain.lineage import cited
from anabranch.model.ids import line_of
from anabranch.model.limits import PAGE_BYTES
from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from anabranch.store.database import Connection

State: TypeAlias = Literal["pending", "duplicate", "waiting", "accepted", "rejected", "published"]

_sql = queries.load("candidates")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """A candidate.

    Attributes:
        job_id: The job that decides it now.
        origin_job: The job that imported it.
        ordinal: Its place among those that the origin job imported.
        author: Username of the identity that submitted it.
        content_hash: 32 bytes; a tombstone's is that of null.
        base_revision: The revision of the key that its author knew; 0 for none.
        sources: ``{locator, status, detail}`` each, as a `SourceCheck`.
        origin_runs: The runs that found it.
        conflicting: Whether it contradicts a record that its author did not know.
        reason: CamelCase.
        canonical_revision: Of the record that it was compared with; None for none.
        canonical_hash: Of that record's content, 32 bytes.
        mark: What it only marks the record as, which goes on saying what it says; None: it changes the record.
        origin: Whether a run found it, or it was written of several candidates (see `merges`).
        inputs: Ids of the candidates that it was made of; None for a finding.
        contributors: Usernames of who wrote these, who count as its authors too; None for a finding.
        model: The model that wrote it; None: none did.
    """

    line: str
    candidate_id: str
    job_id: str
    origin_job: str
    ordinal: int
    branch_id: str | None
    run_id: str | None
    author: str
    op: Literal["put", "tombstone"]
    key: str
    scope: str
    visibility: Literal["private", "shareable"]
    content_hash: bytes
    base_revision: int
    sources: tuple[dict[str, Any], ...]
    origin_runs: tuple[str, ...]
    observed_at: datetime
    state: State = "pending"
    conflicting: bool = False
    reason: str = ""
    detail: str = ""
    canonical_revision: int | None = None
    canonical_hash: bytes | None = None
    mark: Literal["sourceRetracted"] | None = None
    origin: Literal["finding", "merge", "summary"] = "finding"
    inputs: tuple[str, ...] | None = None
    contributors: tuple[str, ...] | None = None
    model: str | None = None

    @property
    def authors(self) -> set[str]:
        """Usernames of all who had a hand in it."""
        return {self.author, *(self.contributors or ())}


_FIELDS: Final = tuple(field.name for field in fields(CandidateRow))
_LISTS: Final = ("sources", "origin_runs", "inputs", "contributors")


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalRow:
    """The record that a candidate was compared with.

    Attributes:
        content_hash: 32 bytes.
        fact_hash: 32 bytes.
        body: Canonical JSON; None for a tombstone.
        fact_body: Canonical JSON of its provenance.
    """

    revision: int
    scope: str
    content_hash: bytes
    fact_hash: bytes
    tombstone: bool
    body: bytes | None
    fact_body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView:
    """A candidate as a reviewer sees it.

    Attributes:
        content: Canonical JSON; None for a tombstone.
        canonical: The record that it would replace; None for none, or when that revision was pruned.
    """

    candidate: CandidateRow
    content: bytes | None
    canonical: CanonicalRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChange:
    """What a Baseline's source said last of a key, whatever became of it.

    Attributes:
        content_hash: 32 bytes.
    """

    key: str
    op: Literal["put", "tombstone"]
    scope: str
    content_hash: bytes


async def insert(conn: Connection, rows: Iterable[CandidateRow]) -> None:
    """Keep candidates; those that their origin job imported before (by ordinal) stay as they are.

    Callers read them again by `of_job`: an earlier import gave them other ids.
    """
    await _sql.insert(
        conn,
        [
            {name: getattr(row, name) for name in _FIELDS}
            | {"cited": list(cited(source["locator"] for source in row.sources)) or None}
            for row in rows
        ],
    )


async def get(conn: Connection, candidate_id: str) -> CandidateRow | None:
    """A candidate by its id.

    Raises:
        InvalidInputError: If the text is no id.
    """
    row = await _sql.get(conn, line=line_of(candidate_id), candidate_id=candidate_id)
    return row and from_row(row)


async def of_job(conn: Connection, *, line: str, job_id: str) -> list[CandidateRow]:
    """The candidates that a job decides, in the order of their import."""
    return await queries.rows(_sql.of_job(conn, line=line, job_id=job_id), from_row)


async def of_job_by_id(conn: Connection, *, line: str, job_id: str, candidate_ids: Sequence[str]) -> list[CandidateRow]:
    """Those of some candidates that a job decides, by id."""
    found = _sql.of_job_by_id(conn, line=line, job_id=job_id, candidate_ids=candidate_ids)
    return await queries.rows(found, from_row)


async def next_ordinal(conn: Connection, *, line: str, origin_job: str) -> int:
    """The place of the next candidate that a job brings; whoever holds the job asks."""
    ordinal: int = await _sql.next_ordinal(conn, line=line, origin_job=origin_job)
    return ordinal


async def citing(conn: Connection, *, line: str, job_id: str, locator: str) -> list[tuple[str, str]]:
    """The branches whose candidates of a job cite a source that was verified, each with such a candidate's reason."""
    found = _sql.citing(conn, line=line, job_id=job_id, locator=locator)
    return await queries.rows(found, lambda row: (row["branch_id"], row["reason"]))


async def states(conn: Connection, *, line: str, job_id: str) -> dict[State, int]:
    """How many of the candidates that a job decides are in which state; one that none is in is absent."""
    found = _sql.states(conn, line=line, job_id=job_id)
    return dict(await queries.rows(found, lambda row: (row["state"], row["candidates"])))


async def save_outcomes(conn: Connection, rows: Sequence[CandidateRow]) -> None:
    """Keep what became of candidates: state, conflict, reason, detail, canonical record, sources, origin runs.

    Not fenced by itself: the caller's transaction also advances the job, which is.

    Args:
        conn: A connection in a transaction.
        rows: Of one line, as read, with those fields replaced. One that another job has by now stays as it is.
    """
    if not rows:
        return
    await _sql.save_outcomes(
        conn,
        line=rows[0].line,
        candidate_ids=[row.candidate_id for row in rows],
        job_ids=[row.job_id for row in rows],
        states=[row.state for row in rows],
        conflicting=[row.conflicting for row in rows],
        reasons=[row.reason for row in rows],
        details=[row.detail for row in rows],
        canonical_revisions=[row.canonical_revision for row in rows],
        canonical_hashes=[row.canonical_hash for row in rows],
        sources=[row.sources for row in rows],
        origin_runs=[row.origin_runs for row in rows],
    )


async def move(conn: Connection, *, line: str, from_job: str, to_job: str, candidate_ids: Sequence[str]) -> int:
    """Hand candidates over to another job (see `openings.open_held`), in the caller's transaction; how many."""
    tag = await _sql.move(conn, line=line, from_job=from_job, to_job=to_job, candidate_ids=candidate_ids)
    return queries.touched(tag)


async def count_waiting(conn: Connection, *, line: str, job_id: str, candidate_ids: Collection[str]) -> int:
    """How many of some candidates of a job wait for a review."""
    count: int = await _sql.count_waiting(conn, line=line, job_id=job_id, candidate_ids=list(candidate_ids))
    return count


async def waiting_on_keys(conn: Connection, *, line: str, keys: Iterable[str]) -> list[CandidateRow]:
    """Candidates of any job that wait for a review, for some keys."""
    return await queries.rows(_sql.waiting_on_keys(conn, line=line, keys=list(keys)), from_row)


async def import_changes(conn: Connection, *, line: str) -> list[ImportChange]:
    """What imports after the first one proposed last for each key, in the order of the keys."""
    return await queries.rows(_sql.import_changes(conn, line=line), lambda row: ImportChange(**row))


async def with_content(
    conn: Connection, *, line: str, job_id: str, after: str = "", limit: int
) -> tuple[list[CandidateView], bool]:
    """A job's candidates by id with both sides of what a reviewer decides, up to a size that a process can well hold.

    Args:
        conn: A connection.
        line: The job's.
        job_id: The job.
        after: The last id of the page before.
        limit: How many at most.

    Returns:
        The candidates, and whether there may be more.
    """
    found = _sql.with_content(conn, line=line, job_id=job_id, after=after, limit=limit, bytes=PAGE_BYTES)
    return await queries.bounded(found, _view, limit=limit)


async def view(conn: Connection, candidate_id: str) -> CandidateView | None:
    """One candidate with both sides of what a reviewer decides.

    Raises:
        InvalidInputError: If the text is no id.
    """
    row = await _sql.view(conn, line=line_of(candidate_id), candidate_id=candidate_id)
    return row and _view(row)


def from_row(row: Mapping[str, Any]) -> CandidateRow:
    """A candidate from a row that has at least the columns of the table."""
    values = {name: row[name] for name in _FIELDS}
    lists = {name: None if row[name] is None else tuple(row[name]) for name in _LISTS}
    return CandidateRow(**values | lists)


def _view(row: Mapping[str, Any]) -> CandidateView:
    canonical = None
    if row["record_revision"] is not None:
        canonical = CanonicalRow(
            revision=row["record_revision"],
            scope=row["record_scope"],
            content_hash=row["record_content_hash"],
            fact_hash=row["record_fact_hash"],
            tombstone=row["record_tombstone"],
            body=row["record_body"],
            fact_body=row["record_fact"],
        )
    candidate = from_row(row)
    content = row["content"] if candidate.op == "put" else None
    return CandidateView(candidate=candidate, content=content, canonical=canonical)
