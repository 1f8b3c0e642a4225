"""What every benchmark shares: taking turns with a peer, describing the machine, and telling what came out.

A time on a shared machine says little, a ratio of two measurements taken one after the other says much. So ours and the
peer take turns, each pair gives a ratio, and a row reports their median with the least and the greatest.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import psutil
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

FOLDER = Path("artifacts/bench")
"""Where each row is written, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one benchmark found.

    Attributes:
        name: Of the row; names its JSON file.
        work: What was done, sizes included.
        peer: What it was compared with; a dash for a bar in absolute figures.
        bar: What is to be reached.
        ratio: The median ratio to the peer; None where there is no peer.
        spread: The least and the greatest ratio.
        reached: Whether the bar was.
        figures: Measured values by name, the unit in the name (``ours_ms_p50``), and remarks.
        points: Of a curve: what it is drawn over comes first, each value after it is drawn as a line of its own.
    """

    name: str
    work: str
    peer: str
    bar: str
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    reached: bool
    figures: dict[str, float | int | str] = field(default_factory=dict)
    points: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Measurements of both sides, in pairs.

    Attributes:
        ours: One a round.
        peer: One a round.
    """

    ours: list[float]
    peer: list[float]

    @property
    def ratios(self) -> list[float]:
        """Ours over the peer's, one a round."""
        return [mine / theirs for mine, theirs in zip(self.ours, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest ratio."""
        return min(self.ratios), max(self.ratios)


async def interleaved(
    ours: Callable[[], Awaitable[float]], peer: Callable[[], Awaitable[float]], *, rounds: int = 3
) -> Comparison:
    """Measure ours, the peer, ours, the peer …: what slows the machine down for a while slows both.

    Args:
        ours: Measures once; gives a rate or a time.
        peer: Likewise, in the same unit.
        rounds: How many pairs.
    """
    pairs = [(await ours(), await peer()) for _ in range(rounds)]
    return Comparison([mine for mine, _ in pairs], [theirs for _, theirs in pairs])


async def machine(dsn: str) -> dict[str, Any]:
    """What the figures were measured on, and how busy it was before.

    Args:
        dsn: Of the Postgres that the rows use.
    """
    conn = await asyncpg.connect(dsn)
    try:
        server = await conn.fetchval("SHOW server_version")
        settings = {
            row["name"]: row["setting"]
            for row in await conn.fetch(
                "SELECT name, current_setting(name) AS setting FROM unnest($1::text[]) AS name", _TOLD
            )
        }
    finally:
        await conn.close()
    return {
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "postgres": server,
        **settings,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _commit() -> str:
    """Which commit is measured; with a plus sign where something in the folder differs from it."""
    asked = ("git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*")
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    """Its name, where the system tells one."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


_TOLD = ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size"]


def save(row: Row, *, judged: bool, about: dict[str, Any] | None = None) -> None:
    """Write a row to a file of its own.

    Args:
        row: What was found.
        judged: Whether sizes were those of the bar.
        about: The machine.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    body = {**asdict(row), "judged": judged, "machine": about}
    (FOLDER / f"{row.name}.json").write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")


def report(rows: Iterable[Row], *, judged: bool = True) -> None:
    """Print a table of rows.

    Args:
        rows: What was found.
        judged: Whether sizes were those of the bars.
    """
    Console(width=None if os.isatty(1) else 180).print(_table(list(rows), judged=judged))


def verdict(row: Row, *, judged: bool) -> str:
    """What became of the bar, in a word."""
    if not judged:
        return "not judged"
    if row.bar == "-":
        return "no bar"
    return "reached" if row.reached else "MISSED"


def ratio_text(row: Row) -> str:
    """The ratio with its spread, as it is printed."""
    if row.ratio is None:
        return "-"
    low, high = row.spread or (row.ratio, row.ratio)
    return f"{row.ratio:.2f} ({low:.2f}-{high:.2f})"


def figures_text(row: Row) -> str:
    """The figures, as they are printed."""
    return ", ".join(f"{name} {short(value)}" for name, value in row.figures.items())


def _table(rows: Sequence[Row], *, judged: bool) -> Table:
    table = Table("work", "peer in the same run", "bar", "ratio (spread)", "", "figures", show_lines=True)
    for row in rows:
        word = verdict(row, judged=judged)
        style = {"reached": "green", "MISSED": "bold red"}.get(word, "dim")
        table.add_row(row.work, row.peer, row.bar, ratio_text(row), f"[{style}]{word}[/]", figures_text(row))
    return table


def short(value: float | str) -> str:
    """A value as it is printed."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
