"""A folder that ends with its process, and takes everything that was started in it along.

A test run can end in ways that run no ``finally``: SIGTERM, SIGKILL, a closed terminal. So a second process, in a
session of its own, holds the other end of a pipe. However the owner ends, the kernel closes the pipe; the watchdog then
stops what was started in the folder and deletes it. (PR_SET_PDEATHSIG would not do: it is tied to a thread of the
owner, is cleared where a process changes its user, as Postgres must here, and leaves the data behind.)
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import children
from anabranch.devcluster.node import namespaces
from anabranch.devcluster.processes import stop_all

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def folder(prefix: str = "anabranch-") -> Iterator[Path]:
    """Makes a temporary folder, and deletes it at the end or when this process dies, its processes first.

    Other users may enter it, but not list it: Postgres runs as another user where this process is root.
    """
    path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    path.chmod(0o711)
    with subprocess.Popen(
        children.command(__name__, path),
        env=children.environment(),
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as watchdog:
        try:
            yield path
        finally:
            clear(path)
            if watchdog.stdin:
                watchdog.stdin.close()


def clear(path: Path) -> None:
    """Stops what was started in a folder, and deletes it."""
    namespaces.remove_below(path)
    stop_all(path)
    shutil.rmtree(path, ignore_errors=True)


def watch(path: Path) -> None:
    """The watchdog: waits for its owner's end, then clears the folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the owner gently may mean this process, too
    sys.stdin.buffer.read()
    clear(path)


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
