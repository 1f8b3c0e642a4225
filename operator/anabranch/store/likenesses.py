"""Which candidates are alike, as it was found when they were validated.

Beside the candidates, since it is written once and decides nothing. A group has its first member's id for a name; who
of it still waits in a job is asked of the candidates themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.domain.likeness import MOST_SHOWN, Sketch
from anabranch.store import queries
from anabranch.store.candidates import from_row

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from anabranch.domain.likeness import Match
    from anabranch.store.candidates import CandidateRow, State
    from anabranch.store.database import Connection

_sql = queries.load("likenesses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What a candidate is like.

    Attributes:
        group_id: Of the near-identical ones of its job; None: it is in no group.
        similar: Candidates that it is like, the most alike first.
    """

    candidate_id: str
    scope: str
    sketch: Sketch
    group_id: str | None
    similar: Sequence[Match]


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A candidate that another one is like, as it stands now.

    Attributes:
        job_id: The job that decides it now.
        likeness: From 0 to 1.
    """

    candidate_id: str
    job_id: str
    branch_id: str | None
    state: State
    likeness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is to be told beside a candidate.

    Attributes:
        group_id: As of `Likeness`.
        similar: Those that are kept still.
    """

    group_id: str | None
    similar: Sequence[Similar]


async def put(conn: Connection, *, line: str, rows: Sequence[Likeness]) -> None:
    """Keep what candidates of a line are like; what was kept of the same ones before is replaced."""
    await _sql.put(
        conn,
        line=line,
        candidate_ids=[row.candidate_id for row in rows],
        scopes=[row.scope for row in rows],
        sketches=[row.sketch.packed() for row in rows],
        group_ids=[row.group_id for row in rows],
        resembles=[tuple({"candidate_id": m.name, "likeness": m.likeness} for m in row.similar) for row in rows],
    )


async def add(conn: Connection, *, line: str, found: Sequence[tuple[str, Match]]) -> None:
    """Tell candidates of others that came later: the id of the earlier one, and the later one with its likeness."""
    if found:
        await _sql.add(
            conn,
            line=line,
            candidate_ids=[candidate for candidate, _ in found],
            others=[match.name for _, match in found],
            likenesses=[match.likeness for _, match in found],
            most=MOST_SHOWN,
        )


async def waiting(
    conn: Connection, *, line: str, scope: str, without: Collection[str], limit: int
) -> list[tuple[str, Sketch]]:
    """The newest candidates of a scope that wait for a review, with their sketches, oldest last.

    Args:
        conn: A connection.
        line: The line.
        scope: Of the candidates.
        without: Ids to leave out.
        limit: How many are looked at; of those that wait, so many at most come.
    """
    found = _sql.waiting(conn, line=line, scope=scope, without=list(without), limit=limit)
    return await queries.rows(found, lambda row: (row["candidate_id"], Sketch.parse(row["sketch"])))


async def of(conn: Connection, *, line: str, candidate_ids: Sequence[str]) -> dict[str, Told]:
    """What is told beside some candidates, by id; nothing of those that are like none."""
    if not candidate_ids:
        return {}
    found = _sql.of_candidates(conn, line=line, candidate_ids=list(candidate_ids))
    return dict(await queries.rows(found, lambda row: (row["candidate_id"], _told(row))))


async def members(
    conn: Connection, *, line: str, job_id: str, group_ids: Collection[str] | None = None
) -> dict[str, list[CandidateRow]]:
    """The candidates of a job that are of some groups (None: of any), by group, in the order of their ids."""
    rows = await queries.rows(
        _sql.members(conn, line=line, job_id=job_id, group_ids=None if group_ids is None else list(group_ids)),
        lambda row: (row["group_id"], from_row(row)),
    )
    found: dict[str, list[CandidateRow]] = {}
    for group_id, candidate in rows:
        found.setdefault(group_id, []).append(candidate)
    return found


def _told(row: Mapping[str, Any]) -> Told:
    return Told(group_id=row["group_id"], similar=tuple(Similar(**each) for each in row["resembles"]))
