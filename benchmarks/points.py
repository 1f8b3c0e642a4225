"""The points of a curve, kept one by one: a run that is cut keeps those it has, and the next one goes on from there.

A curve takes long, and its last point as long as all others. So each point is written when it is measured, and measured
again only when the curve was complete, or when this is another machine.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks import measure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_PASSING = ("commit", "load_before")
"""Of a machine: what may differ between two points of one curve."""


async def measured(
    name: str,
    dsn: str,
    over: Sequence[int],
    at: Callable[[int], Awaitable[dict[str, float]]],
    *,
    quick: bool,
) -> list[dict[str, float]]:
    """Measure what is not measured yet.

    Args:
        name: Of the curve; names its file.
        dsn: Of the Postgres that the rows use.
        over: Where to measure.
        at: Measures at a place.
        quick: Small sizes, kept apart.

    Returns:
        A point for each place, in their order: what `at` gave.
    """
    file = measure.FOLDER / ("points-quick" if quick else "points") / f"{name}.json"
    about = {name: value for name, value in (await measure.machine(dsn)).items() if name not in _PASSING}
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if kept.get("complete") or kept.get("machine") != about:
        kept = {"machine": about, "complete": False, "points": {}}
    file.parent.mkdir(parents=True, exist_ok=True)
    for place in over:
        if str(place) not in kept["points"]:
            kept["points"][str(place)] = await at(place)
        kept["complete"] = place == over[-1]
        part = file.with_suffix(".part")
        part.write_text(json.dumps(kept, indent=1))
        part.replace(file)
    return [kept["points"][str(place)] for place in over]


def row(name: str, work: str, points: Sequence[dict[str, float]], over: str, *figures: str) -> measure.Row:
    """A row that draws some figures of points over what they were measured at; it has no bar."""
    return measure.Row(
        name=name,
        work=work,
        peer="-",
        bar="-",
        reached=True,
        points=[{key: point[key] for key in (over, *figures)} for point in points],
    )
