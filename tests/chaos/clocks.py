"""Clocks of processes that jump, each on its own, as when somebody sets a machine's clock or a network does.

Postgres has a clock of its own, which `leases expired` and `everything due` let jump. A process of ours sees the time
that `clock.c` tells it, which is made with the machine's compiler of C; where there is none, no clock jumps.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

LIBRARY: Final = "clock.so"


def make(folder: Path) -> bool:
    """Compile what lets clocks jump into a folder; whether that can be done."""
    compiler = shutil.which("cc")
    if compiler is None:
        return False
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", folder / LIBRARY, source], check=True)
    return True


def environment(folder: Path, name: str) -> dict[str, str]:
    """What a process has to be started with for its clock to be set; nothing where that cannot be done."""
    if not (folder / LIBRARY).exists():
        return {}
    put(folder, name, 0)
    return {"LD_PRELOAD": str(folder / LIBRARY), "CHAOS_CLOCK": str(_file(folder, name))}


def put(folder: Path, name: str, seconds: int) -> None:
    """Let a process see a time that is so far from the real one, from now on."""
    file = _file(folder, name)
    file.touch()
    with file.open("r+b") as opened:  # in place: it is mapped into the memory of whoever reads it
        opened.write(struct.pack("=q", seconds))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.clock"
