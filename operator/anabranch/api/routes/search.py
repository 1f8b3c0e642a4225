"""Search: in a baseline as of a generation, and in what a branch sees."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from anabranch.api.access import OfBaseline, OfOwnBranch
from anabranch.api.paging import Pager, QueryModel
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import ASK_AGAIN, kept
from anabranch.api.routing import Route
from anabranch.api.visibility import OnBaseline, OnBranch, base_scopes
from anabranch.branches import following
from anabranch.identity import grants
from anabranch.model.answers import SearchPage
from anabranch.model.limits import SEARCH_PAGE_DEFAULT, SEARCH_PAGE_MAX, SEARCH_TEXT, TEXT_PATTERN
from anabranch.search.asking import Search

router = APIRouter(prefix="/v1/namespaces/{namespace}", route_class=Route, tags=["search"])


class SearchQuery(QueryModel):
    """What to search for."""

    q: str = Field(
        min_length=1,
        max_length=SEARCH_TEXT,
        pattern=TEXT_PATTERN,
        description="words, of which a record has at least one; nothing in it is an operator",
    )
    limit: int = Field(SEARCH_PAGE_DEFAULT, ge=1, le=SEARCH_PAGE_MAX, description="hits at most")
    cursor: str | None = Field(None, max_length=2048, description="`next_cursor` of the page before")


class BaselineSearchQuery(SearchQuery):
    """Where to search, too."""

    generation: str = Field(
        "current", max_length=64, description="a generation, a baseline id, `current` or `head`; all pages are of one"
    )


@router.get("/baselines/{baseline}/search", response_model=SearchPage, summary="Search a baseline")
async def search_baseline(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.READ_RECORDS, grants.SCOPE_READ))],
    parts: WithParts,
    query: Annotated[BaselineSearchQuery, Query()],
    request: Request,
) -> Response:
    """The records of one manifest that answer some words best (BM25), in scopes that the caller may read."""
    pager = Pager(parts.sealer, f"search {at.line} {query.generation} {query.q}")
    return await _answer(
        request, parts, query, pager, line=at.line, ref=query.generation, scopes=at.scopes, branch=None
    )


@router.get("/branches/{branch}/search", response_model=SearchPage, summary="Search what a branch sees")
async def search_branch(
    at: Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH, grants.READ_RECORDS, grants.SCOPE_READ))],
    parts: WithParts,
    query: Annotated[SearchQuery, Query()],
    request: Request,
) -> Response:
    """The private records, and those published ones that none of them stands before, that answer best.

    The published ones are those of the parent manifest, or of what the run has taken over since where it applies what
    it follows; in scopes that the agent may read now.
    """
    branch = at.branch
    pager = Pager(parts.sealer, f"search {branch.branch_id} {query.q}")
    scopes = await base_scopes(parts, at)
    generation = await following.seen(parts.db, branch)
    return await _answer(request, parts, query, pager, line=branch.line, ref=generation, scopes=scopes, branch=at)


async def _answer(  # noqa: PLR0913  (a search has that many bounds)
    request: Request,
    parts: Parts,
    query: SearchQuery,
    pager: Pager,
    *,
    line: str,
    ref: str | int,
    scopes: Sequence[str],
    branch: OnBranch | None,
) -> Response:
    generation, offset = pager.place(query.cursor) or (ref, 0)
    asked = Search(line=line, ref=generation, scopes=scopes, text=query.q, branch=branch.branch if branch else None)
    found = await parts.searcher.search(asked, offset=offset, limit=query.limit)
    place = [found.manifest.generation, offset + len(found.hits)] if found.more else None
    page = SearchPage.model_construct(
        items=tuple(found.hits),
        next_cursor=pager.cursor(place),
        manifest=found.manifest,
        indexed_through=found.indexed_through,
        complete=found.complete,
    )
    return kept(request, page, caching=ASK_AGAIN)
