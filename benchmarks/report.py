"""The report, `docs/benchmarks.md`: written from what the rows measured, and from nothing else.

Rows are measured one by one, on different days and machines, and a run that is cut has measured some of them. So what
was measured is kept as data beside the page (`docs/benchmarks.json`), each row with the day, the commit and the machine
of its own run. The page and its pictures are a function of that file: a test makes the page again and compares.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import Row, figures_text, ratio_text, short, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DOCS: Final = Path(__file__).parents[1] / "docs"
KEPT: Final = "benchmarks.json"
PAGE: Final = "benchmarks.md"
PICTURES: Final = "images/benchmarks"
BARS: Final = "bars"
"""The picture of all rows that have a peer."""

LISTED: Final = 12
"""Points that are told beside their picture; of more the picture tells enough."""

LOAD: Final = "load_before"
"""Of a machine: how busy it was before a row began."""

_BOUND = re.compile(r"([≤≥]) ([\d.]+)x")

_OPENING = """\
# Benchmarks

<!-- Written by `make bench BENCH_FLAGS=--write` from benchmarks.json: not by hand. -->

How fast Anabranch is, and what it costs. Ours and a peer take turns in the same run, each pair gives a ratio, and a row
tells their median and, in brackets, the least and the greatest: a time on a shared machine says little, such a ratio
says much. [What each row compares, and how to measure it](../benchmarks/README.md) stands where the rows are. Each
figure was put here by the command that measured it; the number after a row leads to [its machine and day](#machines).
"""

_OF_COSTS = """\
From runs of their own, at the same sizes, with profiles of every process. Shares of a process are of the samples in
which it worked, those of Postgres of the time of all statements. `a > b` is work of the library `b` for our module `a`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A row, and where and when it was measured.

    Attributes:
        row: What was found.
        day: When, as ``2026-11-30``.
        machine: On what: as `measure.machine` tells it.
        costs: What each part cost in a run with profiles (`benchmarks.profiling`), if there was one.
    """

    row: Row
    day: str
    machine: dict[str, Any]
    costs: list[dict[str, Any]] = field(default_factory=list)


def load(docs: Path = DOCS) -> list[Measured]:
    """What was measured so far, in the order of the page."""
    file = docs / KEPT
    return [_measured(one) for one in json.loads(file.read_text(encoding="utf-8"))["rows"]] if file.exists() else []


def merge(kept: Sequence[Measured], new: Iterable[Measured]) -> list[Measured]:
    """Put new rows in the place of those of the same name, and others at the end.

    A row that was measured without a profile keeps the costs that an earlier run told.
    """
    found = {one.row.name: one for one in kept}
    for one in new:
        before = found.get(one.row.name)
        found[one.row.name] = replace(one, costs=before.costs) if before and not one.costs else one
    return list(found.values())


def with_costs(kept: Sequence[Measured], names: Iterable[str], costs: list[dict[str, Any]]) -> list[Measured]:
    """Give rows that were measured before what their parts cost."""
    names = set(names)
    return [replace(one, costs=costs) if one.row.name in names else one for one in kept]


def write(kept: Sequence[Measured], docs: Path = DOCS) -> None:
    """Write the data, the page and the pictures."""
    from benchmarks import plots  # noqa: PLC0415  (only who measures has installed what draws)

    body = {"rows": [{**asdict(one.row), **_without_row(one)} for one in kept]}
    (docs / KEPT).write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    # Read again, so that what is drawn is what the file has.
    kept = load(docs)
    (docs / PAGE).write_text(page(kept), encoding="utf-8")
    plots.draw(kept, docs / PICTURES)


def page(kept: Sequence[Measured]) -> str:
    """The page."""
    runs = _runs(kept)
    compared = [one for one in kept if one.row.peer != "-"]
    alone = [one for one in kept if one.row.peer == "-" and not one.row.points]
    parts = [_OPENING]
    if compared:
        parts += [
            "## Next to a peer\n",
            f"![How far each row is from its bar]({PICTURES}/{BARS}.svg)\n",
            _table(compared, runs, peers=True),
        ]
    if alone:
        parts += ["## By itself\n", _table(alone, runs, peers=False)]
    if curves := [one for one in kept if one.row.points]:
        parts += ["## Curves\n", *(_curve(one, runs) for one in curves)]
    if costly := [one for one in kept if one.costs]:
        parts += [
            "## What each part costs\n",
            _OF_COSTS,
            *(_costs(group) for group in _grouped(costly)),
        ]
    parts += ["## Machines\n", *(_machine(kept, told, number) for told, number in runs.items())]
    return "\n".join(parts)


def bound(row: Row) -> tuple[str, float] | None:
    """Which ratio is to be reached, and whether from above (``≤``) or from below (``≥``), if the bar names one."""
    found = _BOUND.search(row.bar)
    return (found[1], float(found[2])) if found and row.ratio is not None else None


def margins(row: Row) -> tuple[float, float, float] | None:
    """How many times as good as its bar a row is: the worst, the median and the best of its rounds; 1 reaches it."""
    limit = bound(row)
    if limit is None or row.ratio is None:
        return None
    side, value = limit
    low, high = row.spread or (row.ratio, row.ratio)
    made = sorted(value / one if side == "≤" else one / value for one in (low, row.ratio, high))
    return made[0], made[1], made[2]


def _measured(one: Mapping[str, Any]) -> Measured:
    told = {name: one[name] for name in Row.__dataclass_fields__}
    told["spread"] = tuple(told["spread"]) if told["spread"] else None
    return Measured(row=Row(**told), day=one["day"], machine=one["machine"], costs=one["costs"])


def _without_row(one: Measured) -> dict[str, Any]:
    return {"costs": one.costs, "day": one.day, "machine": one.machine}


def _run_of(one: Measured) -> str:
    """A day and a machine: rows of one are told apart by how busy it was, but that is told together."""
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in one.machine.items() if name != LOAD)
    return f"{one.day}: {told}"


def _runs(kept: Sequence[Measured]) -> dict[str, int]:
    """Each day and machine, with its number."""
    return {told: number for number, told in enumerate(sorted({_run_of(one) for one in kept}), start=1)}


def _machine(kept: Sequence[Measured], told: str, number: int) -> str:
    loads = sorted(one.machine[LOAD] for one in kept if _run_of(one) == told and LOAD in one.machine)
    busy = f", load before a row {loads[0]:g} to {loads[-1]:g}" if loads else ""
    return f"### Run {number}\n\n{told}{busy}.\n"


def _link(one: Measured, runs: Mapping[str, int]) -> str:
    number = runs[_run_of(one)]
    return f"[{number}](#run-{number})"


def _table(some: Sequence[Measured], runs: Mapping[str, int], *, peers: bool) -> str:
    heads = ["work", *(["peer in the same run"] if peers else []), "bar", *(["ratio (spread)"] if peers else [])]
    heads += ["", "figures", "run"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for one in some:
        row = one.row
        cells = [row.work, row.peer, row.bar, ratio_text(row)] if peers else [row.work, row.bar]
        lines.append(_line([*cells, verdict(row, judged=True), figures_text(row), _link(one, runs)]))
    return "\n".join([*lines, ""])


def _curve(one: Measured, runs: Mapping[str, int]) -> str:
    row = one.row
    names = list(row.points[0])
    lines: list[str] = []
    if len(row.points) <= LISTED:
        lines += [_line([name.replace("_", " ") for name in names]), _line(["---:"] * len(names))]
        lines += [_line([short(point[name]) for name in names]) for point in row.points] + [""]
    told = [f"run {_link(one, runs)}", *([f"bar: {row.bar}, {verdict(row, judged=True)}"] if row.bar != "-" else [])]
    if row.figures:
        told.append(figures_text(row))
    return "\n".join(
        [
            f"### {_capital(row.work)}\n",
            f"![{_capital(row.work)}]({PICTURES}/{row.name}.svg)\n",
            *lines,
            f"{_capital('; '.join(told))}.",
            "",
        ]
    )


def _grouped(costly: Sequence[Measured]) -> list[list[Measured]]:
    """Rows of one run share their costs: those are told once."""
    groups: dict[str, list[Measured]] = {}
    for one in costly:
        groups.setdefault(json.dumps(one.costs, sort_keys=True), []).append(one)
    return list(groups.values())


def _costs(group: Sequence[Measured]) -> str:
    lines = [_line(["process", "part", "share", "ms a call", "calls"]), _line(["---", "---", "---:", "---:", "---:"])]
    for cost in group[0].costs:
        each = short(cost["ms_a_call"]) if "ms_a_call" in cost else ""
        calls = short(float(cost["calls"])) if "calls" in cost else ""
        lines.append(_line([cost["process"], f"`{cost['part']}`", f"{100 * cost['share']:.0f} %", each, calls]))
    works = "; ".join(dict.fromkeys(one.row.work for one in group))
    return "\n".join([f"### Of: {works}\n", *lines, ""])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def digest(rows: Sequence[Row]) -> str:
    """Of the data that a picture shows."""
    body = json.dumps(sorted((asdict(row) for row in rows), key=lambda row: row["name"]), sort_keys=True)
    return f"sha256:{hashlib.sha256(body.encode()).hexdigest()}"


def is_drawn_over_orders(values: Sequence[float]) -> bool:
    """Whether values reach over so many orders of magnitude that a logarithmic axis shows them better."""
    return min(values) > 0 and math.log10(max(values) / min(values)) > 1.5
