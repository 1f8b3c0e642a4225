"""``anabranch quality``: whether a memory answers what it is for, and better than before."""

from __future__ import annotations

from typing import Final

import click

from anabranch.cli.lazy import LazyGroup

COMMANDS: Final = {
    "show": ("anabranch.cli.counters:show_", "Show what can be counted of a Baseline: sources, verification, age."),
    "evaluate": ("anabranch.cli.evaluating:evaluate", "Ask a Baseline an evaluation set, and tell its recall."),
    "make-set": ("anabranch.cli.evaluating:make_set", "Write down the project's own set, with the memory it is about."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Measure whether a memory answers what it is for."""
