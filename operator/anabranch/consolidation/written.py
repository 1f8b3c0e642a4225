"""What a publication writes, in the terms of the store: versions, the feed's entries, notices, an origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.consolidation import telling
from anabranch.store import outbox, publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.consolidation.planning import Share
    from anabranch.domain.publication import Announcement, Plan
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow
    from anabranch.telemetry.tracing import Together


def notices(shares: Sequence[Share], *, generation: int) -> list[outbox.NewNotice]:
    """What the branches are told that handed in what is published."""
    return [notice for share in shares for notice in telling.notices(share.job, share.decided, generation=generation)]


def versions(made: Plan[CandidateRow]) -> list[publish.NewVersion]:
    """The records' new versions."""
    return [
        publish.NewVersion(
            key=write.candidate.key,
            scope=write.candidate.scope,
            content_hash=write.candidate.content_hash,
            fact_body=write.fact.canonical(),
            tombstone=write.candidate.op == "tombstone",
        )
        for write in made.writes
    ]


def events(shares: Sequence[Share], made: Plan[CandidateRow], spans: Together) -> list[publish.NewEvent]:
    """The entries of the feed, each with what brings on the trace of the job that it comes from."""
    traces = {share.job.job_id: spans.handed_on(share.job.traceparent) for share in shares}
    of_key = {write.candidate.key: traces.get(write.candidate.job_id) for write in made.writes}
    return [_event(announcement, of_key.get(announcement.key)) for announcement in made.events]


def _event(announcement: Announcement, traceparent: str | None) -> publish.NewEvent:
    return publish.NewEvent(
        kind=announcement.kind,
        scope=announcement.scope,
        key=announcement.key,
        revision=announcement.revision,
        content_hash=announcement.content_hash,
        origin_branch=announcement.origin_branch,
        traceparent=traceparent,
    )


def origin(own: Sequence[JobRow]) -> dict[str, Any]:
    """What the manifest says of how it was made."""
    if len(own) > 1:
        return {"kind": "publication", "job_ids": [job.job_id for job in own]}
    (job,) = own
    origin = {"kind": "publication", "job_id": job.job_id}
    return origin | ({"branch_id": job.branch_id} if job.branch_id else {})
