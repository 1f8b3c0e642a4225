"""Consolidation jobs: their candidates with both sides of each conflict, their steps, and the decisions on them."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from anabranch.api.access import NAME, Namespaced, OfJob, OfReview
from anabranch.api.bodies import JsonBody
from anabranch.api.listing import merged, told
from anabranch.api.paging import PageQuery, Pager, Paging
from anabranch.api.parts import WithParts
from anabranch.api.replies import ASK_AGAIN, kept, reply
from anabranch.api.routes.archives import DigestPath, digest_of
from anabranch.api.routes.evidence import served
from anabranch.api.routing import Route, may_fail
from anabranch.api.stores import Store
from anabranch.api.visibility import InNamespace, OnJob, readable_beside, visible_jobs
from anabranch.consolidation import grouping, read, review, showing
from anabranch.identity import grants
from anabranch.model.errors import ConflictError, ReclaimedError
from anabranch.model.limits import REVIEW_BYTES
from anabranch.model.objects import ConsolidationJob, JobState
from anabranch.model.requests import ReviewRequest
from anabranch.model.reviewing import CandidatePage, GroupPage, JobPage, ReviewAnswer, ReviewPage, TransitionPage
from anabranch.store.jobs import JobRow
from anabranch.telemetry import of_api as telemetry

router = APIRouter(prefix="/v1/namespaces/{namespace}/jobs", route_class=Route, tags=["jobs"])

AtJob = Annotated[OnJob, Depends(OfJob(grants.SEE_CANDIDATES))]

_deciding: dict[str, object] = {}
may_fail(_deciding, review.StaleReviewError, review.SelfReviewError, grouping.MixedGroupError, ConflictError)
_reading: dict[str, object] = {}
may_fail(_reading, ReclaimedError)


class JobsQuery(Paging):
    """Which jobs to list."""

    state: JobState | None = Field(None, description="only those in this state")
    baseline: str | None = Field(None, max_length=253, pattern=NAME, description="only those of this Baseline")
    branch: str | None = Field(
        None, pattern=r"^br(_[0-9a-z]{26}){2}$", description="only those of this branch's findings, by its id"
    )


@router.get("", response_model=JobPage, summary="List jobs")
async def list_jobs(
    at: Annotated[InNamespace, Depends(Namespaced(grants.SEE_CANDIDATES))],
    parts: WithParts,
    query: Annotated[JobsQuery, Query()],
) -> Response:
    """The jobs of a namespace that the caller may see, by name: a reviewer all, an agent those of its own branches."""
    pager = Pager(parts.sealer, f"jobs {at.namespace} {query.state} {query.baseline} {query.branch}")
    after = pager.place(query.cursor) or ""

    async def page(store: Store) -> Sequence[JobRow]:
        return await read.page(
            store.db,
            namespace=at.namespace,
            baseline=query.baseline,
            branch_id=query.branch,
            state=query.state,
            after=after,
            limit=query.limit,
        )

    async def visible(store: Store, some: Sequence[JobRow]) -> Sequence[ConsolidationJob]:
        return await read.describe(store.db, await visible_jobs(parts, at.caller, store, at.namespace, some))

    rows = merged(await parts.stores.each(page))[: query.limit]
    items = await told(rows, visible)
    cursor = pager.after(rows, query.limit, lambda row: row[1].name)
    return reply(JobPage(items=tuple(items), next_cursor=cursor))


@router.get("/{job}", response_model=ConsolidationJob, summary="Show a job")
async def get_job(at: AtJob, request: Request) -> Response:
    """A job, by its id or its resource's name; of candidates' ids the first 20."""
    (job,) = await read.describe(at.store.db, [at.job])
    return kept(request, job, caching=ASK_AGAIN)


@router.get("/{job}/candidates", response_model=CandidatePage, summary="List candidates", openapi_extra=_reading)
async def list_candidates(at: AtJob, parts: WithParts, query: PageQuery) -> Response:
    """What the job decides about, each beside the record that it would replace. An agent sees its own findings.

    Of a private change that its branch keeps back, others than its agent see that there is one, with the reason, and
    neither key nor hash.
    """
    pager = Pager(parts.sealer, f"candidates {at.job.job_id}")
    after = pager.place(query.cursor) or ""
    items, place = await showing.candidate_page(
        at.store.db,
        at.job,
        caller=at.caller,
        branch_id=at.only_branch,
        readable=await readable_beside(parts, at),
        after=after,
        limit=query.limit,
    )
    return reply(CandidatePage.model_construct(items=tuple(items), next_cursor=pager.cursor(place)))


@router.get("/{job}/groups", response_model=GroupPage, summary="List groups of candidates", openapi_extra=_reading)
async def list_groups(at: AtJob, parts: WithParts, query: PageQuery) -> Response:
    """Near-identical candidates of the job that wait, gathered: a run that has gone wrong is decided once.

    A decision on a group names its digest, and so counts for exactly these members, contents and records.
    """
    pager = Pager(parts.sealer, f"groups {at.job.job_id}")
    after = pager.place(query.cursor) or ""
    items = await grouping.page(at.store.db, at.job, branch_id=at.only_branch, after=after, limit=query.limit)
    return reply(GroupPage(items=tuple(items), next_cursor=pager.after(items, query.limit, lambda item: item.group_id)))


@router.get(
    "/{job}/evidence/{sha256}",
    response_class=Response,
    summary="Read cited evidence",
    responses={200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_cited_evidence(at: AtJob, sha256: DigestPath, request: Request) -> Response:
    """What a candidate of the job cites as verified evidence, under the media type that it came with.

    Nothing else of a branch's evidence is shown to anybody but its own agent.
    """
    row = await showing.cited_evidence(at.store.db, at.job, branch_id=at.only_branch, digest=digest_of(sha256))
    return served(row, request)


@router.get("/{job}/transitions", response_model=TransitionPage, summary="List transitions", openapi_extra=_reading)
async def list_transitions(at: AtJob, parts: WithParts, query: PageQuery) -> Response:
    """What happened to the job, step by step."""
    pager = Pager(parts.sealer, f"transitions {at.job.job_id}")
    after = pager.place(query.cursor) or 0
    items = await read.transition_page(at.store.db, at.job, after=after, limit=query.limit)
    cursor = pager.after(items, query.limit, lambda item: item.ordinal)
    return reply(TransitionPage(items=tuple(items), next_cursor=cursor))


@router.get("/{job}/review", response_model=ReviewPage, summary="List decisions", openapi_extra=_reading)
async def list_reviews(at: AtJob, parts: WithParts, query: PageQuery) -> Response:
    """What reviewers have decided so far, by either way, in order. An agent sees what was decided on its own findings.

    What was taken back is in it too, as the action `withdraw`.
    """
    pager = Pager(parts.sealer, f"reviews {at.job.job_id}")
    after = pager.place(query.cursor) or 0
    items, place = await read.review_page(at.store.db, at.job, branch_id=at.only_branch, after=after, limit=query.limit)
    return reply(ReviewPage(items=tuple(items), next_cursor=pager.cursor(place)))


@router.post("/{job}/review", response_model=ReviewAnswer, summary="Decide on candidates", openapi_extra=_deciding)
async def post_review(
    at: Annotated[OnJob, Depends(OfReview(grants.DECIDE, grants.SEE_CANDIDATES))],
    body: Annotated[ReviewRequest, Depends(JsonBody(ReviewRequest, limit=4 * REVIEW_BYTES))],
) -> Response:
    """Record decisions as the verified caller, all or none; the job takes them up at once.

    A decision names the content and the record that the reviewer saw, and is refused if either has changed.
    """
    rows = await review.decide(at.store.db, job=at.job, caller=at.caller, decisions=body.decisions, groups=body.groups)
    for made, said in (("single", body.decisions), ("group", body.groups)):
        for decision in said:
            telemetry.DECISIONS.labels(decision.action, made).inc()
    return reply(ReviewAnswer(job_id=at.job.job_id, decisions=tuple(map(read.review_entry, rows))))
