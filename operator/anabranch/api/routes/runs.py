"""What an agent says of its run: that it is there, how far it follows, and what it would go on from."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import Field

from anabranch.api.access import OfOwnBranch
from anabranch.api.bodies import ENVELOPE_BYTES, JsonBody
from anabranch.api.paging import Pager, Paging
from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnBranch, base_scopes
from anabranch.branches import checkpoints, following, presence, rebasing
from anabranch.feed.expiry import CursorExpiredError
from anabranch.identity import grants
from anabranch.model.crd.base import Token
from anabranch.model.errors import ConflictError, GoneError
from anabranch.model.objects import AgentPresence
from anabranch.model.runs import (
    Checkpoint,
    CheckpointPage,
    CheckpointWrite,
    CursorWrite,
    FeedPlace,
    PresenceWrite,
    RebasePage,
)

router = APIRouter(prefix="/v1/namespaces/{namespace}/branches/{branch}", route_class=Route, tags=["runs"])

AtOwnBranch = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH))]
AtView = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH, grants.READ_RECORDS, grants.SCOPE_READ))]
CheckpointId = Annotated[Token, Path(alias="checkpoint", description="the agent's own choice, once and for all")]

_conflicting: dict[str, object] = {}
may_fail(_conflicting, ConflictError)
_gone: dict[str, object] = {}
may_fail(_gone, GoneError)
_saving: dict[str, object] = {}
may_fail(_saving, ConflictError, CursorExpiredError)


class CheckpointQuery(Paging):
    """Which checkpoints to list."""

    session: Token | None = Field(None, description="only of this session; with `limit=1`: its latest")


class RebaseQuery(Paging):
    """What to compare the private overlay with."""

    to: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="generation, baseline id, current or head; default: the parent",
    )


@router.put(
    "/presence", response_model=AgentPresence, summary="Say that the agent is there", openapi_extra=_conflicting
)
async def put_presence(
    at: AtOwnBranch,
    parts: WithParts,
    body: Annotated[PresenceWrite, Depends(JsonBody(PresenceWrite, limit=ENVELOPE_BYTES))],
) -> Response:
    """Renew the run's lease until the deadline that is answered. Peers see the run as it is answered."""
    return reply(await presence.renew(at.store.db, parts.sealer, branch=at.branch, write=body))


@router.get("/cursor", response_model=FeedPlace, summary="How far the run follows")
async def get_cursor(at: AtOwnBranch, parts: WithParts) -> Response:
    """The place in the feed that was saved, or that of the parent manifest where that includes more."""
    return reply(await following.place(at.store.db, parts.sealer, branch=at.branch))


@router.put("/cursor", response_model=FeedPlace, summary="Save how far the run follows", openapi_extra=_saving)
async def put_cursor(
    at: AtOwnBranch,
    parts: WithParts,
    body: Annotated[CursorWrite, Depends(JsonBody(CursorWrite, limit=ENVELOPE_BYTES))],
) -> Response:
    """Save a place in the feed, once everything before it is applied.

    A place never moves back: the answer is what is saved now.
    """
    return reply(await following.save(at.store.db, parts.sealer, branch=at.branch, cursor=body.cursor))


@router.get("/checkpoints", response_model=CheckpointPage, summary="List checkpoints")
async def list_checkpoints(at: AtOwnBranch, parts: WithParts, query: Annotated[CheckpointQuery, Query()]) -> Response:
    """The run's checkpoints, newest first."""
    pager = Pager(parts.sealer, f"checkpoints {at.branch.branch_id} {query.session or ''}")
    items = await checkpoints.page(
        at.store.db,
        branch=at.branch,
        session_id=query.session,
        before=pager.place(query.cursor),
        limit=query.limit,
    )
    cursor = pager.after(items, query.limit, lambda item: item.ordinal)
    return reply(CheckpointPage(items=tuple(items), next_cursor=cursor))


@router.put(
    "/checkpoints/{checkpoint}",
    response_model=Checkpoint,
    summary="Keep a checkpoint",
    responses={201: {"model": Checkpoint, "description": "It is new"}},
    openapi_extra=_conflicting,
)
async def put_checkpoint(
    at: AtOwnBranch,
    checkpoint: CheckpointId,
    body: Annotated[CheckpointWrite, Depends(JsonBody(CheckpointWrite, limit=2 * ENVELOPE_BYTES))],
) -> Response:
    """Keep a context capsule under an id, for good; the same again changes nothing."""
    found, new = await checkpoints.keep(at.store.db, branch=at.branch, checkpoint_id=checkpoint, write=body)
    return reply(found, status=201 if new else 200)


@router.get("/checkpoints/{checkpoint}", response_model=Checkpoint, summary="Read a checkpoint")
async def get_checkpoint(at: AtOwnBranch, checkpoint: CheckpointId) -> Response:
    """A checkpoint of this run."""
    return reply(await checkpoints.find(at.store.db, branch=at.branch, checkpoint_id=checkpoint))


@router.get("/rebase", response_model=RebasePage, summary="What another parent would contradict", openapi_extra=_gone)
async def get_rebase(at: AtView, parts: WithParts, query: Annotated[RebaseQuery, Query()]) -> Response:
    """The private records that are based on another revision than a manifest shows, and say something else.

    With `to`, what a rebase there would leave to be settled; without it, what the last one left. A rebase itself is
    ordered by `spec.rebase.toGeneration` of the Branch, and by nothing else.
    """
    pager = Pager(parts.sealer, f"rebase {at.branch.branch_id} {query.to or ''}")
    scopes = await base_scopes(parts, at)
    to, after = pager.place(query.cursor) or (
        query.to,
        "",
    )  # all pages are about one manifest, whatever moves
    found = await rebasing.conflicts(at.store.db, at.branch, to=to, scopes=scopes, after=after, limit=query.limit)
    cursor = pager.after(found.items, query.limit, lambda item: [str(found.target.generation), item.key])
    return reply(found.model_copy(update={"next_cursor": cursor}))
