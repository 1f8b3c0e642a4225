"""The queue: what waits for a decision, over all Baselines that the visitor may review, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.web import reading

if TYPE_CHECKING:
    from starlette.responses import Response

    from anabranch.web.visit import Visit

JOBS: Final = 25
"""On one page."""

_DONE: Final = {"accept": "Accepted", "reject": "Rejected"}


async def show(visit: Visit) -> Response:
    """The queue, filtered as the query says."""
    namespaces = await visit.desk.namespaces()
    known = await reading.baselines(visit.client, namespaces)
    found = await reading.waiting(visit.client, namespaces, known)
    of, kind = visit.asked("baseline"), visit.asked("kind")
    places = sorted({each.place for each in found} | ({of} if of else set()))
    wanted = [each for each in found if of in {"", each.place} and (kind != "conflicts" or each.job.conflicts)]
    number = max(int(asked), 1) if (asked := visit.asked("page", "1")).isdecimal() and len(asked) < 6 else 1
    begin = (number - 1) * JOBS
    shown = await reading.with_heads(visit.client, wanted[begin : begin + JOBS])
    return visit.show(
        "queue.html",
        jobs=shown,
        total=len(wanted),
        conflicts=sum(bool(each.job.conflicts) for each in wanted),
        unfiltered=len(found),
        places=places,
        baseline=of,
        kind=kind,
        number=number,
        last=begin + JOBS >= len(wanted),
        namespaces=namespaces,
        done=_DONE.get(visit.asked("done"), ""),
    )
