"""What is told of a job to those who follow it, or decide on it: steps, groups, and decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from anabranch.model.answers import Page
from anabranch.model.objects import (
    ConsolidationJob,
    JobState,
    KnowledgeCandidate,
)
from anabranch.model.wire import Hash, Revision, Wire


class JobPage(Page[ConsolidationJob]):
    """Consolidation jobs by name."""


class CandidatePage(Page[KnowledgeCandidate]):
    """A job's candidates by id."""


class Transition(Wire):
    """One step of a job. Equal states: it failed, was taken over, or was tried again."""

    ordinal: int
    from_state: JobState | None
    to_state: JobState
    attempt: int
    holder: str | None
    detail: str
    at: datetime
    trace_id: str | None = Field(None, description="the trace that the job goes on with")


class TransitionPage(Page[Transition]):
    """A job's steps in their order."""


class CandidateGroup(Wire):
    """Near-identical candidates of a job that wait for a review, and may be decided as one."""

    group_id: str = Field(description="id of the candidate that the others are like")
    members: int = Field(ge=1, description="how many of it wait")
    digest: Hash = Field(description="what a decision on all of them names: each member's id, content and record")
    acceptable: bool = Field(
        description="whether they may be accepted as one: none conflicts or costs recall, and no two are for one key"
    )
    candidate_ids: tuple[str, ...] = Field(max_length=20, description="the first of them")


class GroupPage(Page[CandidateGroup]):
    """The groups of a job of which something waits, by id."""


class ReviewEntry(Wire):
    """A decision as it was recorded."""

    ordinal: int
    candidate_id: str
    reviewer: str
    action: Literal["accept", "reject", "withdraw"]
    content_hash: Hash
    base_revision: Revision
    reason: str
    via: Literal["resource", "http"]
    at: datetime
    hold: int | None = Field(default=None, description="number of the recall gate's hold that the reviewer saw")
    before_hold: bool = Field(
        default=False,
        description="the recall gate holds the job, and this was made without knowing of that: it counts for nothing "
        "until made anew",
    )


class ReviewAnswer(Wire):
    """The decisions as recorded. The job takes them up at once."""

    job_id: str
    decisions: tuple[ReviewEntry, ...]


class ReviewPage(Page[ReviewEntry]):
    """What reviewers have decided on a job's candidates, in order; the latest of each on a candidate counts."""
