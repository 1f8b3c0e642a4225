"""A record's lineage as a drawing: what it rests on, what it says, what was made of it, and who has it.

Only places and lines are decided here; the page draws them. What is drawn is a part where there is much: the page lists
all of it in words beneath.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from anabranch.domain.lineage import locator
from anabranch.web.rendering import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.lineage import DerivedVersion, Trace, TracedVersion

WIDE: Final = 224
"""Of a box, in units of the drawing."""

HIGH: Final = 34
_ACROSS: Final = WIDE + 70
_DOWN: Final = HIGH + 12
_DRAWN: Final = 12
"""Boxes of a column at most."""

_LETTERS: Final = 26

Kind = Literal["source", "fact", "derived", "run", "more"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Something in the lineage.

    Attributes:
        kind: What it is.
        text: Its name, cut to what fits.
        title: Its name, whole.
        state: Told by its look: a source's status, a fact's state, a run's.
        x: Of its left edge.
        y: Of its upper edge.
        key: Of a record that has a lineage of its own; empty: it has none.
        revision: Of that.
    """

    kind: Kind
    text: str
    title: str
    state: str
    x: int
    y: int
    key: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """That one thing led to another.

    Attributes:
        path: Of an SVG path, from the one to the other.
        firm: Whether it was there from the start; a run that took a record over from the feed was not.
    """

    path: str
    firm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The drawing, in a box that begins at 0, 0."""

    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[Line]


def draw(trace: Trace) -> Graph:
    """The drawing of a lineage."""
    traced = next((one for one in trace.versions if one.revision == trace.revision), None)
    derived = _nearest(trace.items)
    last = 2 + max(derived, default=0)
    columns: list[list[Box]] = [
        _sources(traced),
        [_fact(trace, traced)],
        *([_derived(one) for one in derived.get(steps, ())] for steps in range(1, last - 1)),
        _runs(trace),
    ]
    placed = [_placed(boxes, place) for place, boxes in enumerate(columns)]
    tallest = max(len(boxes) for boxes in placed)
    placed = [[_lowered(box, (tallest - len(boxes)) * _DOWN // 2) for box in boxes] for boxes in placed]
    fact = placed[1][0]
    at = {locator((box.key, int(box.revision))): box for boxes in placed[1:-1] for box in boxes if box.key}
    lines = [_line(box, fact) for box in placed[0]]
    for one in (each for some in derived.values() for each in some[:_DRAWN]):
        box = at.get(locator((one.key, int(one.revision))))
        if box is not None:
            # Another revision that says the same is not drawn: what cites that comes from the fact, too.
            causes = {id(cause): cause for text in one.cites if (cause := at.get(text, fact)) is not box}
            lines += [_line(cause, box) for cause in causes.values()]
    forked = {witness.branch_id: witness.forked for witness in trace.branches or ()}
    lines += [_line(fact, box, firm=forked.get(box.title, True)) for box in placed[-1]]
    return Graph(
        width=len(columns) * _ACROSS - (_ACROSS - WIDE),
        height=tallest * _DOWN - (_DOWN - HIGH),
        boxes=[box for boxes in placed for box in boxes],
        lines=lines,
    )


def _nearest(items: Sequence[DerivedVersion]) -> dict[int, list[DerivedVersion]]:
    """What was derived, by steps; without gaps, however far the page's part begins."""
    by_steps: defaultdict[int, list[DerivedVersion]] = defaultdict(list)
    for one in items:
        by_steps[one.steps].append(one)
    return {place: by_steps[steps] for place, steps in enumerate(sorted(by_steps), start=1)}


def _sources(traced: TracedVersion | None) -> list[Box]:
    return [
        _box("source", source.locator, "retracted" if source.retracted else source.status)
        for source in (traced.sources if traced is not None else ())
    ]


def _fact(trace: Trace, traced: TracedVersion | None) -> Box:
    state = "pruned" if traced is None else "deleted" if traced.tombstone else traced.state
    return _box("fact", trace.key, state, key=trace.key, revision=trace.revision)


def _derived(one: DerivedVersion) -> Box:
    state = "pruned" if one.state is None else one.state if one.current else "past"
    return _box("derived", one.key, state, key=one.key, revision=one.revision)


def _runs(trace: Trace) -> list[Box]:
    return [
        Box(kind="run", text=_cut(one.agent_id), title=one.branch_id, state=one.state, x=0, y=0)
        for one in trace.branches or ()
    ]


def _box(kind: Kind, text: str, state: str, *, key: str = "", revision: str = "") -> Box:
    return Box(
        kind=kind,
        text=_cut(brief(text) if kind == "source" else text),
        title=text,
        state=state,
        x=0,
        y=0,
        key=key,
        revision=revision,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _placed(boxes: Sequence[Box], column: int) -> list[Box]:
    shown = list(boxes[:_DRAWN])
    if (left := len(boxes) - _DRAWN) > 0:
        shown.append(Box(kind="more", text=f"and {left} more", title="", state="", x=0, y=0))
    return [_moved(box, x=column * _ACROSS, y=row * _DOWN) for row, box in enumerate(shown)]


def _lowered(box: Box, by: int) -> Box:
    return _moved(box, x=box.x, y=box.y + by)


def _moved(box: Box, *, x: int, y: int) -> Box:
    return Box(
        kind=box.kind, text=box.text, title=box.title, state=box.state, key=box.key, revision=box.revision, x=x, y=y
    )


def _line(start: Box, end: Box, *, firm: bool = True) -> Line:
    x1, y1, x2, y2 = start.x + WIDE, start.y + HIGH // 2, end.x, end.y + HIGH // 2
    bend = max((x2 - x1) // 2, 20)
    return Line(path=f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}", firm=firm)
