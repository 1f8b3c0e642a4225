"""The parts of a lineage as they travel: made of the store's rows, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anabranch.consolidation.read import review_entry
from anabranch.domain.facts import Fact
from anabranch.model.canonical import hash_text
from anabranch.model.lineage import Citing, Retraction, TracedCandidate, TracedSource, TracedVersion
from anabranch.model.objects import SourceCheck

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from anabranch.store.retractions import RetractionRow
    from anabranch.store.reviews import ReviewRow
    from anabranch.store.tracing import InJob, VersionRow


def retraction(row: RetractionRow) -> Retraction:
    """A retraction as it travels."""
    return Retraction.model_construct(
        retraction_id=row.retraction_id,
        key=row.key,
        revision=str(row.revision),
        scope=row.scope,
        content_hash=hash_text(row.content_hash),
        reason=row.reason,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        state=row.state,
        detail=row.detail,
        job_id=row.job_id,
        generation=row.generation,
        decided_at=row.decided_at,
    )


def checks(proposed: Sequence[InJob]) -> Mapping[str, SourceCheck]:
    """What was found of source locators when what was published was proposed."""
    return {
        source["locator"]: SourceCheck.model_construct(**source)
        for one in reversed(proposed)
        if one.candidate.state == "published"
        for source in one.candidate.sources
    }


def version(row: VersionRow, checked: Mapping[str, SourceCheck]) -> TracedVersion:
    """A version, with what was found of its sources."""
    fact = Fact() if row.fact_body is None else Fact.parse(row.fact_body)
    return TracedVersion.model_construct(
        revision=str(row.revision),
        from_generation=row.from_generation,
        through_generation=None if row.to_generation is None else row.to_generation - 1,
        scope=row.scope,
        content_hash=hash_text(row.content_hash),
        tombstone=row.tombstone,
        state=fact.state,
        sources=tuple(
            _source(text, checked.get(text), retracted=text in fact.retracted_sources) for text in fact.source_locators
        ),
        origin_runs=fact.origin_runs,
        validated_at=fact.validated_at,
        supersedes=tuple(map(str, fact.supersedes)),
        made_by=row.origin,
    )


def _source(text: str, check: SourceCheck | None, *, retracted: bool) -> TracedSource:
    status: Literal["verified", "unresolved", "unknown"] = "unknown"
    if check is not None and check.status != "pending":
        status = check.status
    return TracedSource.model_construct(
        locator=text, status=status, detail="" if check is None else check.detail, retracted=retracted
    )


def candidate(one: InJob, said: Sequence[ReviewRow]) -> TracedCandidate:
    """What was proposed for the record, with those of some decisions that are on it."""
    row = one.candidate
    return TracedCandidate.model_construct(
        candidate_id=row.candidate_id,
        job_id=row.job_id,
        job=one.job_name,
        op=row.op,
        mark=row.mark,
        state=row.state,
        author=row.author,
        branch_id=row.branch_id,
        run_id=row.run_id,
        observed_at=row.observed_at,
        content_hash=hash_text(row.content_hash),
        sources=tuple(SourceCheck.model_construct(**source) for source in row.sources),
        reason=row.reason,
        detail=row.detail,
        reviews=tuple(review_entry(entry) for entry in said if entry.candidate_id == row.candidate_id),
    )


def citing(one: InJob, cited: Collection[str]) -> Citing:
    """What cites the record, by those of some locators that it names."""
    row = one.candidate
    return Citing.model_construct(
        candidate_id=row.candidate_id,
        key=row.key,
        state=row.state,
        job_id=row.job_id,
        job=one.job_name,
        job_state=one.job_state,
        locators=tuple(source["locator"] for source in row.sources if source["locator"] in cited),
    )
