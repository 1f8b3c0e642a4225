"""What travels of a record's lineage: its sources, what was derived from it, who has it, and what is withdrawn."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from anabranch.model.answers import Page
from anabranch.model.objects import FactState, JobState, PeerState, SourceCheck
from anabranch.model.reviewing import ReviewEntry
from anabranch.model.wire import Generation, Hash, Key, Locator, Revision, Scope, Wire


class Retraction(Wire):
    """What somebody asked to be withdrawn, and what came of it."""

    retraction_id: str
    key: Key
    revision: Revision = Field(description="the one that was named, or that was current")
    scope: Scope
    content_hash: Hash = Field(description="of what is withdrawn, whichever revisions of the key say so")
    reason: str
    requested_by: str
    requested_at: datetime
    state: Literal["requested", "proposed", "published", "rejected", "void", "reinstated"] = Field(
        description="requested: the operator is about to make a job of it. proposed: that waits for reviewers. "
        "published: withdrawn, in `generation`. rejected: by reviewers. void: there was nothing to decide, `detail` "
        "tells why. reinstated: withdrawn, and published again since"
    )
    detail: str
    job_id: str | None = Field(description="the consolidation job that has it decided")
    generation: Generation | None
    decided_at: datetime | None


class RetractionPage(Page[Retraction]):
    """Retractions, the newest first."""


class TracedSource(Wire):
    """A source of a version."""

    locator: Locator
    status: Literal["verified", "unresolved", "unknown"] = Field(
        description="what its resolver found when the version was proposed; unknown: retention has removed that, or it "
        "came with an import"
    )
    detail: str
    retracted: bool = Field(description="it was withdrawn since, or derived from what was")


class TracedVersion(Wire):
    """A version of the record that is kept."""

    revision: Revision
    from_generation: Generation
    through_generation: Generation | None = Field(description="the last that shows it; null: the newest does")
    scope: Scope
    content_hash: Hash
    tombstone: bool
    state: FactState
    sources: tuple[TracedSource, ...]
    origin_runs: tuple[str, ...]
    validated_at: datetime | None
    supersedes: tuple[Revision, ...]
    made_by: dict[str, Any] | None = Field(description="origin of its first manifest; null: that is pruned")


class DerivedVersion(Wire):
    """A version of a record that was derived from the traced one, over some steps."""

    key: Key
    revision: Revision
    scope: Scope
    steps: int = Field(description="how many at least: 1 cites the traced one itself")
    cites: tuple[Locator, ...] = Field(description="its sources that lead there")
    current: bool = Field(description="it is what the newest manifest says of its key")
    state: FactState | None = Field(description="null: retention has removed it")


class TracedCandidate(Wire):
    """What was, or is, proposed for the record, and what reviewers said of it."""

    candidate_id: str
    job_id: str
    job: str = Field(description="name of the ConsolidationJob")
    op: Literal["put", "tombstone"]
    mark: Literal["sourceRetracted"] | None
    state: Literal["pending", "duplicate", "waiting", "accepted", "rejected", "published"]
    author: str
    branch_id: str | None
    run_id: str | None
    observed_at: datetime
    content_hash: Hash
    sources: tuple[SourceCheck, ...]
    reason: str
    detail: str
    reviews: tuple[ReviewEntry, ...] = Field(description="the latest decision of each reviewer")


class Citing(Wire):
    """A candidate that cites the record."""

    candidate_id: str
    key: Key
    state: Literal["pending", "duplicate", "waiting", "accepted", "rejected", "published"]
    job_id: str
    job: str
    job_state: JobState
    locators: tuple[Locator, ...]


class Witness(Wire):
    """A run that has the record, or had: what its peers may know of it."""

    branch_id: str
    agent_id: str
    state: PeerState
    forked: bool = Field(description="its parent, or one before a rebase, shows the record")
    applied: bool = Field(description="it has taken the record over from the feed")


class Trace(Page[DerivedVersion]):
    """Where a record comes from, and where it went: `items` are what was derived from it, the nearest first.

    All of it is what the caller may see: records of scopes that it may not read are absent, and so is what was derived
    through them.
    """

    key: Key
    revision: Revision = Field(description="the version whose content is traced")
    content_hash: Hash
    versions: tuple[TracedVersion, ...] = Field(description="that are kept, the newest first; at most 100")
    retractions: tuple[Retraction, ...] = Field(description="of what the key says or said, the newest first")
    complete: bool = Field(
        description="whether all that was derived was found: not while a large import is being looked at, and not "
        "beyond 10,000 steps"
    )
    branches: tuple[Witness, ...] | None = Field(description="at most 1,000; null: you may not follow this baseline")
    candidates: tuple[TracedCandidate, ...] | None = Field(
        description="of the kept versions, and those that wait; null: you may see candidates of none of their jobs"
    )
    citing: tuple[Citing, ...] | None = Field(description="likewise, at most 100")
