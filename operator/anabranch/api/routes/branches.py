"""Branches, the private overlay, and what the layers of a branch show."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch.api.access import Granted, Namespaced, OfBranch, OfOwnBranch
from anabranch.api.bodies import JsonBody
from anabranch.api.conditions import expected
from anabranch.api.listing import merged, told
from anabranch.api.paging import PageQuery, Pager, QueryModel
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import ASK_AGAIN, kept, reply, reply_json
from anabranch.api.routing import Route, may_fail
from anabranch.api.stores import Store
from anabranch.api.visibility import InNamespace, OnBranch, base_scopes, visible
from anabranch.baselines import read as baselines
from anabranch.branches import creation, layers, private, read
from anabranch.identity import grants
from anabranch.model.answers import BranchPage, BranchPending, PrivatePage, PrivateRecord, ViewedRecord
from anabranch.model.errors import ConflictError, PreconditionFailedError
from anabranch.model.objects import BranchManifest
from anabranch.model.requests import BranchRequest, PrivateWrite
from anabranch.model.stored import with_items
from anabranch.model.wire import Key, Layer

router = APIRouter(prefix="/v1/namespaces/{namespace}/branches", route_class=Route, tags=["branches"])

AtBranch = Annotated[OnBranch, Depends(OfBranch(grants.SEE_BRANCH))]
AtOwnBranch = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH))]
AtView = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH, grants.READ_RECORDS, grants.SCOPE_READ))]
RecordKey = Annotated[Key, Path(alias="key")]

_creating: dict[str, object] = {}
may_fail(_creating, ConflictError)
_writing: dict[str, object] = {}
may_fail(_writing, ConflictError, PreconditionFailedError)


class ViewQuery(QueryModel):
    """Which layer to look at."""

    layer: Layer = Field(
        "merged",
        description="base: the parent manifest; shared: what the followed updates say otherwise; private: the overlay; "
        "merged: the overlay over the followed updates, where they are applied, over the parent",
    )


@router.get("", response_model=BranchPage, summary="List branches")
async def list_branches(
    at: Annotated[InNamespace, Depends(Namespaced(grants.SEE_BRANCH))], parts: WithParts, query: PageQuery
) -> Response:
    """The branches of a namespace that the caller may see, by name."""
    pager = Pager(parts.sealer, f"branches {at.namespace}")
    after = pager.place(query.cursor) or ""
    rows = merged(
        await parts.stores.each(
            lambda store: read.page(store.db, namespace=at.namespace, after=after, limit=query.limit)
        )
    )[: query.limit]
    names = [row.name for _, row in rows]
    seen = await visible(parts, at.caller, grants.SEE_BRANCH, namespace=at.namespace, names=names)
    shown = [(store, row) for store, row in rows if row.name in seen]
    items = await told(shown, lambda store, some: read.describe(store.db, some, parts.sealer))
    return reply(BranchPage(items=tuple(items), next_cursor=pager.after(names, query.limit, str)))


@router.post(
    "",
    response_model=BranchManifest,
    status_code=201,
    summary="Create a branch",
    responses={
        200: {"model": BranchManifest, "description": "The same request made it before"},
        202: {
            "model": BranchPending,
            "description": "Created, by this request or before, and not forked yet: look at `Location` again",
        },
    },
    openapi_extra=_creating,
)
async def create_branch(
    at: Annotated[InNamespace, Depends(Granted(grants.CREATE_BRANCH, grants.DELEGATE))],
    parts: WithParts,
    body: Annotated[BranchRequest, Depends(JsonBody(BranchRequest))],
) -> Response:
    """Create a Branch resource, and wait a moment for its fork.

    The branch's agent must be the caller's own ServiceAccount, or one that the caller holds `delegate` for.
    """
    store = await _store_of(parts, body.baseline_namespace or at.namespace, body.baseline)
    outcome = await creation.create(store.db, parts.kube, parts.grants, at.caller, namespace=at.namespace, request=body)
    location = {"Location": f"/v1/namespaces/{at.namespace}/branches/{body.name}"}
    if isinstance(outcome.branch, BranchPending):
        return reply(outcome.branch, status=202, headers={**location, "Retry-After": "1"})
    (manifest,) = await read.describe(store.db, [outcome.branch], parts.sealer)
    return reply(manifest, status=201 if outcome.new else 200, headers=location)


@router.get("/{branch}", response_model=BranchManifest, summary="Show a branch")
async def get_branch(at: AtBranch, parts: WithParts, request: Request) -> Response:
    """A branch, by its id or its resource's name."""
    (manifest,) = await read.describe(at.store.db, [at.branch], parts.sealer)
    return kept(request, manifest, caching=ASK_AGAIN)


@router.get("/{branch}/records", response_model=PrivatePage, summary="List private records")
async def list_private(at: AtOwnBranch, parts: WithParts, query: PageQuery) -> Response:
    """The private overlay, by key."""
    pager = Pager(parts.sealer, f"private {at.branch.branch_id}")
    after = pager.place(query.cursor) or ""
    items, more = await read.private_page(at.store.db, at.branch, after=after, limit=query.limit)
    cursor = pager.cursor(items[-1].key if more else None)
    page = PrivatePage.model_construct(items=(), next_cursor=cursor)
    return reply_json(with_items(page, map(read.private_json, items)))


@router.get("/{branch}/records/{key:path}", response_model=PrivateRecord, summary="Read a private record")
async def get_private(at: AtOwnBranch, key: RecordKey) -> Response:
    """A record of the private overlay. Its revision is the ETag."""
    row = await read.private_record(at.store.db, at.branch, key)
    return reply_json(read.private_json(row), headers={"ETag": f'"{row.revision}"'})


@router.put(
    "/{branch}/records/{key:path}",
    response_model=PrivateRecord,
    summary="Write a private record",
    openapi_extra=_writing,
)
async def put_private(
    at: AtOwnBranch,
    key: RecordKey,
    parts: WithParts,
    request: Request,
    body: Annotated[PrivateWrite, Depends(JsonBody(PrivateWrite))],
) -> Response:
    """Write a record of the private overlay.

    With `If-Match: "<revision>"` only over that revision, with `If-None-Match: *` only where there is none.
    """
    row = await private.put(
        at.store.db,
        branch=at.branch,
        key=key,
        content=body.content,
        scope=body.scope,
        visibility=body.visibility,
        expected=expected(request),
        readable=await base_scopes(parts, at),
        based_on=body.base_revision,
    )
    return reply_json(read.private_json(row), headers={"ETag": f'"{row.revision}"'})


@router.delete(
    "/{branch}/records/{key:path}", status_code=204, summary="Delete a private record", openapi_extra=_writing
)
async def delete_private(at: AtOwnBranch, key: RecordKey, request: Request) -> Response:
    """Delete a record of the private overlay; with `If-Match` only that revision."""
    revision = await private.delete(at.store.db, branch=at.branch, key=key, expected=expected(request))
    return Response(status_code=204, headers={"ETag": f'"{revision}"'})


@router.get("/{branch}/view/{key:path}", response_model=ViewedRecord, summary="Read a record as the branch sees it")
async def view(at: AtView, key: RecordKey, parts: WithParts, query: Annotated[ViewQuery, Query()]) -> Response:
    """A record of one layer, or as they lie over each other, naming its layer and revision."""
    scopes = () if query.layer == "private" else await base_scopes(parts, at)
    return reply_json(await layers.view(at.store.db, at.branch, key, layer=query.layer, scopes=scopes))


async def _store_of(parts: Parts, namespace: str, baseline: str) -> Store:
    """Where a Branch of a Baseline is going to lie; one of no Baseline waits in the default store."""
    met = await parts.stores.find(
        f"baseline {namespace}/{baseline}",
        lambda store: baselines.find_with_scopes(store.db, namespace=namespace, name=baseline),
    )
    return parts.stores.default if met is None else met[0]
