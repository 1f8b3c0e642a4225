"""What a merge is made of: candidates of one job that wait for a review, and a record as its author saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.domain.facts import Fact
from anabranch.domain.merging import RecordInput
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.store import candidates, records

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow


async def waiting(conn: Connection, job: JobRow, inputs: Collection[str]) -> list[CandidateRow]:
    """Some candidates of a job that something can be made of.

    Raises:
        NotFoundError: If one is none of this job.
        ConflictError: If one does not wait for a review, or says nothing that could be part of a text.
    """
    if job.origin == "Retraction":
        raise ConflictError("A retraction is decided as it is.", hint="Accept it, or reject it.")
    found = await candidates.of_job_by_id(conn, line=job.line, job_id=job.job_id, candidate_ids=sorted(set(inputs)))
    if absent := set(inputs) - {row.candidate_id for row in found}:
        raise NotFoundError(
            f"The job has no candidate {min(absent)}.", hint="List the job's candidates; some may be held."
        )
    for row in found:
        if row.state != "waiting":
            raise ConflictError(
                f"The candidate {row.candidate_id} does not wait for a review: it is {row.state}.",
                hint="List the job's candidates.",
                candidate_id=row.candidate_id,
                state=row.state,
            )
        if row.op == "tombstone":
            raise ConflictError(
                f"The candidate {row.candidate_id} proposes to delete its key: there is nothing in it to merge.",
                hint="Leave it out, and reject it if the merge is to stand instead.",
                candidate_id=row.candidate_id,
            )
    return found


def common_key(rows: Sequence[CandidateRow]) -> str:
    """The key that all of some candidates are for.

    Raises:
        ConflictError: If they are for several.
    """
    keys = sorted({row.key for row in rows})
    if len(keys) != 1:
        raise ConflictError(
            f"A merge is made of candidates for one key, not of {', '.join(map(repr, keys[:3]))}.",
            hint="Merge those of each key by themselves.",
        )
    return keys[0]


async def record(conn: Connection, line: str, key: str, revision: int) -> RecordInput:
    """The version of a record that its author saw.

    Raises:
        NotFoundError: If there is none, or it says nothing.
    """
    row = await records.at_revision(conn, line=line, key=key, revision=revision)
    if row is None or row.tombstone:
        raise NotFoundError(f"There is no revision {revision} of {key!r}.", hint="List the job's candidates.")
    bodies = await records.facts(conn, line=line, hashes=[row.fact_hash])
    return RecordInput(key=key, revision=row.revision, scope=row.scope, fact=Fact.parse(bodies[row.fact_hash]))
