"""Merges: one text of several candidates of a job, proposed as a candidate for reviewers to decide."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from anabranch.api.access import OfJob, OfReview
from anabranch.api.bodies import JsonBody
from anabranch.api.paging import PageQuery, Pager
from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnJob
from anabranch.consolidation import merging
from anabranch.identity import grants
from anabranch.model.canonical import hash_text
from anabranch.model.errors import ConflictError, ForbiddenError, QuotaExceededError, TooLargeError
from anabranch.model.merging import Draft, DraftRequest, Merge, MergePage, MergeRequest

router = APIRouter(prefix="/v1/namespaces/{namespace}/jobs/{job}", route_class=Route, tags=["jobs"])

AtJob = Annotated[OnJob, Depends(OfJob(grants.SEE_CANDIDATES))]

_writing: dict[str, object] = {}
may_fail(_writing, ConflictError, QuotaExceededError, TooLargeError)


@router.post("/merges", response_model=Merge, status_code=202, summary="Propose a merge", openapi_extra=_writing)
async def post_merge(
    at: Annotated[OnJob, Depends(OfReview(grants.DECIDE, grants.SEE_CANDIDATES))],
    body: Annotated[MergeRequest, Depends(JsonBody(MergeRequest))],
) -> Response:
    """Propose one text made of several candidates for a key, as the verified caller.

    The operator makes a candidate of it, with the sources and runs of all of them, in the narrowest scope; it waits for
    reviewers, of whom its author, and theirs, are none. They stay open until it is accepted. The same again is the same
    merge, under the same `candidate_id`.
    """
    row = await merging.propose(
        at.store.db,
        job=at.job,
        author=at.caller.username,
        body=await merging.canonical(body.content),
        inputs=body.inputs,
        base_revision=int(body.base_revision),
        with_record=body.with_record,
    )
    return reply(merging.wire(row), status=202)


@router.get("/merges", response_model=MergePage, summary="List merges")
async def list_merges(at: AtJob, parts: WithParts, query: PageQuery) -> Response:
    """What was proposed to make of the job's candidates, the oldest first, and what came of it. An agent sees none."""
    pager = Pager(parts.sealer, f"merges {at.job.job_id}")
    after = pager.place(query.cursor) or ""
    items = [] if at.only_branch else await merging.page(at.store.db, at.job, after=after, limit=query.limit)
    cursor = pager.after(items, query.limit, lambda item: item.candidate_id)
    return reply(MergePage(items=tuple(items), next_cursor=cursor))


@router.post("/drafts", response_model=Draft, status_code=201, summary="Keep a draft", openapi_extra=_writing)
async def post_draft(at: AtJob, body: Annotated[DraftRequest, Depends(JsonBody(DraftRequest))]) -> Response:
    """Keep a text for a merge that stands, or will stand, in the job's `spec.reviews`, and names it by its hash.

    By itself it does nothing, and is shown to nobody: who decides is whoever may write there.
    """
    if at.only_branch is not None:
        raise ForbiddenError(
            "An agent writes no texts for the review of its own findings.", hint="Submit another finding."
        )
    digest = await merging.draft(
        at.store.db, job=at.job, author=at.caller.username, body=await merging.canonical(body.content)
    )
    return reply(Draft(content_hash=hash_text(digest)), status=201)
