"""Background processes that a later command finds again, each with its log.

A process is remembered by its id *and* its start, so that a reused id is never taken for it, and signalled only then.
Every process of the local cluster is started here; none is ever looked for by its name.
"""

from __future__ import annotations

import contextlib
import json
import pwd
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import psutil

from anabranch.devcluster.errors import DevclusterError, PortTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

SAME_START = 2.0
"""Seconds by which two readings of one process's start may differ: the clock may have been set between them."""

POLL = 0.02
"""Seconds between two looks at whether something is ready, or has ended."""

TAIL = 15
"""Lines of a log that a failure shows."""

WHEN_TOLD = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""Becomes a program once it may: who starts it writes it down first. If that one is killed before, it just ends."""

_children: dict[int, subprocess.Popen[bytes]] = {}
"""The processes that are children of this very process, by id: it alone can lay them to rest when they have ended."""


@dataclass(frozen=True)
class Record:
    """What is written down of a process: enough to find it again, and how it wants to be stopped."""

    pid: int
    started: float
    stop_signal: int
    grace: float

    def process(self) -> psutil.Process | None:
        """The process, or None when it has ended; a zombie has."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def end(self) -> None:
        """Stops the process: politely, and for certain when its grace is over."""
        for number, patience in ((self.stop_signal, self.grace), (signal.SIGKILL, 30.0)):
            if process := self.process():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
                    process.send_signal(signal.SIGCONT)  # one that is suspended would hear of it when its grace is over
                # Not psutil's wait: it would go on until an ended process's parent has noticed, if that ever does.
                deadline = time.monotonic() + patience
                while self.process() and time.monotonic() < deadline:
                    time.sleep(POLL)
        if child := _children.pop(self.pid, None):
            child.wait()


@dataclass(frozen=True)
class Program:
    """What to run, and how to end it.

    Attributes:
        command: The program, as an absolute path, and its arguments.
        env: Its whole environment.
        user: Whom it runs as, if not as the caller (who must be root then).
        stop_signal: The signal that asks it to end.
        grace: Seconds that it has for that.
        pass_fds: Open files that it is to hold, by number.
    """

    command: Sequence[str | Path]
    env: Mapping[str, str]
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace: float = 2.0
    pass_fds: tuple[int, ...] = ()


class Processes:
    """The background processes of one folder: records in ``run/``, output in ``log/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self.folder / f"log/{name}.log"

    def running(self, name: str) -> psutil.Process | None:
        """The process of that name, or None when it does not run (any more)."""
        record = _read(self._file(name))
        return record.process() if record else None

    def start(self, name: str, program: Program) -> None:
        """Starts a program in a session of its own and remembers it by a name, unless it runs already."""
        if self.running(name):
            return
        self.stop(name)  # one that has ended by itself still waits to be laid to rest
        for folder in ("log", "run"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        with self.log(name).open("a") as log:
            child = subprocess.Popen(
                [*WHEN_TOLD, *map(str, program.command)],
                cwd=self.folder,
                env=program.env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=program.pass_fds,
                **identity(program.user),
            )
        _children[child.pid] = child
        started = psutil.Process(child.pid).create_time()
        record = Record(pid=child.pid, started=started, stop_signal=program.stop_signal, grace=program.grace)
        part = self._file(name).with_suffix(".part")
        part.write_text(json.dumps(asdict(record)))
        part.replace(self._file(name))
        if child.stdin:
            with contextlib.suppress(BrokenPipeError), child.stdin:
                child.stdin.write(b"\n")

    def stop(self, name: str) -> None:
        """Stops a process, whoever started it, and forgets it."""
        if record := _read(self._file(name)):
            record.end()
        self._file(name).unlink(missing_ok=True)

    def tail(self, name: str, lines: int = TAIL) -> str:
        """The end of a process's log, under a line that names the file."""
        log = self.log(name)
        text = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
        return "\n".join([f"--- {log}", *text])

    def wait(self, what: str, ready: Callable[[], bool], *names: str, timeout: float = 90.0) -> None:
        """Waits until something is ready; gives up early when a process that it needs has ended.

        Args:
            what: What is waited for, for the error.
            ready: The condition; an OSError, an HTTPException or a DevclusterError counts as not yet.
            names: The processes that it needs.
            timeout: Seconds.

        Raises:
            PortTakenError: A process has ended because another program has its port.
            DevclusterError: It did not become ready; with the end of the logs concerned.
        """
        deadline = time.monotonic() + timeout
        last = ""
        while True:
            try:
                if ready():
                    return
            except (OSError, HTTPException, DevclusterError) as error:
                last = f" ({error})"
            ended = [name for name in names if not self.running(name)]
            if ended or time.monotonic() > deadline:
                reason = f"{ended[0]} has ended" if ended else f"not ready after {timeout:.0f} s{last}"
                tails = "\n".join(self.tail(name) for name in ended or names)
                kind = PortTakenError if ended and "address already in use" in tails.lower() else DevclusterError
                raise kind(f"Waiting for {what}: {reason}.\n{tails}")
            time.sleep(POLL)

    def _file(self, name: str) -> Path:
        return self.folder / f"run/{name}.json"


def identity(user: str | None) -> dict[str, Any]:
    """The arguments for ``subprocess`` that make a child process a user's, with no group but that user's own."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def stop_all(folder: Path) -> None:
    """Stops every process that was started in a folder or one below it, the youngest first."""
    for file in sorted(folder.rglob("run/*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True):
        if record := _read(file):
            record.end()


def _read(file: Path) -> Record | None:
    """The record in a file, or None where there is none that is whole."""
    try:
        return Record(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
