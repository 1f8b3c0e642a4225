"""What a retraction does to a head: the record that is withdrawn, and those that are marked, being derived from it.

Asked when it is proposed, and again under the head that it is published to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain.facts import Fact
from anabranch.domain.lineage import marks
from anabranch.model.ids import LineId, new_candidate_id
from anabranch.store import candidates, derivations, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.jobs import JobRow
    from anabranch.store.records import RecordRow
    from anabranch.store.retractions import RetractionRow

STEPS: Final = 100_000
"""Steps downstream of one record that are followed."""


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a retraction does to a head.

    Attributes:
        target: The record that is withdrawn, if it says still what is to be.
        marked: The live records that were derived from it and do not say so yet, each with its sources that lead there.
    """

    target: RecordRow | None
    marked: Mapping[str, tuple[RecordRow, Sequence[str]]]


async def consequences(conn: Connection, row: RetractionRow, *, generation: int) -> Consequences | None:
    """What a retraction does to a head; None: more than can be followed."""
    known = await derivations.known(conn, line=row.line)
    steps = await derivations.downstream(
        conn,
        line=row.line,
        key=row.key,
        content_hash=row.content_hash,
        after=known.through,
        limit=STEPS + 1,
    )
    if len(steps) > STEPS:
        return None
    found = await records.current_of(
        conn, line=row.line, generation=generation, keys={row.key, *(step.version[0] for step in steps)}
    )
    target = found.get(row.key)
    if target is not None and (target.tombstone or target.content_hash != row.content_hash):
        target = None
    named = marks(steps, head=found)
    if target is not None:
        named.pop(row.key, None)
    bodies = await records.facts(conn, line=row.line, hashes={found[key].fact_hash for key in named})
    facts = {key: Fact.parse(bodies[found[key].fact_hash]) for key in named}
    return Consequences(
        target,
        {
            key: (found[key], sources)
            for key, sources in named.items()
            if not set(facts[key].retracted_sources).issuperset(sources)
        },
    )


def marking(
    job: JobRow, row: RetractionRow, record: RecordRow, sources: Sequence[str], *, moment: datetime
) -> CandidateRow:
    """The candidate that marks a record as it is."""
    return candidates.CandidateRow(
        line=job.line,
        candidate_id=new_candidate_id(LineId(job.line)),
        job_id=job.job_id,
        origin_job=job.job_id,
        ordinal=0,
        branch_id=None,
        run_id=None,
        author=row.requested_by,
        op="put",
        key=record.key,
        scope=record.scope,
        visibility="shareable",
        content_hash=record.content_hash,
        base_revision=record.revision,
        sources=verified(sources),
        origin_runs=(),
        observed_at=moment,
        canonical_revision=record.revision,
        canonical_hash=record.content_hash,
        mark="sourceRetracted",
    )


def verified(sources: Iterable[str]) -> tuple[dict[str, str], ...]:
    """Sources as a candidate has them once they were looked up and found."""
    return tuple({"locator": text, "status": "verified", "detail": ""} for text in sources)
