"""The node's mount, network and PID namespaces, and the link that joins them to the host.

Their first process is ``pause``. When it ends, the kernel ends all that is inside with it: processes, mounts, the
network, packet filter rules, and the host's end of the link. So taking a node down is killing one process.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from anabranch.devcluster import binaries, folders
from anabranch.devcluster.controlplane import ENVIRONMENT
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import addresses, cgroups, lock, machine
from anabranch.devcluster.processes import Processes, Program

if TYPE_CHECKING:
    from collections.abc import Callable

NAME: Final = "namespaces"
"""The process that holds them, by the name of its record and its log."""

SETUP: Final = Path(__file__).resolve().parent / "setup.sh"
DEVICE: Final = Path("/sys/class/net") / addresses.DEVICE


def processes(folder: Path) -> Processes:
    """The processes of a cluster's node: in a folder of their own inside the cluster's."""
    return Processes(folder.resolve() / "node")


def ensure(processes: Processes) -> None:
    """Makes the namespaces of a node unless they are there.

    Those that a killed command has left half made are made anew.

    Raises:
        DevclusterError: Another node runs on this machine, or its addresses are taken.
    """
    whole = processes.folder / "run/whole"
    if (pid := first(processes)) and whole.exists() and whole.read_text() == str(pid):
        return
    remove(processes)
    with lock.claimed(processes.folder.parent) as descriptor:
        sweep()
        machine.check_addresses()
        try:
            _make(processes, descriptor)
        except BaseException:  # half a node is none
            processes.stop(NAME)
            raise
        whole.write_text(str(first(processes)))


def remove(processes: Processes) -> None:
    """Ends the node of these processes, and takes away what is left of it. The node of another folder stays."""
    processes.stop(NAME)
    with contextlib.suppress(FileNotFoundError):
        if lock.FILE.read_text() == str(processes.folder.parent):
            # A command that was killed may have started what it did not come to write down.
            for process in lock.holders():
                process.kill()
            _wait(lock.is_free, "the node's processes have not ended")
            _wait(lambda: not DEVICE.exists(), f"{addresses.DEVICE} is still there")
            sweep()


def remove_below(folder: Path) -> None:
    """Ends the node whose cluster is in a folder or below it, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        holder = Path(lock.FILE.read_text())
        if holder.is_relative_to(folder.resolve()):
            remove(processes(holder))


def sweep() -> None:
    """Takes away what is left of a node that has ended. Only who holds the lock, or saw it free, may do that."""
    cgroups.remove()
    if DEVICE.exists():
        machine.run("ip", "link", "delete", addresses.DEVICE)


def first(processes: Processes) -> int | None:
    """The process id of the node's first process, or None where no node runs."""
    holder = processes.running(NAME)
    if holder:
        with contextlib.suppress(psutil.Error):
            for child in holder.children():
                # Only the program itself: until then its namespaces are not set up, and entering them could mean
                # the host's.
                if Path(child.exe()) == binaries.path("pause"):
                    return child.pid
    return None


def enter(processes: Processes, *command: str | Path) -> list[str]:
    """The command line that runs a command inside.

    Raises:
        DevclusterError: No node runs.
    """
    pid = first(processes)
    if pid is None:
        raise DevclusterError("No node runs here.", hint="Start it: python -m anabranch.devcluster up --node")
    return [_program("nsenter"), f"--target={pid}", *machine.NAMESPACES, "--", *map(str, command)]


def _make(processes: Processes, descriptor: int) -> None:
    unshare: list[str | Path] = [
        _program("unshare"),
        *(*machine.NAMESPACES, "--fork", "--kill-child=SIGKILL", "--propagation=slave", "--mount-proc"),
        binaries.path("pause"),
    ]
    # unshare itself does not listen to SIGTERM while its child runs.
    program = Program(unshare, env=ENVIRONMENT, stop_signal=signal.SIGKILL, pass_fds=(descriptor,))
    processes.start(NAME, program)
    processes.wait("the node's first process", lambda: first(processes) is not None, NAME)
    cgroups.make()
    link = ("ip", "link", "add", addresses.DEVICE, "type", "veth", "peer", "name", "eth0")
    machine.run(*link, "netns", str(first(processes)))
    machine.run("ip", "address", "add", f"{addresses.HOST}/30", "dev", addresses.DEVICE)
    machine.run("ip", "link", "set", addresses.DEVICE, "up")
    given = (processes.folder, folders.cache(), addresses.NODE, addresses.SERVICES)
    machine.run(*enter(processes, "/bin/sh", "-e", SETUP, *given))
    for network in (addresses.PODS, addresses.SERVICES):
        machine.run("ip", "route", "add", network, "via", addresses.NODE)


def _program(name: str) -> str:
    return shutil.which(name, path=machine.PATH) or name


def _wait(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + 10
    while not done():
        if time.monotonic() > deadline:
            raise DevclusterError(f"Ten seconds after the node's end {otherwise}.")
        time.sleep(0.02)
