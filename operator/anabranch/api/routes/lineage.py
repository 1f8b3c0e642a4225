"""Lineage: where a record comes from and where it went, and asking for one to be withdrawn."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch.api.access import OfBaseline
from anabranch.api.bodies import ENVELOPE_BYTES, JsonBody
from anabranch.api.paging import PageQuery, Pager, Paging
from anabranch.api.parts import WithParts
from anabranch.api.replies import ASK_AGAIN, kept, reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnBaseline, visible
from anabranch.consolidation import retracting, traced, tracing
from anabranch.identity import grants
from anabranch.model.errors import ConflictError
from anabranch.model.lineage import Retraction, RetractionPage, Trace
from anabranch.model.requests import RetractionRequest
from anabranch.model.wire import Key, Revision

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines/{baseline}", route_class=Route, tags=["lineage"])

AtRecords = Annotated[OnBaseline, Depends(OfBaseline(grants.READ_RECORDS, grants.SCOPE_READ))]

_asking: dict[str, object] = {}
may_fail(_asking, ConflictError)


class TraceQuery(Paging):
    """What to trace."""

    revision: Revision | None = Field(
        None, description="whose content is traced, at whichever revisions the key says so; default: the newest"
    )


@router.get("/records/{key:path}/trace", response_model=Trace, summary="Trace a record")
async def trace(
    at: AtRecords,
    key: Annotated[Key, Path()],
    parts: WithParts,
    query: Annotated[TraceQuery, Query()],
    request: Request,
) -> Response:
    """Where what a record says comes from, and where it went.

    That is its versions with their sources, what was derived from it over any number of steps, and, as far as the
    caller may see them, its candidates with their reviews, the candidates that cite it, and the runs that have it.
    Every page repeats all but what was derived.
    """
    line, caller = at.state.line, at.caller
    pager = Pager(parts.sealer, f"trace {at.line} {key} {query.revision}")
    peers = await parts.grants.allowed(caller, grants.FOLLOW_EVENTS, namespace=line.namespace, name=line.name)
    async with at.store.searcher.turn():
        found = await tracing.trace(
            at.store.db,
            line=at.line,
            key=key,
            revision=None if query.revision is None else int(query.revision),
            scopes=at.scopes,
            peers=peers,
            after=pager.place(query.cursor),
            limit=query.limit,
        )
    jobs = sorted(found.jobs)
    seen = await visible(parts, caller, grants.SEE_CANDIDATES, namespace=line.namespace, names=jobs) if jobs else set()
    return kept(request, found.shown(seen, next_cursor=pager.cursor(found.place)), caching=ASK_AGAIN)


@router.post(
    "/retractions", response_model=Retraction, status_code=202, summary="Ask for a retraction", openapi_extra=_asking
)
async def post_retraction(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.PROPOSE_RETRACTION, grants.SCOPE_READ))],
    body: Annotated[RetractionRequest, Depends(JsonBody(RetractionRequest, limit=ENVELOPE_BYTES))],
) -> Response:
    """Ask for what a record says to be withdrawn, and for all that was derived from it to be marked.

    The operator makes one job of it, which reviewers decide, always. The same again, while it is not decided, is the
    same retraction.
    """
    row = await retracting.request(at.store.db, line=at.line, scopes=at.scopes, caller=at.caller, body=body)
    return reply(traced.retraction(row), status=202)


@router.get("/retractions", response_model=RetractionPage, summary="List retractions")
async def list_retractions(at: AtRecords, parts: WithParts, query: PageQuery) -> Response:
    """What was asked to be withdrawn in scopes that the caller may read, and what came of it, the newest first."""
    pager = Pager(parts.sealer, f"retractions {at.line}")
    before = pager.place(query.cursor) or ""
    items = await tracing.retraction_page(at.store.db, line=at.line, scopes=at.scopes, before=before, limit=query.limit)
    cursor = pager.after(items, query.limit, lambda item: item.retraction_id)
    return reply(RetractionPage.model_construct(items=tuple(items), next_cursor=cursor))


@router.get("/retractions/{retraction}", response_model=Retraction, summary="Show a retraction")
async def get_retraction(
    at: AtRecords,
    retraction: Annotated[str, Path(max_length=63, pattern=r"^retr(_[0-9a-z]{26}){2}$")],
    request: Request,
) -> Response:
    """What was asked to be withdrawn, and what came of it."""
    found = await tracing.retraction(at.store.db, line=at.line, retraction_id=retraction, scopes=at.scopes)
    return kept(request, found, caching=ASK_AGAIN)
