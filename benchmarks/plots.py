"""The report's pictures: how far each row is from its bar, and a chart of each curve.

Each is SVG whose text stays text, in the two colour schemes that browsers ask for, and the same to the byte for the
same data and drawing library. Which data a picture was drawn of stands in it (`report.digest`): a test finds old ones.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.report import BARS, digest, is_drawn_over_orders, margins

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.measure import Row
    from benchmarks.report import Measured

INK, FAINT, PAPER = "#1f2328", "#8c959f", "#ffffff"
LINES: Final = ("#1f6feb", "#bc4c00", "#2da44e", "#8250df")
MISSED: Final = "#cf222e"
MARKERS: Final = "os^D"

DARK: Final = {
    INK: "#e6edf3",
    FAINT: "#6e7681",
    PAPER: "#0d1117",
    "#1f6feb": "#58a6ff",
    "#bc4c00": "#f0883e",
    "#2da44e": "#3fb950",
    "#8250df": "#bc8cff",
    MISSED: "#ff7b72",
}
"""What each colour is where people like it dark."""

DRAWN_IN: Final = "DejaVu Sans"
"""It comes with the library, so that places are the same everywhere; who reads sees a font of the system."""

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "anabranch",
    "font.family": DRAWN_IN,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.alpha": 0.35,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "legend.frameon": False,
}


def draw(kept: Sequence[Measured], folder: Path) -> None:
    """Write each picture that the page shows, and delete those that it does not show any more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {f"{one.row.name}.svg": curve(one.row) for one in kept if one.row.points}
    if any(margins(one.row) for one in kept):
        made[f"{BARS}.svg"] = bars([one.row for one in kept])
    for file in folder.glob("*.svg"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


@mpl.rc_context(_SETTINGS)
def bars(rows: Sequence[Row]) -> str:
    """How many times as good as its bar each row is that has a ratio for one."""
    drawn = [(row, found) for row in rows if (found := margins(row))][::-1]
    figure, axes = _figure(height=0.9 + 0.27 * len(drawn))
    for place, (row, (worst, median, best)) in enumerate(drawn):
        colour = LINES[0] if row.reached else MISSED
        axes.plot([worst, best], [place, place], color=colour, linewidth=2)
        axes.plot([median], [place], color=colour, marker="o" if row.reached else "X", markersize=7, linestyle="none")
    axes.axvline(1, color=INK, linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(drawn)), [row.name.replace("_", " ") for row, _ in drawn])
    axes.set_ylim(-0.6, len(drawn) - 0.4)
    axes.set_xlabel("times as good as its bar; a cross: some part of its bar is missed")
    axes.grid(axis="x")
    return _svg(figure, title="How far each row is from its bar", of=digest([row for row, _ in drawn]))


@mpl.rc_context(_SETTINGS)
def curve(row: Row) -> str:
    """The chart of a row's points."""
    over, *names = list(row.points[0])
    figure, axes = _figure(height=3.2)
    at = [point[over] for point in row.points]
    for name, colour, marker in zip(names, LINES, MARKERS, strict=False):
        axes.plot(
            at, [point[name] for point in row.points], color=colour, marker=marker if len(at) < 30 else None, label=name
        )
    if is_drawn_over_orders(at):
        axes.set_xscale("log")
        axes.set_xticks(at)
        axes.xaxis.set_minor_formatter(NullFormatter())
    values = [point[name] for point in row.points for name in names]
    if is_drawn_over_orders(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, max(values) * 1.1 or 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_plain))
    axes.set_xlabel(over.replace("_", " "))
    if len(names) == 1:
        axes.set_ylabel(names[0].replace("_", " "))
    else:
        axes.legend([name.replace("_", " ") for name in names])
    axes.grid()
    return _svg(figure, title=row.work, of=digest([row]))


def _figure(*, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.6, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure, *, title: str, of: str) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": title, "Description": of})
    text = "\n".join(line.rstrip() for line in out.getvalue().decode().splitlines())
    text = text.replace(f"'{DRAWN_IN}'", "system-ui, sans-serif")
    dark = "".join(
        f'*[style*="{kind}: {light}"]{{{kind}:{other}!important}}'
        for light, other in DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
    return re.sub(r"(<svg [^>]*>)", lambda found: f"{found[1]}\n {style}", text, count=1) + "\n"


def _plain(value: float, _: int | None = None) -> str:
    """A tick as people write it: 0.5, 20, 10k, 1M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
