"""Quality: what can be counted of a baseline."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from anabranch.api.access import OfBaseline
from anabranch.api.paging import QueryModel
from anabranch.api.replies import ASK_AGAIN, kept
from anabranch.api.routing import Route
from anabranch.api.visibility import OnBaseline
from anabranch.identity import grants
from anabranch.model.limits import PAGE_DEFAULT
from anabranch.model.quality import Quality
from anabranch.quality import reading

router = APIRouter(prefix="/v1/namespaces/{namespace}", route_class=Route, tags=["baselines"])


class QualityQuery(QueryModel):
    """Which generations."""

    generation: str | None = Field(
        None,
        max_length=64,
        description="a generation, a baseline id, `current` or `head`; else the newest one that is counted",
    )
    history: int = Field(0, ge=0, le=PAGE_DEFAULT, description="how many generations before it to tell of")


@router.get("/baselines/{baseline}/quality", response_model=Quality, summary="Tell the quality of a baseline")
async def get_quality(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.SEE_BASELINE, grants.SCOPE_READ))],
    query: Annotated[QualityQuery, Query()],
    request: Request,
) -> Response:
    """What can be counted of a generation: sources, verification, age; also of each scope that the caller may read."""
    told = await reading.tell(at.store.db, line=at.line, ref=query.generation, scopes=at.scopes, history=query.history)
    return kept(request, told, caching=ASK_AGAIN)
