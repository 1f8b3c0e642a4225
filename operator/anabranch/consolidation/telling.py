"""What a job's branch is told of its findings: which were published, rejected, or came into conflict.

Its agent has handed them in, and goes on with other work; it hears of each finding once for each of these outcomes, in
the transaction that decides. A job says so in one notice an outcome, however many findings it has, by their keys and
never by their contents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.store.outbox import Kind, NewNotice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow

NAMED: Final = 20
NAMED_BYTES: Final = 4 << 10
"""Findings that a notice names, and their keys together, in UTF-8; of the others it has the number."""


def notices(
    job: JobRow, rows: Iterable[CandidateRow], *, known: Collection[str] = (), generation: int | None = None
) -> list[NewNotice]:
    """What is to be told of some candidates that a job has just decided; nothing where no branch stands for it.

    Args:
        job: The job.
        rows: The candidates, as they are to be.
        known: Ids of those whose conflict was told before.
        generation: That published them.
    """
    if job.branch_id is None:
        return []
    told: dict[Kind, list[CandidateRow]] = {"finding.published": [], "finding.rejected": [], "finding.conflict": []}
    for row in rows:
        if row.state == "published":
            told["finding.published"].append(row)
        elif row.origin != "finding":
            continue  # nobody of the branch has written it
        elif row.state == "rejected":
            told["finding.rejected"].append(row)
        elif row.state == "waiting" and row.conflicting and row.candidate_id not in known:
            told["finding.conflict"].append(row)
    about = {"job_id": job.job_id, "job_namespace": job.namespace, "job_name": job.name}
    return [
        NewNotice(kind=kind, branch_id=job.branch_id, details={**about, **_findings(found, kind, generation)})
        for kind, found in told.items()
        if found
    ]


def in_conflict(rows: Iterable[CandidateRow]) -> set[str]:
    """Ids of the candidates that wait in conflict, of which their branch knows."""
    return {row.candidate_id for row in rows if row.state == "waiting" and row.conflicting}


def _findings(rows: Sequence[CandidateRow], kind: Kind, generation: int | None) -> Mapping[str, object]:
    findings: list[Mapping[str, str]] = []
    room = NAMED_BYTES
    for row in rows[:NAMED]:
        room -= len(row.key.encode())
        if room < 0:
            break
        findings.append({"candidate_id": row.candidate_id, "key": row.key, "reason": row.reason})
    said: Mapping[str, object] = {"count": len(rows), "findings": findings}
    return {**said, "generation": generation} if kind == "finding.published" else said
