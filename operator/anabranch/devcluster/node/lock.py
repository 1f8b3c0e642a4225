"""One node at a time on a machine: a lock that is held by the node itself, so that it ends exactly when the node does.

Whoever starts a node opens the lock's file, locks it and hands it to the node's first processes. However those end, and
whatever became of the command that started them, the kernel then lets go of the lock. What is left of a node when the
lock is free (its cgroups) is nobody's and may be removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = Path("/run/anabranch-node.lock")
"""Holds the folder of the cluster whose node has the lock, or had it last."""


@contextmanager
def claimed(folder: Path) -> Iterator[int]:
    """Takes the lock for a folder's cluster, and gives the open file that is to be handed on.

    Raises:
        DevclusterError: Another node runs; with its folder and its processes.
    """
    descriptor = os.open(FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pids = ", ".join(str(process.pid) for process in holders())
            raise DevclusterError(
                f"Another cluster on this machine has a node: the one in {FILE.read_text()} (processes {pids}).",
                hint=f"Take it down: python -m anabranch.devcluster down --dir {FILE.read_text()}",
            ) from None
        os.truncate(descriptor, 0)
        os.write(descriptor, os.fsencode(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def is_free() -> bool:
    """Whether no node runs on this machine."""
    try:
        descriptor = os.open(FILE, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def holders() -> list[psutil.Process]:
    """The processes that have the lock's file open: a node's first ones, and a command that starts one just now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            links = Path(f"/proc/{process.pid}/fd").iterdir()
            if any(link.readlink() == FILE for link in links):
                found.append(process)
    return found
