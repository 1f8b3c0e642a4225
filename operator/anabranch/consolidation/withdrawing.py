"""What becomes of a retraction once reviewers have decided, and of findings that come after one.

A retraction is decided as a whole. What comes to be derived while reviewers decide is found under the head that is
published to, and marked along: a mark is a call for a review, and takes nothing away. Later findings that cite what
was withdrawn, or what was derived from it, are marked as they are published (see `planning`). So at no generation from
there on is anything derived unmarked, but for what a reviewer let stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anabranch.consolidation import deriving
from anabranch.consolidation.consequences import STEPS, Consequences, consequences, marking, verified
from anabranch.consolidation.outcomes import marked
from anabranch.model.canonical import hash_text
from anabranch.model.errors import TooLargeError
from anabranch.store import database, derivations, lines, retractions
from anabranch.store.outbox import NewNotice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow


async def notices(conn: Connection, jobs: Iterable[JobRow], *, generation: int) -> list[NewNotice]:
    """What is to be told, to the agents whose runs have it, of what is withdrawn by some jobs that publish."""
    found = [
        await retractions.of_job(conn, line=job.line, job_id=job.job_id) for job in jobs if job.origin == "Retraction"
    ]
    return [
        NewNotice(
            kind="record.retracted",
            branch_id=None,
            details={
                "retraction_id": row.retraction_id,
                "generation": generation,
                # By which it is found whose runs have it.
                "key": row.key,
                "content_hash": hash_text(row.content_hash),
            },
        )
        for row in found
        if row is not None
    ]


def as_one(decided: Sequence[CandidateRow]) -> list[CandidateRow]:
    """What reviewers have decided on a retraction: without the record that is withdrawn, there is nothing to mark."""
    if not any(row.mark is None and row.state == "rejected" for row in decided):
        return list(decided)
    return [
        marked(row, "rejected", "RetractionRejected", "what it was derived from is not withdrawn")
        if row.state == "accepted"
        else row
        for row in decided
    ]


def overruled(rows: Iterable[CandidateRow], stopped: Mapping[str, CandidateRow]) -> dict[str, CandidateRow]:
    """What else does not go on, of a retraction of which some candidates do not: it is decided as a whole.

    Args:
        rows: Its accepted candidates.
        stopped: Those among them of which reviewers have thought better, as they are to be.
    """
    others = [row for row in rows if row.candidate_id not in stopped]
    if any(row.state == "waiting" for row in stopped.values()):
        detail = "a decision on the same retraction was taken back"
        return {row.candidate_id: marked(row, "waiting", "ReviewWithdrawn", detail) for row in others}
    kept = as_one([*(replace(row, state="accepted") for row in others), *stopped.values()])
    return {row.candidate_id: row for row in kept if row.state == "rejected" and row.candidate_id not in stopped}


@dataclass(frozen=True, slots=True)
class Completed:
    """A retraction that is about to be published, brought up to its head.

    Attributes:
        rows: Its candidates; those that were added, among them.
        moot: Accepted ones for which there is nothing to do any more, as they are to be, by id.
        added: Marks on what came to be derived since it was proposed; not stored yet.
        generation: Of that head; None: the job is no retraction that anything was accepted of.
    """

    rows: list[CandidateRow]
    moot: Mapping[str, CandidateRow] = field(default_factory=dict)
    added: Sequence[CandidateRow] = ()
    generation: int | None = None


async def complete(conn: Connection, job: JobRow, rows: Sequence[CandidateRow]) -> Completed:
    """Bring an accepted retraction up to the head of now; of any other job, nothing is to be done.

    What reviewers have accepted holds for what the records say, not for a revision of them: the same, written anew with
    a further source, is withdrawn, or marked, all the same.

    Args:
        conn: A connection.
        job: The job, in ``publishing``.
        rows: Its candidates.

    Raises:
        TooLargeError: If too much has come to be derived from it.
    """
    if job.origin != "Retraction" or not any(one.state == "accepted" for one in rows):
        return Completed(list(rows))
    row = await retractions.of_job(conn, line=job.line, job_id=job.job_id)
    generation = (await lines.head(conn, job.line)).head_generation
    found = None if row is None else await consequences(conn, row, generation=generation)
    if row is None or found is None:
        raise TooLargeError(
            f"More than {STEPS:,} steps lead away from what is to be withdrawn.", hint="Reject the retraction."
        )
    kept: list[CandidateRow] = []
    moot: dict[str, CandidateRow] = {}
    for one in rows:
        if one.state != "accepted":
            kept.append(one)
        elif (now := _renewed(one, found)) is not None:
            kept.append(now)
        else:
            kept.append(one)
            moot[one.candidate_id] = marked(one, "duplicate", "AlreadyKnown", "the record has changed, or is marked")
    decided = {(one.key, one.content_hash) for one in rows if one.mark is not None and one.candidate_id not in moot}
    late = [
        marking(job, row, record, sources, moment=await database.now(conn))
        for key, (record, sources) in found.marked.items()
        if (key, record.content_hash) not in decided
    ]
    first = 1 + max(one.ordinal for one in rows)
    detail = "it came to be derived while the retraction was reviewed"
    added = [
        replace(marked(one, "accepted", "DerivedMeanwhile", detail), ordinal=ordinal)
        for ordinal, one in enumerate(late, first)
    ]
    return Completed([*kept, *added], moot, added, generation)


def _renewed(row: CandidateRow, found: Consequences) -> CandidateRow | None:
    """An accepted candidate against the record of now; None: there is nothing left to do."""
    if row.mark is None:
        if found.target is None:
            return None
        return replace(row, canonical_revision=found.target.revision, conflicting=False)
    record, sources = found.marked.get(row.key, (None, ()))
    if record is None or record.content_hash != row.content_hash:
        return None
    return replace(row, canonical_revision=record.revision, sources=verified(sources))


async def withdrawn_sources(db: Database, line: str, versions: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of some cited versions of records that were withdrawn, or that were derived from what was.

    Args:
        db: The store.
        line: The line, of which something was withdrawn.
        versions: Key and revision each.
    """
    if not versions:
        return set()
    await deriving.catch_up(db, line)
    async with db.connection() as conn:
        return await derivations.retracted(conn, line=line, versions=versions)
