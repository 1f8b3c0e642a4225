"""Background processes: found again, stopped for certain, never confused with another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.pace import allowed

from anabranch.devcluster import children, ephemeral
from anabranch.devcluster.errors import DevclusterError, PortTakenError
from anabranch.devcluster.processes import Processes, Program, stop_all

ENV = {"PATH": os.defpath}
SLEEP = Program(["/bin/sleep", "300"], env=ENV)


def shell(script, **options):
    return Program(["/bin/sh", "-c", script], env=ENV, **options)


@pytest.fixture
def processes(tmp_path):
    yield Processes(tmp_path)
    stop_all(tmp_path)


def has_ended(pid):
    """A zombie has: its parent is dead, and whoever inherited it may take its time."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_a_later_command_finds_a_process_and_stops_it(processes, tmp_path):
    processes.start("sleeper", SLEEP)
    pid = processes.running("sleeper").pid

    later = Processes(tmp_path)
    assert later.running("sleeper").pid == pid
    later.stop("sleeper")

    assert later.running("sleeper") is None
    assert not psutil.pid_exists(pid)


def test_starting_what_runs_changes_nothing(processes):
    processes.start("sleeper", SLEEP)
    pid = processes.running("sleeper").pid
    processes.start("sleeper", SLEEP)
    assert processes.running("sleeper").pid == pid


def test_a_process_that_was_killed_is_laid_to_rest_when_another_is_started_in_its_place(processes):
    processes.start("sleeper", SLEEP)
    killed = processes.running("sleeper")
    killed.kill()
    wait_until(lambda: processes.running("sleeper") is None)
    processes.start("sleeper", SLEEP)
    assert not killed.is_running()
    assert not psutil.pid_exists(killed.pid)


def test_a_reused_process_id_is_neither_taken_for_the_process_nor_signalled(processes, tmp_path):
    with subprocess.Popen(["/bin/sleep", "300"]) as stranger:
        try:
            record = {"pid": stranger.pid, "started": time.time() - 3600, "stop_signal": 15, "grace": 1.0}
            (tmp_path / "run").mkdir()
            (tmp_path / "run/sleeper.json").write_text(json.dumps(record))

            assert processes.running("sleeper") is None
            processes.stop("sleeper")

            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_process_that_ignores_the_polite_signal_is_killed_when_its_grace_is_over(processes):
    processes.start("deaf", shell("trap '' TERM; echo ready; sleep 300 & wait; sleep 300", grace=0.2))
    wait_until(lambda: "ready" in processes.tail("deaf"))
    started = time.monotonic()
    processes.stop("deaf")
    assert processes.running("deaf") is None
    assert 0.2 <= time.monotonic() - started < allowed(5)


def test_a_process_that_is_suspended_hears_the_polite_signal(processes):
    processes.start(
        "suspended", shell("trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.05; done", grace=60)
    )
    wait_until(lambda: "ready" in processes.tail("suspended"))
    processes.running("suspended").suspend()
    started = time.monotonic()
    processes.stop("suspended")
    assert "told" in processes.tail("suspended")
    assert time.monotonic() - started < allowed(10)


def test_a_process_gets_the_signal_that_it_asks_for(processes):
    processes.start("polite", shell("trap 'echo interrupted; exit' INT; echo ready; while :; do sleep 0.05; done",
                                    stop_signal=signal.SIGINT))  # fmt: skip
    wait_until(lambda: "ready" in processes.tail("polite"))
    processes.stop("polite")
    assert "interrupted" in processes.tail("polite")


def test_all_processes_below_a_folder_are_stopped_the_youngest_first(tmp_path):
    order = tmp_path / "order"
    for name in ("first", "second"):
        nested = Processes(tmp_path / name)
        script = f"trap 'echo {name} >> {order}; exit' TERM; echo ready; while :; do sleep 0.05; done"
        nested.start("part", shell(script, grace=30))
        wait_until(lambda nested=nested: "ready" in nested.tail("part"))
    stop_all(tmp_path)
    assert order.read_text().split() == ["second", "first"]


def test_waiting_gives_up_at_once_when_a_process_has_ended_and_shows_its_log(processes):
    processes.start("broken", shell("echo the disk is on fire >&2; exit 3"))
    started = time.monotonic()
    with pytest.raises(DevclusterError, match=r"broken has ended(.|\n)*the disk is on fire"):
        processes.wait("the impossible", lambda: False, "broken", timeout=30)
    assert time.monotonic() - started < allowed(10)


def test_waiting_ends_at_its_timeout_and_says_why_it_was_not_ready(processes):
    def ready():
        raise OSError("connection refused")

    processes.start("sleeper", SLEEP)
    with pytest.raises(DevclusterError, match=r"not ready after 0 s \(connection refused\)"):
        processes.wait("the server", ready, "sleeper", timeout=0.2)


def test_a_taken_port_is_told_apart_from_other_failures(processes):
    processes.start("server", shell("echo 'listen tcp 127.0.0.1:1: bind: Address already in use' >&2; exit 1"))
    with pytest.raises(PortTakenError):
        processes.wait("the server", lambda: False, "server", timeout=10)


OWNER = """
import os, sys, time
from pathlib import Path
from anabranch.devcluster import children, ephemeral
from anabranch.devcluster.processes import Processes, Program
with ephemeral.folder() as folder:
    Processes(folder / "deep").start("sleeper", Program(["/bin/sleep", "300"], env={"PATH": os.defpath}))
    print(folder, Processes(folder / "deep").running("sleeper").pid, flush=True)
    time.sleep(300)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_process_and_no_folder_outlives_an_owner_that_is_ended(number):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=children.environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with owner:
        folder, pid = owner.stdout.readline().split()
        assert not has_ended(int(pid))
        os.killpg(owner.pid, number)  # the whole group, as a terminal or a CI runner does
    wait_until(lambda: has_ended(int(pid)) and not Path(folder).exists())


def fail_inside(folder, pids):
    processes = Processes(folder)
    processes.start("sleeper", SLEEP)
    pids.append(processes.running("sleeper").pid)
    raise RuntimeError


def test_a_folder_and_its_processes_end_with_their_block_when_it_fails():
    pids = []
    with pytest.raises(RuntimeError), ephemeral.folder() as folder:
        fail_inside(folder, pids)
    assert not psutil.pid_exists(pids[0])
    assert not folder.exists()


KILLED_BEFORE_IT_WRITES_DOWN = """
import os, pathlib, signal, sys
from anabranch.devcluster import processes

def die(record):
    print(record.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

processes.asdict = die
processes.Processes(pathlib.Path(sys.argv[1])).start("x", processes.Program(["/bin/sleep", "600"], env={}))
"""


def test_who_is_killed_before_a_process_is_written_down_leaves_none(tmp_path):
    command = [sys.executable, "-c", KILLED_BEFORE_IT_WRITES_DOWN, str(tmp_path)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pid = int(subprocess.run(command, check=False, capture_output=True, text=True, env=env).stdout)
    deadline = time.monotonic() + 60
    while not has_ended(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not list(tmp_path.rglob("*.json"))
