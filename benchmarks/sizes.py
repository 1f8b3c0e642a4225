"""How much memory operator and API take, how soon they are ready, and how soon a command line shows its help.

Both run as processes before a real API server and Postgres, and are measured when they have nothing to do any more:
resident memory, shared libraries included. Among many resources the operator has them all; the API asks Postgres.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import assembly
from anabranch.devcluster.processes import Processes
from benchmarks.crowd import Crowd
from benchmarks.measure import Row
from benchmarks.starting import settled

if TYPE_CHECKING:
    import psutil

    from anabranch.devcluster.stack import Stack
    from benchmarks.stage import Stage

NAME = "sizes"
HELP_BAR_S = 0.3
HELPS = 10
RESOURCES, QUICK = 10_000, 20
STARTS = 5


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure all of it."""
    return [await asyncio.to_thread(helped), *await _processes(stage, quick=quick)]


def helped(times: int = HELPS) -> Row:
    """How long ``anabranch --help`` takes, once the files are in memory."""
    program = str(Path(sys.executable).with_name("anabranch"))

    def once() -> float:
        began = time.perf_counter()
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    once()
    taken = [once() for _ in range(times)]
    median = statistics.median(taken)
    return Row(
        name="size-help",
        work="anabranch --help",
        peer="-",
        bar=f"≤ {HELP_BAR_S} s",
        reached=median <= HELP_BAR_S,
        figures={"s": median, "s_least": min(taken), "s_most": max(taken)},
    )


async def _processes(stage: Stage, *, quick: bool) -> list[Row]:
    many, starts = (QUICK, 1) if quick else (RESOURCES, STARTS)
    stack = await asyncio.to_thread(
        assembly.up, stage.folder / "stack", options=assembly.Options(durable=True, audit=True)
    )
    crowd = Crowd(stack)
    await asyncio.to_thread(crowd.home)
    await asyncio.to_thread(crowd.model, "crowd-forked", ready=True)
    ready = {
        name: [await asyncio.to_thread(_started, stack, name) for _ in range(starts)] for name in ("operator", "api")
    }
    idle = await _resident(stack, quick=quick)
    await asyncio.to_thread(stack.stop, "operator")
    await crowd.copy("crowd-forked", "crowd-many", many, rows=True)
    for name in ready:
        await asyncio.to_thread(_started, stack, name)
    among = await _resident(stack, quick=quick)
    await asyncio.to_thread(stack.stop, "operator")
    await crowd.remove("crowd-many")
    await asyncio.to_thread(stack.start_operator)
    return [
        Row(
            name="size-idle",
            work="operator and API with nothing to do: start to ready, resident memory",
            peer="-",
            bar="-",
            reached=True,
            figures={**{f"{name}_ready_s": statistics.median(taken) for name, taken in ready.items()}, **idle},
        ),
        Row(
            name="size-among-many",
            work=f"operator and API among {many:,} Branches: resident memory",
            peer="-",
            bar="-",
            reached=True,
            figures=among,
        ),
    ]


def _started(stack: Stack, name: str) -> float:
    """Start a process anew; how long until it is ready, in seconds."""
    stack.stop(name)
    began = time.monotonic()
    if name == "operator":
        stack.start_operator()
    else:
        stack.start_api()
    return time.monotonic() - began


async def _resident(stack: Stack, *, quick: bool) -> dict[str, float | int | str]:
    """The memory of both when they have nothing to do any more, in MiB."""
    found: dict[str, float | int | str] = {}
    for name in ("operator", "api"):
        process = running_process(stack, name)
        await settled(process, quick=quick)
        found[f"{name}_mib"] = round(process.memory_info().rss / 2**20, 1)
    return found


def running_process(stack: Stack, name: str) -> psutil.Process:
    """The process of that name.

    Raises:
        RuntimeError: If it has ended.
    """
    process = Processes(stack.folder).running(name)
    if process is None:
        raise RuntimeError(f"the {name} has ended: {Processes(stack.folder).tail(name)}")
    return process
