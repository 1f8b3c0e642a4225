"""An agent's events: claimed by poll, pushed by a stream, acknowledged or sent back; and exchanges, which make some."""

from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch.api import frames
from anabranch.api.access import Credentials, Granted
from anabranch.api.bodies import ENVELOPE_BYTES, JsonBody
from anabranch.api.paging import Pager, Paging
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import reply
from anabranch.api.routes.memory import AtOwnAgent, own_agent
from anabranch.api.routing import Route, may_fail
from anabranch.api.streaming import MEDIA_TYPE, EventStream
from anabranch.api.visibility import InNamespace, OnAgent
from anabranch.feed.ends import FollowersError
from anabranch.identity import grants
from anabranch.memory import delivery, exchanges, polling, queue
from anabranch.model.agent_events import Claimed, ClaimRequest, EventAck, EventFailure, EventState, EventStatus
from anabranch.model.agent_queue import QueuePage
from anabranch.model.errors import ClaimLostError, ConflictError, InvalidInputError, UnauthenticatedError
from anabranch.model.limits import CLAIM_SECONDS, CLAIM_SECONDS_MAX, CLAIM_SECONDS_MIN, TEXT_PATTERN
from anabranch.model.memory import ExchangePost, ExchangeReceipt

router = APIRouter(prefix="/v1/namespaces/{namespace}", route_class=Route, tags=["agent events"])

_EVENTS: Final = "/agents/{agent}/{instance}/events"
EventPath = Annotated[str, Path(alias="event", max_length=200, pattern=TEXT_PATTERN, description="`id` of the event")]

WINDOW: Final = 10
WINDOW_MOST: Final = 100

_STREAM: Final = {
    "description": "A page of the queue; or, where `Accept` names `text/event-stream`, a stream that claims: each "
    "event with its CloudEvents type as `event` and an `AgentEvent` as `data`.",
    "content": {
        MEDIA_TYPE: {"schema": {"type": "string", "contentSchema": {"$ref": "#/components/schemas/AgentEvent"}}}
    },
}
_streaming: dict[str, Any] = {}
may_fail(_streaming, FollowersError)
_settling: dict[str, Any] = {}
may_fail(_settling, ClaimLostError)
_posting: dict[str, Any] = {}
may_fail(_posting, ConflictError)


class EventsQuery(Paging):
    """Which events to list, or how to stream."""

    status: EventStatus | None = Field(None, description="only those in this state; not of a stream")
    window: int = Field(
        WINDOW, ge=1, le=WINDOW_MOST, description="of a stream: events that may be out, unacknowledged, at a time"
    )
    visibility_seconds: int = Field(
        CLAIM_SECONDS,
        ge=CLAIM_SECONDS_MIN,
        le=CLAIM_SECONDS_MAX,
        description="of a stream: how long each event is yours to acknowledge; then it comes again",
    )


@router.get(
    _EVENTS,
    response_model=QueuePage,
    summary="List an agent's events, or stream them",
    responses={200: _STREAM},
    openapi_extra=_streaming,
)
async def get_events(
    at: AtOwnAgent,
    parts: WithParts,
    credentials: Credentials,
    query: Annotated[EventsQuery, Query()],
    request: Request,
) -> Response:
    """What is in the queue of this instance, newest first, without claiming any of it.

    A request that accepts `text/event-stream` gets a stream instead, without an end, which claims what it sends: it
    sends `window` events at most before it has seen some acknowledged.
    """
    streams = MEDIA_TYPE in request.headers.get("accept", "")
    alien = query.model_fields_set & ({"status", "limit", "cursor"} if streams else {"window", "visibility_seconds"})
    if alien:
        raise InvalidInputError(
            f"{'A stream' if streams else 'A list'} has no {' and no '.join(sorted(alien))}.",
            hint=f"Leave it out, or {'do not accept' if streams else 'accept'} {MEDIA_TYPE}.",
        )
    if streams:
        return await _stream(at, parts, query, token=credentials.credentials if credentials else "")
    pager = Pager(parts.sealer, f"events {at.who} {query.status or ''}")
    items = await queue.page(
        at.store.db, at.who, status=query.status, before=pager.place(query.cursor), limit=query.limit
    )
    cursor = pager.after(items, query.limit, lambda item: [item.created_at.isoformat(), item.event_id])
    return reply(QueuePage(items=tuple(items), next_cursor=cursor))


@router.post(f"{_EVENTS}:claim", response_model=Claimed, summary="Claim an agent's events")
async def claim_events(
    at: AtOwnAgent,
    parts: WithParts,
    request: Request,
    body: Annotated[ClaimRequest, Depends(JsonBody(ClaimRequest, limit=ENVELOPE_BYTES))],
) -> Response:
    """Take the oldest events that wait; with `wait_seconds`, those that come within a moment.

    They are the caller's until their `deadline`: acknowledge each, or report that it failed. What is neither comes
    again.
    """

    async def still() -> None:
        await own_agent.check(at.caller, parts, at.who, anew=True)

    events = await polling.poll(
        at.store.db,
        at.store.waking,
        at.who,
        limit=body.limit,
        visibility=timedelta(seconds=body.visibility_seconds),
        wait=body.wait_seconds,
        still=still,
        gone=request.is_disconnected,
    )
    return reply(Claimed(events=tuple(events)))


@router.post(
    f"{_EVENTS}/{{event}}/ack",
    response_model=EventState,
    summary="Acknowledge an agent's event",
    openapi_extra=_settling,
)
async def ack_event(
    at: AtOwnAgent,
    event: EventPath,
    body: Annotated[EventAck, Depends(JsonBody(EventAck, limit=ENVELOPE_BYTES))],
) -> Response:
    """Say that an event is dealt with, under the claim that it came with; the same again changes nothing.

    It marks as seen exactly the exchanges that came under that claim.
    """
    return reply(await delivery.ack(at.store.db, at.who, event_id=event, claim_id=body.claim_id))


@router.post(
    f"{_EVENTS}/{{event}}/fail",
    response_model=EventState,
    summary="Send an agent's event back",
    openapi_extra=_settling,
)
async def fail_event(
    at: AtOwnAgent,
    event: EventPath,
    body: Annotated[EventFailure, Depends(JsonBody(EventFailure, limit=ENVELOPE_BYTES))],
) -> Response:
    """Say that an event could not be dealt with: it comes again after a while, and after the last attempt no more."""
    return reply(await delivery.fail(at.store.db, at.who, event_id=event, claim_id=body.claim_id, error=body.error))


@router.post(
    "/exchanges",
    response_model=ExchangeReceipt,
    summary="Post an exchange between agents",
    openapi_extra=_posting,
)
async def post_exchange(
    at: Annotated[InNamespace, Depends(Granted(grants.POST_EXCHANGES))],
    parts: WithParts,
    body: Annotated[ExchangePost, Depends(JsonBody(ExchangePost))],
) -> Response:
    """Tell agents of this namespace of an exchange that they had on a chat platform; the same again changes nothing.

    Of its turns only the takeaway is kept.
    """
    return reply(
        await exchanges.post(parts.stores.default.db, namespace=at.namespace, body=body, poster=at.caller.username)
    )


async def _stream(at: OnAgent, parts: Parts, query: EventsQuery, *, token: str) -> Response:
    """A stream, once it is sure that it begins."""

    async def still() -> None:
        await own_agent.check(at.caller, parts, at.who, anew=True)

    async def identify() -> None:
        if await parts.identity.authenticate(token, anew=True) != at.caller:
            raise UnauthenticatedError("The token is another identity's by now.", hint="Begin anew with its token.")

    push = parts.pushes.push(
        at.who,
        key=(at.caller, at.who.namespace, at.who.agent_id),
        still=still,
        identify=identify,
        window=query.window,
        visibility=timedelta(seconds=query.visibility_seconds),
        frame=frames.agent_event,
    )
    try:
        await push.begin()
    except BaseException:
        push.close()
        raise
    return EventStream(push)
