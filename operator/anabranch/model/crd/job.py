"""The ConsolidationJob: a run of findings on its way to facts, where reviewers decide (see `decisions`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from anabranch.model import limits
from anabranch.model.crd.base import (
    Condition,
    Count,
    Duration,
    Name,
    Namespace,
    Ordinal,
    Report,
    Rule,
    Spec,
    Status,
    Time,
    map_by,
    rules,
)
from anabranch.model.crd.decisions import REVIEW_SIZE, REVIEWERS, Review
from anabranch.model.objects import JobState  # noqa: TC001  (pydantic reads the annotation)

Origin = Literal["Branch", "Held", "Import", "Retraction"]


class BranchRef(Spec):
    """The Branch that the findings come from."""

    namespace: Namespace | None = None
    """Namespace of the Branch; the job's own when left out."""

    name: Name
    """Name of the Branch."""


class BatchRange(Spec):
    """A contiguous run of a branch's batches."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule("self.from <= self.through", "spec.batches.from is greater than spec.batches.through: swap them")
        )
    )

    from_: Annotated[Ordinal, Field(alias="from")]
    """Sequence number of the first batch."""

    through: Ordinal
    """Sequence number of the last batch, itself included."""


class ConsolidationJobSpec(Spec):
    """What the job shall do."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule("self.origin == oldSelf.origin", "spec.origin is fixed at creation"),
            Rule(
                "self.origin != 'Branch' || (has(self.branchRef) && has(self.batches))",
                "a job of origin Branch needs spec.branchRef and spec.batches",
            ),
            Rule(
                "self.origin == 'Branch' || !has(self.batches)",
                "only a job of origin Branch has spec.batches: leave it out",
            ),
            Rule(
                "self.origin in ['Branch', 'Held'] || !has(self.branchRef)",
                "only a job of origin Branch or Held has spec.branchRef: leave it out",
            ),
            Rule(
                "has(self.branchRef) == has(oldSelf.branchRef)",
                "spec.branchRef is fixed at creation: make another ConsolidationJob",
            ),
        )
    )

    origin: Origin = "Branch"
    """Where the findings come from. Branch: batches of a branch. The others are made by the operator alone. Held: what
    another job had to leave behind for a reviewer. Import: a changed import. Retraction: a withdrawn fact. Cannot be
    changed."""

    branch_ref: Annotated[
        BranchRef | None,
        Field(
            json_schema_extra=rules(
                Rule("self == oldSelf", "spec.branchRef is fixed at creation: make another ConsolidationJob")
            )
        ),
    ] = None
    """The Branch that the findings come from. Needed with origin Branch; with Held where there is one. Cannot be
    changed."""

    batches: Annotated[
        BatchRange | None,
        Field(
            json_schema_extra=rules(
                Rule("self == oldSelf", "spec.batches is fixed at creation: make another ConsolidationJob")
            )
        ),
    ] = None
    """Which batches of the branch to consolidate; the job waits for those that are not there yet. Needed with origin
    Branch. Cannot be changed."""

    reviews: Annotated[
        tuple[Review, ...],
        Field(
            max_length=REVIEWERS,
            json_schema_extra=rules(
                Rule(
                    f"{REVIEW_SIZE} <= {limits.REVIEW_BYTES}",
                    "spec.reviews is larger than 64 KiB: shorten the reasons, or decide through `anabranch job review`",
                ),
                **map_by("reviewer"),
            ),
        ),
    ] = ()
    """Reviewers' decisions, an entry each, 64 KiB in all. Writing one's entry needs the verb `update` on
    `consolidationjobs/review`; nobody can write another's."""

    lease_duration: Annotated[
        Duration,
        Field(
            json_schema_extra=rules(
                Rule(
                    "duration(self) >= duration('5s') && duration(self) <= duration('1h')",
                    "spec.leaseDuration must be from 5s to 1h",
                )
            )
        ),
    ] = timedelta(seconds=30)
    """How long a worker may hold the job without a sign of life before another takes over: 30s, 5m, 1h."""

    retry_limit: Annotated[int, Field(ge=0, le=100)] = 5
    """How many failures in a row, without progress between, before the job gives up."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=limits.TTL_SECONDS)] | None = None
    """How many seconds the job is kept once it is Complete. Then the operator deletes the resource; what was decided
    and published stays. A job that waits for a reviewer, or has Failed and could go on, is never deleted so. Left out:
    nobody deletes it. Jobs that the operator makes have a day, 86400."""


class JobCounts(Report):
    """How many candidates went which way."""

    received: Count = 0
    """Candidates that the batches held."""

    duplicates: Count = 0
    """Those that said what another one, or the Baseline, said already."""

    accepted: Count = 0
    """Those accepted, by policy or by a reviewer."""

    rejected: Count = 0
    """Those rejected, by a check or by a reviewer."""

    conflicting: Count = 0
    """Those that contradict a record of the Baseline."""

    held: Count = 0
    """Those left to the job that `heldJob` names."""


CandidateIds = Annotated[tuple[str, ...], Field(max_length=20)]


class ConsolidationJobStatus(Status):
    """How far the job is. Ids only, never content."""

    observed_generation: Annotated[int, Field(ge=-1)] = -1
    """The metadata.generation that this status answers to; -1 before the operator has seen the resource."""

    job_id: str | None = None
    """Id of the job, as the API's paths name it."""

    store: str | None = None
    """Which of the installation's databases the job lies in, where that is not the default one. It stays there, and
    the operator of that store answers for it."""

    state: JobState | None = None
    """The last durable state, of received, importing, validating, awaiting_review, publishing, published."""

    attempt: Count | None = None
    """Failures and lost leases since the job last made progress."""

    lease_deadline: Time | None = None
    """Until when the worker named by `holder` has the job."""

    holder: str | None = None
    """The worker that has the job."""

    counts: JobCounts | None = None
    """How many candidates went which way."""

    accepted: CandidateIds = ()
    """Ids of accepted candidates, the first 20. The API pages through all."""

    rejected: CandidateIds = ()
    """Ids of rejected candidates, the first 20."""

    conflicts: CandidateIds = ()
    """Ids of candidates that contradict a record, the first 20."""

    held_job: str | None = None
    """Name of the ConsolidationJob that has the candidates which must wait."""

    published_baseline_id: str | None = None
    """Id of the manifest that the job made; absent when nothing was accepted, or not yet published."""

    published_generation: Ordinal | None = None
    """Number of the manifest that the job made."""

    last_error: str | None = None
    """What went wrong at the last attempt, and what to do about it."""

    retry_at: Time | None = None
    """When the next attempt is due."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=map_by("type"))] = ()
    """Complete, and Ready which equals it: the job has ended well. Failed: given up. AwaitingReview: a reviewer must
    decide. DecisionsMisplaced: some in spec.reviews are on candidates that another job has by now, and count there
    only. Reconciling or Stalled while it is not complete, with the reason."""
