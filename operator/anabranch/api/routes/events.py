"""The feed of a line: by bounded poll, or as a stream."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import Field, model_validator

from anabranch.api.access import Credentials, OfBaseline
from anabranch.api.frames import Frames
from anabranch.api.paging import QueryModel
from anabranch.api.parts import Parts, WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.streaming import MEDIA_TYPE, EventStream
from anabranch.api.visibility import OnBaseline
from anabranch.feed.cursor import Position, unseal
from anabranch.feed.ends import FollowersError
from anabranch.feed.expiry import CursorExpiredError
from anabranch.identity import grants
from anabranch.model.answers import EventPage
from anabranch.model.errors import InvalidInputError, UnauthenticatedError
from anabranch.model.limits import PAGE_DEFAULT, PAGE_MAX
from anabranch.telemetry.of_api import FEED_LAG

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines/{baseline}", route_class=Route, tags=["events"])

WAIT_SECONDS = 30.0
CURSOR_CHARACTERS: Final = 2_048

Readable: TypeAlias = Callable[[list[str]], Awaitable[list[str]]]

_STREAM: Final = {
    "description": "A page of events; or, where `Accept` names `text/event-stream`, a stream: each event with its "
    "cursor as `id`, its CloudEvents type as `event`, and a `CloudEvent` as `data` (docs/spec/feed.md).",
    "content": {
        MEDIA_TYPE: {"schema": {"type": "string", "contentSchema": {"$ref": "#/components/schemas/CloudEvent"}}}
    },
}
_operation: dict[str, Any] = {}
may_fail(_operation, CursorExpiredError, FollowersError)


class EventsQuery(QueryModel):
    """From where to follow, and for how long to wait."""

    after: str | None = Field(
        None, max_length=CURSOR_CHARACTERS, description="a cursor: of the answer before, or of a branch"
    )
    generation: str | None = Field(
        None, max_length=64, description="instead of a cursor: begin behind all that this manifest includes"
    )
    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="events at most; not of a stream")
    wait: float = Field(0.0, ge=0, le=WAIT_SECONDS, description="seconds to wait while there is none; not of a stream")

    @model_validator(mode="after")
    def _one_start(self) -> "EventsQuery":
        if self.after is not None and self.generation is not None:
            raise ValueError("`after` and `generation` both say where to begin: send one")
        return self


LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=CURSOR_CHARACTERS,
        description="of a stream that is opened again: the last `id` that came. It outranks `after` and `generation`",
    ),
]


@router.get(
    "/events",
    response_model=EventPage,
    summary="Follow the feed",
    responses={200: _STREAM},
    openapi_extra=_operation,
)
async def follow(  # noqa: PLR0913, PLR0917  (what a request consists of)
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.FOLLOW_EVENTS, grants.SCOPE_READ))],
    parts: WithParts,
    credentials: Credentials,
    query: Annotated[EventsQuery, Query()],
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    """The events after a place, in commit order; without a place, from the beginning of what is kept.

    Where there is none, the answer waits for one. A cursor that the feed no longer reaches is answered with 410, a
    snapshot to read, and the cursor to go on after.

    A request that accepts `text/event-stream` gets a stream instead, from the same place on and without an end.
    """
    if MEDIA_TYPE in request.headers.get("accept", ""):
        return await _stream(at, parts, query, token=credentials.credentials if credentials else "", last=last_event_id)
    start = await _start(at, parts, after=query.after, generation=query.generation)
    readable = _readable(at, parts, anew=False)
    page = await at.store.feed.poll(at.line, start=start, limit=query.limit, wait=query.wait, readable=readable)
    if start is not None:  # who reads from the beginning is not behind
        _note(at, parts, lag=page.watermark - start.sequence)
    return reply(page)


async def _stream(at: OnBaseline, parts: Parts, query: EventsQuery, *, token: str, last: str | None) -> Response:
    """A stream, once it is sure that it begins."""
    if of_polls := query.model_fields_set & {"limit", "wait"}:
        raise InvalidInputError(
            f"A stream has no {' and no '.join(sorted(of_polls))}.",
            hint=f"Leave it out, or do not accept {MEDIA_TYPE}.",
        )
    line = at.state.line
    start = await _start(at, parts, after=last or query.after, generation=None if last else query.generation)

    async def identify() -> None:
        if await parts.identity.authenticate(token, anew=True) != at.caller:
            raise UnauthenticatedError("The token is another identity's by now.", hint="Begin anew with its token.")

    follower = at.store.live.follow(
        at.line,
        start=start,
        key=at.caller,
        who=at.caller.username,
        readable=_readable(at, parts, anew=True),
        identify=identify,
        wire=lambda: Frames(at.line, parts.sealer, source=f"/v1/namespaces/{line.namespace}/baselines/{line.name}"),
    )
    try:
        await follower.begin()
    except BaseException:
        follower.close()
        raise
    if start is not None:
        _note(at, parts, lag=follower.lag)
    return EventStream(follower)


async def _start(at: OnBaseline, parts: Parts, *, after: str | None, generation: str | None) -> Position | None:
    """The place that a request begins at."""
    if after is not None:
        return unseal(parts.sealer, at.line, after)
    return None if generation is None else await at.store.feed.start_after(at.line, generation)


def _readable(at: OnBaseline, parts: Parts, *, anew: bool) -> Readable:
    """Asks which of some scopes the caller may read; it raises when they may not follow any more."""
    namespace, name = at.state.line.namespace, at.state.line.name

    async def readable(scopes: list[str]) -> list[str]:
        await parts.grants.require(at.caller, grants.FOLLOW_EVENTS, namespace=namespace, name=name, anew=anew)
        return await parts.grants.readable_scopes(at.caller, namespace=namespace, scopes=scopes, anew=anew)

    return readable


def _note(at: OnBaseline, parts: Parts, *, lag: int) -> None:
    FEED_LAG.observe(max(0, lag))
    parts.lags.note(at.state.line.namespace, at.state.line.name, max(0, lag))
