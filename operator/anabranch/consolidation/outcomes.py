"""What the steps of a job have in common: how candidates are marked, counted and compared with the head."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.domain.conflict import Assessment, assess
from anabranch.domain.facts import FACT_SOURCES, Fact, union
from anabranch.domain.policy import ReviewPolicy
from anabranch.domain.publication import marked_sources, same_statement
from anabranch.store import candidates, lines, records
from anabranch.telemetry.of_operator import SETTLED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.lines import LineState
    from anabranch.store.records import RecordRow


MERGED: Final = "Merged"
"""Why a candidate goes no further that went into an accepted merge."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest versions of some keys, and what they were read with.

    Attributes:
        state: The line and its head.
        records: By key, tombstones included.
        facts: Provenance by its hash, of the records that say what one of the candidates says.
    """

    state: LineState
    records: Mapping[str, RecordRow]
    facts: Mapping[bytes, Fact]


async def read_head(conn: Connection, line: str, rows: Collection[CandidateRow]) -> Head:
    """Read what the head of the line says about some candidates' keys."""
    state = await lines.get(conn, line)
    generation = state.head.head_generation
    if generation == 0:
        return Head(state, {}, {})
    keys = {row.key for row in rows}
    found = await records.current_of(conn, line=line, generation=generation, keys=keys)
    alike = {
        record.fact_hash
        for row in rows
        if (record := found.get(row.key)) and not record.tombstone and assess(row, record).kind == "same"
    }
    bodies = await records.facts(conn, line=line, hashes=alike)
    return Head(state, found, {digest: Fact.parse(body) for digest, body in bodies.items()})


def compared(row: CandidateRow, head: Head) -> tuple[CandidateRow, Assessment]:
    """A candidate as compared with the record at the head."""
    record = head.records.get(row.key)
    assessment = assess(row, record)
    return (
        replace(
            row,
            conflicting=assessment.kind == "conflict",
            canonical_revision=None if record is None else record.revision,
            canonical_hash=None if record is None else record.content_hash,
        ),
        assessment,
    )


def says_nothing_new(row: CandidateRow, head: Head, *, cited: Sequence[str]) -> bool:
    """Whether a candidate that says what the record says brings no source, and no mark, that the record lacks.

    A mark is for what the record said when the candidate was made. Where it says something else, there is nothing to
    mark.
    """
    record = head.records.get(row.key)
    if row.mark is not None:
        if not same_statement(record, row):
            return True
        fact = head.facts[record.fact_hash]
        return marked_sources(fact, cited) == fact.retracted_sources
    if record is None or record.tombstone:
        return True
    known = head.facts[record.fact_hash].source_locators
    return union(known, cited, limit=FACT_SOURCES) == known


def cited(row: CandidateRow, *, verified_only: bool) -> list[str]:
    """The source locators that a fact of this candidate may cite.

    Where sources are required, a fact cites what was verified and nothing else. Where they are not, it also keeps what
    its author named.
    """
    return [source["locator"] for source in row.sources if source["status"] == "verified" or not verified_only]


def marked(row: CandidateRow, state: Any, reason: str = "", detail: str = "") -> CandidateRow:
    """A candidate in another state, with the reason in a word and in words."""
    return replace(row, state=state, reason=reason, detail=detail)


def went_into(merges: Iterable[CandidateRow], rows: Iterable[CandidateRow]) -> dict[str, CandidateRow]:
    """Which of some merges a candidate is part of, straight or by way of merges that went into it; by candidate id.

    Args:
        merges: The candidates of one job of which those that are merges are looked at.
        rows: All of the job's.
    """
    made_of = {row.candidate_id: row.inputs or () for row in rows if row.origin == "merge"}
    found: dict[str, CandidateRow] = {}
    for merge in merges:
        parts = list(made_of.get(merge.candidate_id, ()))
        while parts:
            part = parts.pop()
            if part not in found:
                found[part] = merge
                parts += made_of.get(part, ())
    return found


def reopened(
    decided: Sequence[CandidateRow], settled: Sequence[CandidateRow]
) -> tuple[list[CandidateRow], list[CandidateRow]]:
    """The same, with what had gone into accepted merges that are not published after all open again.

    Args:
        decided: A job's candidates that were accepted, as they are to be.
        settled: Its other candidates.

    Returns:
        Those that change, and the rest.
    """
    merges = went_into((row for row in decided if row.state in ("waiting", "rejected")), [*decided, *settled])
    again, rest = [], []
    for row in settled:
        merge = merges.get(row.candidate_id) if (row.state, row.reason) == ("rejected", MERGED) else None
        if merge is None:
            rest.append(row)
        else:
            detail = f"candidate {merge.candidate_id}, which it went into, was not published"
            again.append(marked(row, "waiting", "MergeNotPublished", detail))
    return [*decided, *again], rest


def counts(rows: Collection[CandidateRow], job: JobRow | None = None, *, held: int = 0) -> dict[str, int]:
    """How many of a job's candidates went which way.

    Args:
        rows: All that it has, and those that are being split off.
        job: The job as it was, whose candidates that were split off before count too; None for a new one.
        held: How many are being split off.
    """
    conflicting = sum(row.conflicting for row in rows if row.state in ("waiting", "accepted", "published", "rejected"))
    return tallied(Counter(row.state for row in rows), job, conflicting=conflicting, held=held)


def tallied(
    states: Mapping[candidates.State, int], job: JobRow | None = None, *, conflicting: int = 0, held: int = 0
) -> dict[str, int]:
    """The same from how many candidates are in which state, and how many of them are conflicting."""
    before = job.counts if job else {}
    return {
        "received": sum(states.values()) + before.get("held", 0),
        "duplicates": states.get("duplicate", 0),
        "accepted": states.get("accepted", 0) + states.get("published", 0),
        "rejected": states.get("rejected", 0),
        "conflicting": max(conflicting, before.get("conflicting", 0)),
        "held": held + before.get("held", 0),
    }


def tell(rows: Iterable[CandidateRow], *, by: Literal["policy", "reviewers"]) -> None:
    """Count candidates that were accepted or rejected just now, and by whom, in the operator's metrics."""
    for outcome, count in Counter(row.state for row in rows if row.state in ("accepted", "rejected")).items():
        SETTLED.labels(outcome, by).inc(count)


async def waiting_keys(conn: Connection, rows: Sequence[CandidateRow]) -> dict[str, str]:
    """For which keys an earlier finding of the same branch waits in another job: the job's id by key."""
    if not rows:
        return {}
    first = rows[0]
    found = await candidates.waiting_on_keys(conn, line=first.line, keys=sorted({row.key for row in rows}))
    return {
        row.key: row.job_id
        for row in found
        if row.branch_id == first.branch_id and row.job_id != first.job_id and row.branch_id is not None
    }


def policy_of(state: LineState, job: JobRow) -> ReviewPolicy:
    """The review policy that a job is under.

    What a changed import proposes is always reviewed, also in mode Automatic: a source replaces nothing by itself. So
    is a retraction.
    """
    policy = ReviewPolicy.parse(state.line.policy.get("review") or {})
    return replace(policy, automatic=False) if job.origin in ("Import", "Retraction") else policy
