"""The cgroups that a node's pods are in: the one thing of a node that does not end with its processes.

With cgroup v2 there is one hierarchy; with v1 each controller has its own, and the kubelet uses all of them.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

NAME: Final = "anabranch-node"
TOP: Final = Path("/sys/fs/cgroup")

PATIENCE: Final = 5.0
"""Seconds in which the kernel empties the cgroups of processes that have been killed."""


def make(top: Path = TOP) -> None:
    """Makes the node's cgroup in each hierarchy: the kubelet expects that, and makes those of pods inside."""
    for cgroup in _all(top):
        cgroup.mkdir(exist_ok=True)


def remove(top: Path = TOP) -> None:
    """Removes them, with those inside, once the node's processes have ended.

    Raises:
        OSError: A process is still in one.
    """
    for cgroup in _all(top):
        for folder, _, _ in os.walk(cgroup, topdown=False):
            _remove(Path(folder))


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()
        except OSError:  # busy: a killed process is in it for a moment still
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _all(top: Path) -> list[Path]:
    """The node's cgroup in each hierarchy, whether it exists or not."""
    one = (top / "cgroup.procs").exists()
    hierarchies = [top] if one else [folder for folder in top.iterdir() if not folder.is_symlink()]
    return [hierarchy / NAME for hierarchy in hierarchies if (hierarchy / "cgroup.procs").exists()]
