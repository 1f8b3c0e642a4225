"""What the store knows of a record's lineage beside its derivations: versions, candidates, and runs that have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import queries
from anabranch.store.candidates import CandidateRow, from_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.domain.lineage import Named
    from anabranch.model.objects import JobState, PeerState
    from anabranch.store.database import Connection

_sql: Final = queries.load("tracing")

_OPEN: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of a key that a manifest shows.

    Attributes:
        from_generation: The first that shows it.
        to_generation: The first that does not any more; None: the newest shows it.
        content_hash: 32 bytes.
        fact_body: Canonical JSON of its provenance.
        origin: What made its first manifest; None: that is pruned.
    """

    revision: int
    from_generation: int
    to_generation: int | None
    scope: str
    content_hash: bytes
    fact_hash: bytes
    tombstone: bool
    fact_body: bytes | None
    origin: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class VersionState:
    """Whether a version shows in the newest generation, and its provenance."""

    current: bool
    fact_body: bytes | None


@dataclass(frozen=True, slots=True)
class InJob:
    """A candidate, and the job that has it."""

    candidate: CandidateRow
    job_name: str
    job_state: JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessRow:
    """A run that has some version, or had.

    Attributes:
        forked: From a manifest that shows it.
        applied: From the feed.
    """

    branch_id: str
    agent_id: str
    state: PeerState
    forked: bool
    applied: bool


async def versions(conn: Connection, *, line: str, key: str, scopes: Sequence[str], limit: int) -> list[VersionRow]:
    """The versions of a key that a manifest shows, in some scopes, the newest first."""
    return await queries.rows(_sql.versions(conn, line=line, key=key, scopes=list(scopes), limit=limit), _version)


async def states(conn: Connection, *, line: str, versions: Collection[Named]) -> dict[Named, VersionState]:
    """Of some versions those that are there, with whether the newest generation shows them."""
    asked = list(versions)
    found = _sql.states(conn, line=line, keys=[key for key, _ in asked], revisions=[revision for _, revision in asked])
    return dict(
        await queries.rows(
            found, lambda row: ((row["key"], row["revision"]), VersionState(row["current"], row["fact_body"]))
        )
    )


async def candidates(conn: Connection, *, line: str, key: str, generations: Collection[int], limit: int) -> list[InJob]:
    """What was published of a key in some generations, and what waits for it, the newest first."""
    found = _sql.candidates(conn, line=line, key=key, generations=list(generations), limit=limit)
    return await queries.rows(found, _in_job)


async def citing(conn: Connection, *, line: str, locators: Collection[str], limit: int) -> list[InJob]:
    """Candidates that cite one of some records by its source locator, the newest first."""
    return await queries.rows(_sql.citing(conn, line=line, locators=list(locators), limit=limit), _in_job)


async def witnesses(
    conn: Connection, *, line: str, intervals: Sequence[tuple[int, int | None]], limit: int
) -> list[WitnessRow]:
    """The runs that their peers may know of, by id, that have one of some versions, or had.

    Args:
        conn: A connection.
        line: The line.
        intervals: Of the versions: the first generation that shows each, and the first that does not any more.
        limit: How many at most.
    """
    found = _sql.witnesses(
        conn,
        line=line,
        from_generations=[first for first, _ in intervals],
        to_generations=[_OPEN if ended is None else ended for _, ended in intervals],
        limit=limit,
    )
    return await queries.rows(found, lambda row: WitnessRow(**row))


def _version(row: Any) -> VersionRow:
    values = dict(row)
    ended = values.pop("to_generation")
    return VersionRow(**values, to_generation=None if ended == _OPEN else ended)


def _in_job(row: Any) -> InJob:
    return InJob(from_row(row), row["job_name"], row["job_state"])
