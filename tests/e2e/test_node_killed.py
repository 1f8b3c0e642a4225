"""Whatever is killed, `down` leaves nothing of a node behind; and without it, the next `up` takes over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from anabranch.devcluster import children, ephemeral, node
from anabranch.devcluster.node import addresses, cgroups, lock, namespaces


@pytest.fixture
def folder(node_programs):
    assert lock.is_free(), f"another cluster of this machine has a node: {lock.FILE.read_text()}"
    with ephemeral.folder("anabranch-node-") as path:
        yield path / "cluster"
        node.down(path / "cluster")


def starting(folder):
    """A command that starts a node, in a process of its own."""
    command = children.command("anabranch.devcluster", "up", "--node", f"--dir={folder}")
    return subprocess.Popen(command, env=children.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until(condition):
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def left(folder):
    """What there is of a node on the machine."""
    found = [f"a route: {line}" for line in routes() if addresses.DEVICE in line]
    found += [f"a cgroup: {path}" for path in Path("/sys/fs/cgroup").rglob(f"{cgroups.NAME}*")]
    found += [f"a mount: {line}" for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"a process: {process.cmdline()}")
    if (Path("/sys/class/net") / addresses.DEVICE).exists():
        found.append("the link")
    if folder.exists():
        found.append("the folder")
    return found + ([] if lock.is_free() else ["the lock"])


def routes():
    return subprocess.run(["ip", "route"], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("moment", ["namespaces", "kube-apiserver", "kubelet"])
def test_down_leaves_nothing_behind_when_up_was_killed(folder, moment):
    command = starting(folder)
    own = "" if moment == "kube-apiserver" else "node/"
    wait_until((folder / f"{own}run/{moment}.json").exists)
    command.kill()
    command.communicate()
    assert left(folder)
    node.down(folder)
    assert left(folder) == []


def test_the_next_up_takes_over_from_one_that_was_killed(folder):
    command = starting(folder)
    wait_until((folder / "node/run/namespaces.json").exists)
    command.kill()
    command.communicate()
    cluster = node.up(folder)
    assert cluster.get("node", addresses.NAME)["metadata"]["name"] == addresses.NAME


def test_a_node_goes_with_the_run_that_made_it(node_programs, tmp_path):
    script = (
        "import sys, time\n"
        "from anabranch.devcluster import ephemeral\n"
        "from anabranch.devcluster.node import namespaces\n"
        "with ephemeral.folder() as path:\n"
        "    processes = namespaces.processes(path / 'cluster')\n"
        "    namespaces.ensure(processes)\n"
        "    print(path, flush=True)\n"
        "    time.sleep(600)\n"
    )
    run = subprocess.Popen(
        [*children.command("x")[:1], "-c", script], env=children.environment(), stdout=subprocess.PIPE, text=True
    )
    path = Path(run.stdout.readline().strip())
    assert not lock.is_free()
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until(lambda: left(path) == [])
    assert namespaces.first(namespaces.processes(path / "cluster")) is None
