"""Where a record comes from and where it went: drawn, and told in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.errors import NotFoundError
from anabranch.web import graph

if TYPE_CHECKING:
    from starlette.responses import Response

    from anabranch.web.visit import Visit


async def show(visit: Visit) -> Response:
    """The lineage of the record that the query names."""
    namespace, name, key = visit.name("namespace"), visit.name("baseline"), visit.asked("key")
    if not key:
        raise NotFoundError("No record is named.", hint="Come here from a finding, or from what a generation changed.")
    revision, cursor = visit.asked("revision") or None, visit.asked("cursor") or None
    trace = await visit.client.trace(namespace, name, key, revision=revision, cursor=cursor)
    return visit.show(
        "lineage.html",
        namespace=namespace,
        name=name,
        trace=trace,
        graph=graph.draw(trace),
        wide=graph.WIDE,
        high=graph.HIGH,
        asked={"key": key} | ({"revision": revision} if revision else {}),
    )
