"""Who else works with a Baseline: what each run permits to be told of it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from anabranch.api.access import OfBaseline
from anabranch.api.paging import Pager, Paging
from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route
from anabranch.api.visibility import OnBaseline
from anabranch.branches import presence
from anabranch.identity import grants
from anabranch.model.objects import PeerState
from anabranch.model.runs import PeerPage

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines/{baseline}", route_class=Route, tags=["runs"])


class PeersQuery(Paging):
    """Which runs to list."""

    state: PeerState | None = Field(None, description="only runs in this state")


@router.get("/peers", response_model=PeerPage, summary="List the runs of a baseline")
async def list_peers(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.FOLLOW_EVENTS))],
    parts: WithParts,
    query: Annotated[PeersQuery, Query()],
) -> Response:
    """The live and the completed runs: whose they are, whether their agents are there, and how far they are.

    A lease that ran out means that an agent is stale, and never that its run is completed.
    """
    pager = Pager(parts.sealer, f"peers {at.line} {query.state or ''}")
    items = await presence.peers(
        at.store.db,
        parts.sealer,
        line=at.line,
        states=None if query.state is None else [query.state],
        after=pager.place(query.cursor) or "",
        limit=query.limit,
    )
    cursor = pager.after(items, query.limit, lambda item: item.branch_id)
    return reply(PeerPage(items=tuple(items), next_cursor=cursor))
