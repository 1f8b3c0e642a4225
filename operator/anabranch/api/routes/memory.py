"""An agent's memory: the envelope of one of its instances, section by section, and what it was told of its siblings."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch.api.bodies import ENVELOPE_BYTES, JsonBody
from anabranch.api.conditions import expected
from anabranch.api.own_agent import OfOwnAgent
from anabranch.api.paging import QueryModel
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnAgent
from anabranch.identity import grants
from anabranch.memory import envelopes, syncing
from anabranch.model.errors import InvalidInputError, PreconditionFailedError, SectionNotWritableError
from anabranch.model.limits import MEMORY_BYTES, MEMORY_SECTION_BYTES, TEXT_PATTERN
from anabranch.model.memory import (
    MemoryEnvelope,
    MemorySection,
    MemorySections,
    MemorySync,
    MemorySynced,
    PutSection,
    SectionHistory,
    SystemExchanges,
)

router = APIRouter(
    prefix="/v1/namespaces/{namespace}/agents/{agent}/{instance}/memory", route_class=Route, tags=["agent memory"]
)

own_agent: Final = OfOwnAgent(grants.OWN_MEMORY, grants.USE_AGENT_ID)
AtOwnAgent = Annotated[OnAgent, Depends(own_agent)]
SectionPath = Annotated[
    str,
    Path(
        alias="section",
        max_length=64,
        pattern=TEXT_PATTERN,
        description="long_term, dedup_state, shared, daily or relationships; system_exchanges can only be read",
    ),
]
ItemPath = Annotated[
    str,
    Path(
        alias="item",
        max_length=64,
        pattern=TEXT_PATTERN,
        description="of daily the date, of relationships the other instance",
    ),
]

SECTION_BYTES: Final = MEMORY_SECTION_BYTES + ENVELOPE_BYTES
SYNC_BYTES: Final = MEMORY_BYTES + 4 * ENVELOPE_BYTES

_writing: dict[str, Any] = {}
may_fail(_writing, SectionNotWritableError, PreconditionFailedError)
_syncing: dict[str, Any] = {}
may_fail(_syncing, SectionNotWritableError)

Read = MemorySection | MemorySections | SystemExchanges | SectionHistory


class SectionQuery(QueryModel):
    """What of a section, or of an item of one, to read."""

    history: bool = Field(False, description="what it said before, the last five times, instead of what it says")
    siblings: bool = Field(
        False, description="what your other instances let you see of theirs, instead of what yours says"
    )


@router.get("", response_model=MemoryEnvelope, summary="Read an agent's memory")
async def get_memory(at: AtOwnAgent) -> Response:
    """Everything that this instance remembers, and the exchanges that it was told of. Nothing is marked as seen."""
    return reply(await envelopes.read(at.store.db, at.who))


@router.post("/sync", response_model=MemorySynced, summary="Sync an agent's memory", openapi_extra=_syncing)
async def sync_memory(
    at: AtOwnAgent,
    body: Annotated[MemorySync, Depends(JsonBody(MemorySync, limit=SYNC_BYTES))],
) -> Response:
    """Write many sections at once: `patch` those that are given, or `full`, which removes the others too.

    The same again on the same day, with nothing of the agent's own written in between, is known and writes nothing.
    """
    return reply(await syncing.sync(at.store.db, at.who, body))


@router.get("/{section}", response_model=Read, summary="Read a section of an agent's memory")
async def get_section(
    at: AtOwnAgent, section: SectionPath, query: Annotated[SectionQuery, Query()], request: Request
) -> Response:
    """A section; of `daily` and `relationships` all items. Reading `system_exchanges` marks its entries as seen."""
    return await _get(at, request, query, section=section, item=None)


@router.put(
    "/{section}", response_model=MemorySection, summary="Write a section of an agent's memory", openapi_extra=_writing
)
async def put_section(
    at: AtOwnAgent,
    section: SectionPath,
    request: Request,
    body: Annotated[PutSection, Depends(JsonBody(PutSection, limit=SECTION_BYTES))],
) -> Response:
    """Write a section.

    With `If-Match: "<revision>"` only over that revision, with `If-None-Match: *` only where there is none.
    """
    return await _put(at, request, body, section=section, item=None)


@router.delete("/{section}", status_code=204, summary="Delete a section of an agent's memory", openapi_extra=_writing)
async def delete_section(at: AtOwnAgent, section: SectionPath, request: Request) -> Response:
    """Delete a section; with `If-Match` only that revision."""
    return await _delete(at, request, section=section, item=None)


@router.get("/{section}/{item}", response_model=Read, summary="Read an item of an agent's memory")
async def get_item(
    at: AtOwnAgent,
    section: SectionPath,
    item: ItemPath,
    query: Annotated[SectionQuery, Query()],
    request: Request,
) -> Response:
    """An item of `daily` or `relationships`. Its revision is the ETag."""
    return await _get(at, request, query, section=section, item=item)


@router.put(
    "/{section}/{item}",
    response_model=MemorySection,
    summary="Write an item of an agent's memory",
    openapi_extra=_writing,
)
async def put_item(
    at: AtOwnAgent,
    section: SectionPath,
    item: ItemPath,
    request: Request,
    body: Annotated[PutSection, Depends(JsonBody(PutSection, limit=SECTION_BYTES))],
) -> Response:
    """Write an item of `daily` or `relationships`, with the same preconditions as a section."""
    return await _put(at, request, body, section=section, item=item)


@router.delete(
    "/{section}/{item}", status_code=204, summary="Delete an item of an agent's memory", openapi_extra=_writing
)
async def delete_item(at: AtOwnAgent, section: SectionPath, item: ItemPath, request: Request) -> Response:
    """Delete an item; with `If-Match` only that revision."""
    return await _delete(at, request, section=section, item=item)


async def _get(at: OnAgent, request: Request, query: SectionQuery, *, section: str, item: str | None) -> Response:
    if query.history and query.siblings:
        raise InvalidInputError("A history is of one's own memory.", hint="Leave out `siblings` or `history`.")
    if query.history:
        return reply(await envelopes.history(at.store.db, at.who, section=section, item=item))
    return _read(
        await envelopes.read_section(
            at.store.db,
            at.who,
            section=section,
            item=item,
            siblings=query.siblings,
            shown=request.method != "HEAD",
        )
    )


async def _put(at: OnAgent, request: Request, body: PutSection, *, section: str, item: str | None) -> Response:
    return _read(
        await envelopes.put(at.store.db, at.who, section=section, item=item, body=body, expected=expected(request))
    )


async def _delete(at: OnAgent, request: Request, *, section: str, item: str | None) -> Response:
    revision = await envelopes.delete(at.store.db, at.who, section=section, item=item, expected=expected(request))
    return Response(status_code=204, headers={"ETag": f'"{revision}"'})


def _read(found: Read) -> Response:
    """What was read; a section, or an item of one, with its revision as the tag that a write may demand."""
    return reply(found, headers={"ETag": f'"{found.revision}"'} if isinstance(found, MemorySection) else None)
