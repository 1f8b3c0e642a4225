"""What the status of each resource shows, and which statuses lag behind.

Rows count their changes in ``version``; ``projected`` is the version that was last written to status. The projector
reads what lags, then the state of those, writes it, and marks the version that it read *first*: a change that comes
in between leaves the two different, so it is found again, and never lost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.domain.gate import Bounds
from anabranch.model.ids import line_of
from anabranch.store import backups, jobs, manifests, queries, rebases
from anabranch.store.branches import BranchRow
from anabranch.store.lines import HeadRow, LineRow
from anabranch.store.recall import Measured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from anabranch.store.backups import BackupRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.manifests import ManifestRow
    from anabranch.store.rebases import RebaseRow

SHOWN: Final = 20
"""Candidate ids in each list of a job's status."""

_sql = queries.load("projection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirty:
    """A resource whose status lags behind.

    Attributes:
        line: None for one that only waits (see `waiting`).
        id: Line, branch or job id; None likewise.
        version: What to mark once the status is written.
    """

    kind: Literal["Baseline", "Branch", "ConsolidationJob"]
    namespace: str
    name: str
    uid: str
    line: str | None
    id: str | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityTotals:
    """What is counted of a generation, in all scopes together (see `anabranch.domain.quality`).

    Attributes:
        duplicates: Findings of the line, ever, that said what was known already.
    """

    generation: int
    records: int
    sourced: int
    verified: int
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the newest generation answers, up to the current one, that was asked what the Baseline asks now.

    Attributes:
        result: What it answers.
        bounds: What is asked for.
    """

    result: Measured
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupState:
    """What is known of a line's backups.

    Attributes:
        target: Where they are to go; None: the Baseline asks for none.
        error: Why the last attempt failed; None: it did not.
        newest: The newest one, wherever it lies; None: there is none.
    """

    target: str | None = None
    error: str | None = None
    newest: BackupRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineState:
    """What a Baseline's status shows.

    Attributes:
        current: What readers see; None before the first import.
        previous: What current was before it last moved.
        newest: The head.
        history: The newest five, newest first.
        pending_batches: Received and not yet decided.
        open_conflicts: Candidates that contradict a record and wait for a reviewer.
        oldest_conflict_at: Since when the oldest of them waits.
        quality: Of the newest generation that is counted, up to the current one; None: none is.
        recall: What was answered; None: nothing was asked.
        backup: What is known of its backups.
    """

    line: LineRow
    head: HeadRow
    current: ManifestRow | None
    previous: ManifestRow | None
    newest: ManifestRow | None
    history: tuple[ManifestRow, ...]
    pending_batches: int
    open_conflicts: int
    oldest_conflict_at: datetime | None
    quality: QualityTotals | None
    recall: Recalled | None = None
    backup: BackupState = BackupState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What a branch that is there waits for all the same (see `waiting`).

    Attributes:
        condition: ``Reconciling`` or ``Stalled``.
        observed_generation: ``metadata.generation`` of the spec that it says this of.
    """

    condition: Literal["Reconciling", "Stalled"]
    reason: str
    message: str
    observed_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    """What a Branch's status shows.

    Attributes:
        contiguous_through: Batches 1 to this one are in.
        lease_deadline: When the agent's lease runs out, or did; None: it never had one.
        feed_cursor: How far the run follows, as it was shown last; None: nowhere yet.
        feed_lag: How many events it was behind then.
        lineage: What the run stood on before, newest first: the last five.
        obstacle: What stands in the way of the spec, or of the fork's grant; None: nothing does.
    """

    branch: BranchRow
    contiguous_through: int
    lease_deadline: datetime | None = None
    feed_cursor: str | None = None
    feed_lag: int | None = None
    lineage: tuple[RebaseRow, ...] = ()
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusRow:
    """What a ConsolidationJob's status shows.

    Attributes:
        branch_namespace: Of the branch that its batches come from; None if they come from none.
        branch_name: Of the same.
        published_baseline_id: Of the manifest that it made.
        accepted: Ids of accepted candidates, the first 20.
        rejected: Likewise.
        conflicts: Ids of those that contradict a record, the first 20.
        misplaced_decisions: Decisions in its resource on candidates that are another job's by now.
        misplaced_job: The name of that one, or of the first of several.
    """

    job: JobRow
    branch_namespace: str | None
    branch_name: str | None
    published_baseline_id: str | None
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    conflicts: tuple[str, ...]
    misplaced_decisions: int = 0
    misplaced_job: str | None = None


async def dirty(conn: Connection, *, limit: int, exclude: Iterable[Dirty] = ()) -> list[Dirty]:
    """Resources of any line whose status lags behind.

    Args:
        conn: A connection.
        limit: At most so many of each kind, and as many that only wait.
        exclude: Those that are not wanted now unless they have changed again, so that they do not crowd out others.
    """
    versions = [f"{row.id}@{row.version}" for row in exclude]
    return await queries.rows(_sql.dirty(conn, limit=limit, exclude=versions), lambda row: Dirty(**row))


async def mark(conn: Connection, rows: Iterable[Dirty]) -> None:
    """Note that the statuses of these were written as of their versions (or cannot be: the resource is gone)."""
    kinds: dict[str, list[Dirty]] = defaultdict(list)
    for row in rows:
        kinds["waiting" if row.line is None else row.kind].append(row)
    if found := kinds["ConsolidationJob"]:
        await _sql.mark_jobs(conn, job_ids=[row.id for row in found], **_lines_and_versions(found))
    if found := kinds["Branch"]:
        await _sql.mark_branches(conn, branch_ids=[row.id for row in found], **_lines_and_versions(found))
    if found := kinds["Baseline"]:
        await _sql.mark_lines(conn, **_lines_and_versions(found))
    if found := kinds["waiting"]:
        await _sql.mark_waiting(
            conn,
            namespaces=[row.namespace for row in found],
            kinds=[row.kind for row in found],
            names=[row.name for row in found],
            uids=[row.uid for row in found],
            versions=[row.version for row in found],
        )


async def baseline_status(conn: Connection, *, lines: Sequence[str]) -> list[BaselineState]:
    """What the statuses of some Baselines show, in any order, in one query."""
    return await queries.rows(_sql.baseline_status(conn, lines=lines), _baseline)


async def branch_status(conn: Connection, *, branch_ids: Sequence[str]) -> list[BranchState]:
    """What the statuses of some Branches show, in any order, in one query."""
    found = _sql.branch_status(conn, lines=_lines(branch_ids), branch_ids=branch_ids, lineage=rebases.SHOWN)
    return await queries.rows(found, _branch)


async def job_status(conn: Connection, *, job_ids: Sequence[str]) -> list[JobStatusRow]:
    """What the statuses of some ConsolidationJobs show, in any order, in one query."""
    found = _sql.job_status(conn, lines=_lines(job_ids), job_ids=job_ids, shown=SHOWN)
    return await queries.rows(found, _job)


def _lines_and_versions(rows: Sequence[Dirty]) -> dict[str, list[Any]]:
    return {"lines": [row.line for row in rows], "versions": [row.version for row in rows]}


def _lines(ids: Iterable[str]) -> list[str]:
    return sorted({line_of(identifier) for identifier in ids})


def _baseline(row: Mapping[str, Any]) -> BaselineState:
    def manifest(value: Mapping[str, Any] | None) -> ManifestRow | None:
        return None if value is None else manifests.from_row(value)

    return BaselineState(
        line=LineRow(**_pick(row, LineRow)),
        head=HeadRow(**_pick(row, HeadRow)),
        current=manifest(row["current"]),
        previous=manifest(row["previous"]),
        newest=manifest(row["newest"]),
        history=tuple(map(manifests.from_row, row["history"])),
        pending_batches=row["pending_batches"],
        open_conflicts=row["open_conflicts"],
        oldest_conflict_at=row["oldest_conflict_at"],
        backup=BackupState(
            target=row["backup_target"],
            error=row["backup_error"],
            newest=None if row["backup"] is None else backups.from_row(row["backup"]),
        ),
        quality=None
        if row["quality_generation"] is None
        else QualityTotals(
            generation=row["quality_generation"],
            records=row["quality_records"],
            sourced=row["quality_sourced"],
            verified=row["quality_verified"],
            duplicates=row["duplicates"],
        ),
        recall=_recalled(row),
    )


def _recalled(row: Mapping[str, Any]) -> Recalled | None:
    if row["recall_generation"] is None:
        return None
    return Recalled(
        result=Measured(**{field.name: row[f"recall_{field.name}"] for field in fields(Measured)}),
        bounds=Bounds(k=row["recall_k"], floor=row["floor"], max_regression=row["max_regression"]),
    )


def _branch(row: Mapping[str, Any]) -> BranchState:
    return BranchState(
        branch=BranchRow(**_pick(row, BranchRow)),
        contiguous_through=row["contiguous_through"],
        lease_deadline=row["lease_deadline"],
        feed_cursor=row["feed_cursor"],
        feed_lag=row["feed_lag"],
        lineage=tuple(map(rebases.from_row, row["lineage"])),
        obstacle=None
        if row["condition"] is None
        else Obstacle(
            condition=row["condition"],
            reason=row["reason"],
            message=row["message"],
            observed_generation=row["waiting_generation"],
        ),
    )


def _job(row: Mapping[str, Any]) -> JobStatusRow:
    return JobStatusRow(
        job=jobs.from_row(row),
        branch_namespace=row["branch_namespace"],
        branch_name=row["branch_name"],
        published_baseline_id=row["published_baseline_id"],
        accepted=tuple(row["accepted"]),
        rejected=tuple(row["rejected"]),
        conflicts=tuple(row["conflicts"]),
        misplaced_decisions=row["misplaced_decisions"],
        misplaced_job=row["misplaced_job"],
    )


def _pick(row: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    return {field.name: row[field.name] for field in fields(kind)}
