"""Where programs and data of the local cluster are kept, and who may enter there.

Postgres refuses to run as root. Root's home folder is closed to every other user, so what Postgres needs is kept under
/var for root, and in the user's own folders for anyone else.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pwd

NAME = "anabranch-devcluster"

Say = Callable[[str], None]
"""Takes one line of progress, without its newline."""


def silent(_line: str) -> None:
    """A ``Say`` for who wants no progress."""


def cache() -> Path:
    """The folder of what can be made again: programs, toolchains."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / NAME


def shared_cache() -> Path:
    """The same for what a user other than root has to run, too."""
    return Path("/var/cache") / NAME if os.geteuid() == 0 else cache()


def state() -> Path:
    """The folder of clusters that stay, with their data."""
    if os.geteuid() == 0:
        return Path("/var/lib") / NAME
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / NAME


def may_enter(path: Path, user: pwd.struct_passwd) -> bool:
    """Whether a user may reach what is inside a folder, judged by the mode of it and of every folder above it."""

    def search(folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == user.pw_uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == user.pw_gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    return all(search(folder) for folder in (path, *path.resolve().parents))


@contextmanager
def exclusive(folder: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Makes a folder, and lets one process at a time be inside this block for it.

    The lock is on the folder itself, so it leaves no file behind and ends with its holder. A holder may delete the
    folder: who waited then makes it again.

    Args:
        folder: What to lock.
        waiting: Called once, before the wait, when another process holds the lock.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # its holder deleted it just now
            continue
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting:
                    waiting()
                    waiting = None
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists() and folder.stat().st_ino == os.fstat(descriptor).st_ino:
                yield
                return
        finally:
            os.close(descriptor)
