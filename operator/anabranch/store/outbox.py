"""What agents are to be told, kept in the transaction that makes it true, until somebody has told them.

Publications are hot, and an agent's memory need not lie on the same server as a line. So a publication, the end of a
run or a rollback leaves a row here and nothing else, and whoever works the wake queue carries it over to the agents: it
takes rows for a while, tells, and then removes them. If it dies in between, the rows come up again, and what was told
is known by its ids, which are derived from the row's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from anabranch.store.database import Connection

Kind: TypeAlias = Literal[
    "run.completed",
    "finding.published",
    "finding.rejected",
    "finding.conflict",
    "baseline.rollback",
    "record.retracted",
]

_sql: Final = queries.load("outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotice:
    """Something to tell.

    Attributes:
        branch_id: Whose agent is told; None: those of all runs of the line that it concerns.
        details: What of it the event carries (JSON).
    """

    kind: Kind
    branch_id: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run, and whose it is.

    Attributes:
        namespace: Of the branch, and so of its agent.
    """

    branch_id: str
    namespace: str
    branch_name: str
    run_id: str
    agent_id: str
    agent_instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRow:
    """Something to tell that was taken up.

    Attributes:
        details: As given.
        progress: Id of the last branch whose agent was told, where it is for all runs of the line; else empty.
        attempts: How often it was taken up since the last progress, this time included.
        created_at: When it came about.
        run: The run that it is about; None where it is for all, or the run is not there any more.
    """

    line: str
    outbox_id: str
    kind: Kind
    branch_id: str | None
    details: dict[str, Any]
    progress: str
    attempts: int
    created_at: datetime
    baseline_namespace: str
    baseline_name: str
    run: RunRow | None = field(default=None)


_RUN: Final = ("branch_id", "namespace", "branch_name", "run_id", "agent_id", "agent_instance")
_NOTICE: Final = (
    *("line", "outbox_id", "kind", "branch_id", "details", "progress", "attempts", "created_at"),
    *("baseline_namespace", "baseline_name"),
)


async def add(conn: Connection, *, line: str, notices: Sequence[NewNotice]) -> None:
    """Keep what agents are to be told; nothing is written where that is nothing.

    Args:
        conn: Inside the transaction that makes it true.
        line: The line.
        notices: What.
    """
    if not notices:
        return
    await _sql.add(
        conn,
        line=line,
        kinds=[notice.kind for notice in notices],
        branch_ids=[notice.branch_id for notice in notices],
        details=[dict(notice.details) for notice in notices],
    )


async def claim(conn: Connection, *, limit: int, hold: timedelta) -> list[NoticeRow]:
    """Take up what is due in any line, the oldest first.

    Args:
        conn: A connection.
        limit: Rows at most.
        hold: For how long nobody else is given them; the double for each time that they were taken up in vain before.
    """
    return await queries.rows(_sql.claim(conn, limit=limit, hold=hold), _notice)


async def live_runs(  # noqa: PLR0913  (what makes it a page)
    conn: Connection, *, line: str, after: str, known_by: datetime, generation: int, limit: int
) -> list[RunRow]:
    """Runs that are going on and that a move of the line's records concerns, by branch id.

    Args:
        conn: A connection.
        line: The line.
        after: Begin after this branch id.
        known_by: When it moved: runs that were there by then are concerned.
        generation: What readers see since: of later runs, those are concerned that were forked from another one.
        limit: Runs at most.
    """
    found = _sql.live_branches(conn, line=line, after=after, known_by=known_by, generation=generation, limit=limit)
    return await queries.rows(found, lambda row: RunRow(**row))


async def witnesses(  # noqa: PLR0913  (what makes it a page)
    conn: Connection, *, line: str, after: str, key: str, content_hash: bytes, limit: int
) -> list[RunRow]:
    """Runs, over or not, that have what a key once said, or had: from a manifest that they forked, or by the feed.

    Args:
        conn: A connection.
        line: The line.
        after: Begin after this branch id.
        key: The key.
        content_hash: Of what it said, 32 bytes.
        limit: Runs at most.
    """
    found = _sql.witnesses(conn, line=line, after=after, key=key, content_hash=content_hash, limit=limit)
    return await queries.rows(found, lambda row: RunRow(**row))


async def settle(conn: Connection, *, line: str, outbox_ids: Collection[str]) -> None:
    """Remove what was told."""
    await _sql.settle(conn, line=line, outbox_ids=list(outbox_ids))


async def go_on(conn: Connection, *, line: str, outbox_id: str, progress: str) -> None:
    """Note that the agents of a line's runs were told up to a branch id; the others are due at once."""
    await _sql.go_on(conn, line=line, outbox_id=outbox_id, progress=progress)


def _notice(row: Mapping[str, Any]) -> NoticeRow:
    run = None if row["run_id"] is None else RunRow(**{name: row[name] for name in _RUN})
    return NoticeRow(**{name: row[name] for name in _NOTICE}, run=run)
