"""Runs benchmarks by name, one after the other on one stage, and ends with one table.

python -m benchmarks fork publish
python -m benchmarks scaling          # the curves
python -m benchmarks all --write      # and put what was found into docs/benchmarks.md
python -m benchmarks all --profile    # what each part costs, instead of how fast it is
python -m benchmarks all --quick      # small sizes: only whether they still run
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from benchmarks import measure, profiling, report, stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.stage import Stage

ROWS = (
    "importing",
    "exporting",
    "reading",
    "forking",
    "publishing",
    "git",
    "restoring",
    "growth",
    "searching",
    "meaning",
    "starting",
    "finding",
    "following",
    "acknowledgement",
    "tracing",
    "bulk",
    "uploading",
    "jobs",
    "agent_memory",
    "sizes",
    "image",
    "scaling_records",
    "scaling_branches",
    "scaling_followers",
    "scaling_lines",
    "soak",
)
"""The modules, in the order in which ``all`` runs them: what changes a shared line most comes last of those on it."""

TIMED = ROWS[: ROWS.index("sizes")]
"""Those whose time has parts: what ``all`` runs with profiles."""

GROUPS = {"all": ROWS, "scaling": tuple(name for name in ROWS if name.startswith("scaling_"))}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, required=True, metavar="NAME…|scaling|all", type=click.Choice([*ROWS, *GROUPS]))
@click.option("--quick", is_flag=True, help="Small sizes, and no judgement: do the rows still run?")
@click.option("--profile", is_flag=True, help="Take profiles: nothing is judged, and what each part costs is kept.")
@click.option("--write", is_flag=True, help="Put what was found into docs/benchmarks.md, row by row.")
def main(names: Sequence[str], *, quick: bool, profile: bool, write: bool) -> None:
    """Run the rows; end with an error if one failed or missed its bar."""
    groups = GROUPS | {"all": TIMED} if profile else GROUPS
    chosen = tuple(dict.fromkeys(row for name in names for row in groups.get(name, (name,))))
    judged = not (quick or profile)
    run = Run(quick=quick, profile=profile, write=write and not quick)
    asyncio.run(run.all(chosen))
    measure.report(run.rows, judged=judged)
    for name in run.failed:
        print(f"{name} did not run to its end: see above.", file=sys.stderr)
    if run.failed or (judged and not all(row.reached for row in run.rows)):
        sys.exit(1)


@dataclass(kw_only=True)
class Run:
    """A run of some rows.

    Attributes:
        quick: Small sizes.
        profile: Whether profiles are taken.
        write: Whether the report is written.
        rows: What was found.
        failed: Which modules ended with an error.
    """

    quick: bool
    profile: bool
    write: bool
    rows: list[measure.Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    async def all(self, names: Sequence[str]) -> None:
        """Run modules of this package, one after the other, on a stage of their own."""
        async with stage.opened(settings=profiling.SETTINGS if self.profile else {}) as place:
            for name in names:
                print(f"running {name} …", file=sys.stderr, flush=True)
                try:
                    await self.one(name, place)
                except Exception:  # noqa: BLE001  (the other rows still tell something)
                    traceback.print_exc()
                    self.failed.append(name)

    async def one(self, name: str, place: Stage) -> None:
        """Run a module, and keep what it found at once: whoever ends the run keeps what there is."""
        about = await measure.machine(place.dsn)
        costs: list[dict[str, Any]] = []
        async with contextlib.AsyncExitStack() as exits:
            if self.profile:
                costs = await exits.enter_async_context(profiling.profiled(name, place.dsn))
            found = await importlib.import_module(f"benchmarks.{name}").run(place, quick=self.quick)
        self.rows += found
        if self.profile:
            profiling.save(name, costs)
        else:
            for row in found:
                measure.save(row, judged=not self.quick, about=about)
        if not self.write:
            return
        kept = report.load()
        if self.profile:
            report.write(report.with_costs(kept, [row.name for row in found], costs))
        else:
            day = datetime.now(UTC).date().isoformat()
            report.write(report.merge(kept, [report.Measured(row=row, day=day, machine=about) for row in found]))


if __name__ == "__main__":
    main()
