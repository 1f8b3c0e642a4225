"""The feed of a line, by bounded poll."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field, model_validator

from anabranch.api.access import OfBaseline
from anabranch.api.paging import QueryModel
from anabranch.api.parts import WithParts
from anabranch.api.replies import reply
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnBaseline
from anabranch.feed.cursor import unseal
from anabranch.feed.poll import CursorExpiredError
from anabranch.identity import grants
from anabranch.model.answers import EventPage
from anabranch.model.limits import PAGE_DEFAULT, PAGE_MAX
from anabranch.telemetry.of_api import FEED_LAG

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines/{baseline}", route_class=Route, tags=["events"])

WAIT_SECONDS = 30.0

_operation: dict[str, object] = {}
may_fail(_operation, CursorExpiredError)


class EventsQuery(QueryModel):
    """From where to follow, and for how long to wait."""

    after: str | None = Field(None, max_length=2048, description="a cursor: of the answer before, or of a branch")
    generation: str | None = Field(
        None, max_length=64, description="instead of a cursor: begin behind all that this manifest includes"
    )
    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="events at most")
    wait: float = Field(0.0, ge=0, le=WAIT_SECONDS, description="seconds to wait while there is none")

    @model_validator(mode="after")
    def _one_start(self) -> "EventsQuery":
        if self.after is not None and self.generation is not None:
            raise ValueError("`after` and `generation` both say where to begin: send one")
        return self


@router.get("/events", response_model=EventPage, summary="Follow the feed", openapi_extra=_operation)
async def follow(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.FOLLOW_EVENTS, grants.SCOPE_READ))],
    parts: WithParts,
    query: Annotated[EventsQuery, Query()],
) -> Response:
    """The events after a place, in commit order; without a place, from the beginning of what is kept.

    Where there is none, the answer waits for one. A cursor that the feed no longer reaches is answered with 410, a
    snapshot to read, and the cursor to go on after.
    """

    async def readable(scopes: list[str]) -> list[str]:
        namespace, name = at.state.line.namespace, at.state.line.name
        await parts.grants.require(at.caller, grants.FOLLOW_EVENTS, namespace=namespace, name=name)
        return await parts.grants.readable_scopes(at.caller, namespace=namespace, scopes=scopes)

    start = unseal(parts.sealer, at.line, query.after) if query.after is not None else None
    if query.generation is not None:
        start = await parts.feed.start_after(at.line, query.generation)
    page = await parts.feed.poll(at.line, start=start, limit=query.limit, wait=query.wait, readable=readable)
    if start is not None:  # who reads from the beginning is not behind
        lag = max(0, page.watermark - start.sequence)
        FEED_LAG.observe(lag)
        parts.lags.note(at.state.line.namespace, at.state.line.name, lag)
    return reply(page)
