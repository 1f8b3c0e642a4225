"""Runs benchmarks by name, one after the other on one stage, and ends with one table.

python -m benchmarks fork publish
python -m benchmarks all --write      # and keep the figures in the table of benchmarks/README.md
python -m benchmarks all --quick      # small sizes: only whether they still run
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks import measure, stage

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    "starting",
    "finding",
    "following",
    "acknowledgement",
    "bulk",
    "uploading",
    "jobs",
    "agent_memory",
)
"""The modules, in the order in which ``all`` runs them: what changes a shared line most comes last of those on it."""

README = Path(__file__).with_name("README.md")
MARK = "<!-- Below is what the last `make bench` wrote. -->"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, required=True, metavar="NAME…|all", type=click.Choice([*ROWS, "all"]))
@click.option("--quick", is_flag=True, help="Small sizes, and no judgement: do the rows still run?")
@click.option("--write", is_flag=True, help="Put the figures into the table of benchmarks/README.md.")
def main(names: Sequence[str], *, quick: bool, write: bool) -> None:
    """Run the rows; end with an error if one failed or missed its bar."""
    chosen = ROWS if "all" in names else tuple(dict.fromkeys(names))
    rows, failed, about = asyncio.run(run(chosen, quick=quick))
    measure.report(rows, judged=not quick, about=about)
    if write and not quick:
        above, _, table = README.read_text().partition(MARK)
        README.write_text(f"{above}{MARK}\n\n{measure.markdown(rows, about=about, before=table)}")
    for name in failed:
        print(f"{name} did not run to its end: see above.", file=sys.stderr)
    if failed or not (quick or all(row.reached for row in rows)):
        sys.exit(1)


async def run(names: Sequence[str], *, quick: bool) -> tuple[list[measure.Row], list[str], dict[str, object]]:
    """Run rows on a stage of their own.

    Args:
        names: Modules of this package.
        quick: Small sizes.

    Returns:
        What was found, which rows failed, and the machine.
    """
    rows: list[measure.Row] = []
    failed: list[str] = []
    async with stage.opened() as place:
        about = await measure.machine(place.dsn)
        for name in names:
            print(f"running {name} …", file=sys.stderr, flush=True)
            try:
                found = await importlib.import_module(f"benchmarks.{name}").run(place, quick=quick)
            except Exception:  # noqa: BLE001  (the other rows still tell something)
                traceback.print_exc()
                failed.append(name)
            else:
                rows += found
                for row in found:
                    measure.save(row, judged=not quick, about=about)  # now: whoever ends the run keeps what there is
    return rows, failed, about


if __name__ == "__main__":
    main()
