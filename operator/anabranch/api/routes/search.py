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
from anabranch.api.stores import Store
from anabranch.api.visibility import OnBaseline, OnBranch, base_scopes
from anabranch.branches import following
from anabranch.identity import grants
from anabranch.model.found import SearchMode, SearchPage
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
    mode: SearchMode | None = Field(
        None,
        description="`words`, or `hybrid`: by words and meaning, where the installation has an embedder; unless given "
        "as the installation says",
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
    """The records of one manifest that answer some words best, in scopes that the caller may read.

    By BM25, or by that and meaning.
    """
    pager = _pager(parts, at.store, f"{at.line} {query.generation}", query)
    return await _answer(
        request, at.store, query, pager, line=at.line, ref=query.generation, scopes=at.scopes, branch=None
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
    pager = _pager(parts, at.store, branch.branch_id, query)
    scopes = await base_scopes(parts, at)
    generation = await following.seen(at.store.db, branch)
    return await _answer(request, at.store, query, pager, line=branch.line, ref=generation, scopes=scopes, branch=at)


def _pager(parts: Parts, store: Store, where: str, query: SearchQuery) -> Pager:
    """Of this search alone; one by words has the cursors that it always had."""
    mode = "" if (query.mode or store.searcher.mode) == "words" else "hybrid "
    return Pager(parts.sealer, f"search {mode}{where} {query.q}")


async def _answer(  # noqa: PLR0913  (a search has that many bounds)
    request: Request,
    store: Store,
    query: SearchQuery,
    pager: Pager,
    *,
    line: str,
    ref: str | int,
    scopes: Sequence[str],
    branch: OnBranch | None,
) -> Response:
    generation, offset = pager.place(query.cursor) or (ref, 0)
    asked = Search(
        line=line,
        ref=generation,
        scopes=scopes,
        text=query.q,
        branch=branch.branch if branch else None,
        mode=query.mode or store.searcher.mode,
    )
    found = await store.searcher.search(asked, offset=offset, limit=query.limit)
    place = [found.manifest.generation, offset + len(found.hits)] if found.more else None
    page = SearchPage.model_construct(
        items=tuple(found.hits),
        next_cursor=pager.cursor(place),
        manifest=found.manifest,
        indexed_through=found.indexed_through,
        complete=found.complete,
        mode=found.mode,
        words_alone=found.words_alone,
        without_vector=found.without_vector,
    )
    return kept(request, page, caching=ASK_AGAIN)
