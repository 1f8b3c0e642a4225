"""The key-value contract of instantKV on a branch, so that its clients go on unchanged with another base URL.

What is written here lands in the branch's private overlay, under ``kv/<namespace>/<key>``; nothing of it is shared
without a finding.
"""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch import __version__
from anabranch.api.access import OfOwnBranch
from anabranch.api.bodies import JsonBody, RawBody
from anabranch.api.kv import KvRoute
from anabranch.api.kv import response as error_response
from anabranch.api.paging import Pager, QueryModel
from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import may_fail
from anabranch.api.visibility import OnBranch, base_scopes
from anabranch.identity import grants
from anabranch.kv import checkpoints, memories, records
from anabranch.kv.memories import Recall
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, QuotaExceededError
from anabranch.model.kv import (
    Budget,
    KvCheckpointReceipt,
    KvCheckpointRequest,
    KvHealth,
    KvName,
    KvPage,
    KvReceipt,
    KvRestore,
    KvStats,
    MemoryHit,
    MemoryPage,
    MemoryRanking,
    MemorySearch,
    Millis,
    RememberRequest,
    Ttl,
)
from anabranch.model.limits import CONTENT_BYTES, KEY_BYTES, PAGE_DEFAULT, PAGE_MAX, TEXT_PATTERN

router = APIRouter(
    prefix="/v1/namespaces/{namespace}/branches/{branch}/kv", route_class=KvRoute, tags=["key-value contract"]
)

AtOwnBranch = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH))]
SpacePath = Annotated[KvName, Path(alias="space", description="a namespace of the branch; made by its first write")]
KeyPath = Annotated[str, Path(alias="key", max_length=KEY_BYTES)]
IdPath = Annotated[KvName, Path(alias="checkpoint")]
AgentPath = Annotated[KvName, Path(alias="agent")]
SessionPath = Annotated[KvName, Path(alias="session")]

_REVISION: Final = re.compile(r'"([1-9][0-9]{0,17})"')
_INERT: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Cache-Control": "no-store"}
"""What an agent wrote must never run in the browser of whoever looks at it."""

_writing: dict[str, object] = {}
may_fail(_writing, ConflictError, QuotaExceededError)
_deleting: dict[str, object] = {}
may_fail(_deleting, ConflictError)

_value = RawBody(limit=CONTENT_BYTES, what="value", media_type="*/*", hint="Split it into several records.")


class WriteQuery(QueryModel):
    """How long a record is kept."""

    ttl_seconds: Ttl | None = Field(None, description="seconds until nobody sees it any more; default: for ever")


class ListQuery(QueryModel):
    """Which records to list."""

    prefix: str = Field("", max_length=KEY_BYTES, pattern=TEXT_PATTERN, description="what their keys begin with")
    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="items at most")
    cursor: str | None = Field(None, max_length=2048, description="`next_cursor` of the page before")


class RecallQuery(QueryModel):
    """Which memories to recall."""

    topic: str | None = None
    tag: str | None = None
    query: str | None = Field(None, description="texts that all stand in the content; case does not count")
    since_ms: Millis | None = Field(None, description="when it happened at the earliest")
    until_ms: Millis | None = Field(None, description="and at the latest")
    limit: int = Field(20, ge=1, le=100)
    max_bytes: Budget = 16_384
    cursor: str | None = Field(None, max_length=2048, description="`next_cursor` of the page before")


class RestoreQuery(QueryModel):
    """How large the answer may be."""

    max_bytes: int = Field(32_768, ge=512, le=1 << 20)


@router.get("/healthz", response_model=KvHealth, summary="Whether the base URL answers")
async def health(at: AtOwnBranch) -> Response:  # noqa: ARG001  (that it is there is the answer)
    """What a client of the contract asks first."""
    return reply(KvHealth(version=__version__))


@router.get("/v1/namespaces/{space}/records", response_model=KvPage, summary="List records of a namespace")
async def list_records(
    at: AtOwnBranch, space: SpacePath, parts: WithParts, query: Annotated[ListQuery, Query()]
) -> Response:
    """Records by key, without their values."""
    pager = Pager(parts.sealer, f"kv list {at.branch.branch_id} {space} {query.prefix}")
    after = pager.place(query.cursor) or ""
    items = await records.page(
        at.store.db, at.branch, namespace=space, prefix=query.prefix, after=after, limit=query.limit
    )
    return reply(KvPage(items=tuple(items), next_cursor=pager.after(items, query.limit, lambda item: item.key)))


@router.get(
    "/v1/namespaces/{space}/records/{key:path}",
    response_class=Response,
    summary="Read a record's value",
    responses={200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_record(at: AtOwnBranch, space: SpacePath, key: KeyPath) -> Response:
    """The bytes as they were written; the revision is the ETag."""
    row = await records.get(at.store.db, at.branch, namespace=space, key=key)
    return Response(row.value, headers={**_INERT, "ETag": f'"{row.revision}"', "Content-Type": row.media_type})


@router.put(
    "/v1/namespaces/{space}/records/{key:path}",
    response_model=KvReceipt,
    summary="Write a record",
    openapi_extra=_writing,
)
async def put_record(  # noqa: PLR0913, PLR0917  (the framework gives each by its name)
    at: AtOwnBranch,
    space: SpacePath,
    key: KeyPath,
    parts: WithParts,
    request: Request,
    query: Annotated[WriteQuery, Query()],
    body: Annotated[bytes, Depends(_value)],
) -> Response:
    """Write a value.

    With `If-Match: "<revision>"` only over that revision, with `If-None-Match: *` only where there is none.
    """
    receipt = await records.put(
        at.store.db,
        at.branch,
        namespace=space,
        key=key,
        raw=body,
        ttl_seconds=query.ttl_seconds,
        expected=_expected(request),
        readable=await base_scopes(parts, at),
    )
    return reply(receipt, headers={"ETag": f'"{receipt.revision}"'})


@router.delete(
    "/v1/namespaces/{space}/records/{key:path}", status_code=204, summary="Delete a record", openapi_extra=_deleting
)
async def delete_record(at: AtOwnBranch, space: SpacePath, key: KeyPath, request: Request) -> Response:
    """Delete a record; with `If-Match` only that revision."""
    await records.delete(at.store.db, at.branch, namespace=space, key=key, expected=_expected(request))
    return Response(status_code=204)


@router.get("/v1/namespaces/{space}/stats", response_model=KvStats, summary="What a namespace holds")
async def stats(at: AtOwnBranch, space: SpacePath) -> Response:
    """Records, bytes of keys and values, and the revision of the newest write."""
    return reply(await records.stats(at.store.db, at.branch, namespace=space))


@router.post(
    "/v1/namespaces/{space}/checkpoints",
    response_model=KvCheckpointReceipt,
    summary="Save a checkpoint",
    openapi_extra=_writing,
)
async def save_checkpoint(
    at: AtOwnBranch,
    space: SpacePath,
    body: Annotated[KvCheckpointRequest, Depends(JsonBody(KvCheckpointRequest))],
) -> Response:
    """Keep what a task needs to go on, and make it its session's latest. The same again is the same checkpoint."""
    return reply(await checkpoints.save(at.store.db, at.branch, namespace=space, request=body))


@router.get("/v1/namespaces/{space}/checkpoints/{checkpoint}", response_model=KvRestore, summary="Restore a checkpoint")
async def restore(
    at: AtOwnBranch, space: SpacePath, checkpoint: IdPath, query: Annotated[RestoreQuery, Query()]
) -> Response:
    """A checkpoint, and what has become of the records that it stands on."""
    found = await checkpoints.restore(
        at.store.db, at.branch, namespace=space, checkpoint_id=checkpoint, max_bytes=query.max_bytes
    )
    return reply(found)


@router.delete(
    "/v1/namespaces/{space}/checkpoints/{checkpoint}",
    status_code=204,
    summary="Delete an old checkpoint",
    openapi_extra=_deleting,
)
async def delete_checkpoint(at: AtOwnBranch, space: SpacePath, checkpoint: IdPath) -> Response:
    """Tell of a checkpoint no longer; never of a session's latest. The branch keeps it, for findings that cite it."""
    await checkpoints.delete(at.store.db, at.branch, namespace=space, checkpoint_id=checkpoint)
    return Response(status_code=204)


@router.get(
    "/v1/namespaces/{space}/sessions/{agent}/{session}/latest",
    response_model=KvRestore,
    summary="Restore a session's latest checkpoint",
)
async def restore_latest(
    at: AtOwnBranch,
    space: SpacePath,
    agent: AgentPath,
    session: SessionPath,
    query: Annotated[RestoreQuery, Query()],
) -> Response:
    """The checkpoint that a session was saved by last."""
    found = await checkpoints.restore_latest(
        at.store.db, at.branch, namespace=space, agent_id=agent, session_id=session, max_bytes=query.max_bytes
    )
    return reply(found)


@router.post(
    "/v1/namespaces/{space}/memories",
    response_model=MemoryHit,
    summary="Remember a structured memory",
    openapi_extra=_writing,
)
async def remember(
    at: AtOwnBranch,
    space: SpacePath,
    parts: WithParts,
    body: Annotated[RememberRequest, Depends(JsonBody(RememberRequest))],
) -> Response:
    """Keep a memory: a new one, or with `if_revision` in the place of the one that was seen."""
    readable = await base_scopes(parts, at)
    return reply(await memories.remember(at.store.db, at.branch, namespace=space, request=body, readable=readable))


@router.get("/v1/namespaces/{space}/memories", response_model=MemoryPage, summary="Recall structured memories")
async def recall(
    at: AtOwnBranch, space: SpacePath, parts: WithParts, query: Annotated[RecallQuery, Query()]
) -> Response:
    """Memories by when they happened, the newest first; go on with `next_cursor` after an empty page, too."""
    asked = Recall(**query.model_dump())
    return reply(await memories.recall(at.store.db, at.branch, parts.sealer, namespace=space, asked=asked))


@router.get("/v1/namespaces/{space}/memories/{key:path}", response_model=MemoryHit, summary="Read a structured memory")
async def get_memory(at: AtOwnBranch, space: SpacePath, key: KeyPath) -> Response:
    """A memory by its key."""
    hit = await memories.exact(at.store.db, at.branch, namespace=space, key=key)
    return reply(hit, headers={"ETag": f'"{hit.revision}"'})


@router.delete(
    "/v1/namespaces/{space}/memories/{key:path}",
    status_code=204,
    summary="Forget a structured memory",
    openapi_extra=_deleting,
)
async def forget(at: AtOwnBranch, space: SpacePath, key: KeyPath, request: Request) -> Response:
    """Delete a memory; with `If-Match` only that revision. A record that is no memory counts as none."""
    expected = _expected(request)
    await records.delete(at.store.db, at.branch, namespace=space, key=key, expected=expected, only_memory=True)
    return Response(status_code=204)


@router.post("/v1/namespaces/{space}/search", response_model=MemoryRanking, summary="Search structured memories")
async def search(
    at: AtOwnBranch,
    space: SpacePath,
    parts: WithParts,
    body: Annotated[MemorySearch, Depends(JsonBody(MemorySearch))],
) -> Response:
    """Memories by BM25 of their words, the best first. A cursor is good until the namespace is written to."""
    async with at.store.searcher.turn():
        return reply(await memories.search(at.store.db, at.branch, parts.sealer, namespace=space, asked=body))


@router.api_route("/{rest:path}", methods=["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"], include_in_schema=False)
async def elsewhere(request: Request) -> Response:
    """What the contract does not have."""
    path = request.url.path[:200]
    return error_response(NotFoundError(f"The contract has no {request.method} {path}.", hint="Mend the path."))


def _expected(request: Request) -> int | None:
    """The revision that a write demands; 0: none; None: whatever is there."""
    match, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match is None and none_match is None:
        return None
    if match is None and none_match == "*":
        return 0
    if none_match is None and match is not None and (tag := _REVISION.fullmatch(match)):
        return int(tag[1])
    raise InvalidInputError(
        "The precondition is not understood.", hint='Send either If-Match: "<revision>" or If-None-Match: *.'
    )
