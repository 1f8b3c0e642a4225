"""What is decided from the machine: which cluster, which Go, which folders, which ports."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from anabranch.devcluster import binaries, choose, folders, ports, postgres, toolchain
from anabranch.devcluster.errors import DevclusterError, PortTakenError

NOBODY = pwd.getpwnam("nobody")


def command(folder, name, script):
    """Puts a shell script on a folder as a command."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A folder that is all of PATH, but for the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in (choose.KUBECONFIG, choose.CLUSTER, choose.DSN):
        monkeypatch.delenv(name, raising=False)
    return folder


# Which cluster


def test_a_named_kubeconfig_comes_before_everything(on_path):
    command(on_path, "kind", "exit 0")
    command(on_path, "docker", "echo 28.2.2")
    assert choose.cluster_kind({choose.KUBECONFIG: "/some/kubeconfig"}) == "given"


def test_kind_comes_second_where_a_docker_daemon_answers(on_path):
    command(on_path, "kind", "exit 0")
    command(on_path, "docker", "echo 28.2.2")
    assert choose.cluster_kind({}) == "kind"


def test_docker_without_its_daemon_is_no_docker(on_path):
    command(on_path, "kind", "exit 0")
    command(on_path, "docker", "echo Cannot connect to the Docker daemon >&2; exit 1")
    assert choose.cluster_kind({}) == "local"


def test_docker_without_kind_makes_no_cluster(on_path):
    command(on_path, "docker", "echo 28.2.2")
    assert choose.cluster_kind({}) == "local"


def test_a_wish_for_the_local_control_plane_comes_before_kind(on_path):
    command(on_path, "kind", "exit 0")
    command(on_path, "docker", "echo 28.2.2")
    assert choose.cluster_kind({choose.CLUSTER: "local"}) == "local"


@pytest.mark.parametrize("wish", ["kind", "minikube"])
def test_a_wish_that_cannot_be_met_is_an_error_not_another_cluster(on_path, wish):
    with pytest.raises(DevclusterError, match="ANABRANCH_CLUSTER"):
        choose.cluster_kind({choose.CLUSTER: wish})


def test_a_named_kubeconfig_that_is_no_file_is_an_error_not_another_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv(choose.KUBECONFIG, str(tmp_path / "absent"))
    with pytest.raises(DevclusterError, match=r"ANABRANCH_KUBECONFIG names .*absent, which is no file"):
        choose.cluster(tmp_path)


def test_kind_makes_a_cluster_once_for_each_folder_and_deletes_that_one(on_path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{on_path}:{os.defpath}")
    calls, existing = tmp_path / "calls", tmp_path / "existing"
    existing.touch()
    command(on_path, "docker", "echo 28.2.2")
    command(on_path, "kubectl", "exit 0")
    command(
        on_path,
        "kind",
        f'echo "$@" >> {calls}\ncase "$1 $2" in\n'
        f'"get clusters") cat {existing};;\n"create cluster") echo "$4" >> {existing};;\nesac',
    )

    first = choose.cluster(tmp_path / "a")
    again = choose.cluster(tmp_path / "a")
    choose.cluster(tmp_path / "b")
    choose.remove_cluster(tmp_path / "a", first)

    assert first == again
    assert first.kubectl_path == on_path / "kubectl"
    name_a, name_b = existing.read_text().split()
    assert name_a != name_b
    done = [line for line in calls.read_text().splitlines() if not line.startswith("get")]
    assert [line.split()[:2] for line in done] == [
        ["create", "cluster"],
        ["export", "kubeconfig"],
        ["create", "cluster"],
        ["delete", "cluster"],
    ]
    assert done[3].split()[-1] == name_a


def test_a_named_postgres_is_used_and_not_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv(choose.DSN, "postgresql://someone@db.example/theirs")
    server = choose.postgres_server(tmp_path / "postgres", durable=False)
    server.stop()
    assert server.dsn == "postgresql://someone@db.example/theirs"
    assert not (tmp_path / "postgres").exists()


# Which Go


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.25 linux/arm64", (1, 25)),
        ("go version devel go1.27-abc linux/amd64", (1, 27)),
        ("sh: go: not found", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_go_tells_its_version(text, version):
    assert toolchain.parse_version(text) == version


def test_the_go_of_the_machine_is_used_when_it_is_new_enough(on_path):
    command(on_path, "go", "echo go version go1.25.1 linux/amd64")
    assert toolchain.find(print) == on_path / "go"


def test_an_old_go_gives_way_to_one_that_an_earlier_run_installed(on_path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command(on_path, "go", "echo go version go1.19.8 linux/amd64")
    home = folders.cache() / toolchain.PACKAGE.replace("==", "-")
    (home / "venv").mkdir(parents=True)
    command(home / "venv/bin", "go", "echo go version go1.26.6 linux/amd64")
    (home / "installed").touch()
    assert toolchain.find(print) == home / "venv/bin/go"


# Building


@pytest.fixture
def fake_go(on_path, tmp_path, monkeypatch):
    """A go command that writes what it was asked for, slowly, and a cache of its own."""
    monkeypatch.setenv("PATH", f"{on_path}:{os.defpath}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binaries.directory.cache_clear()
    yield on_path
    binaries.directory.cache_clear()


GO_THAT_BUILDS = """
[ "$1" = version ] && { echo go version go1.26.0 linux/amd64; exit; }
while [ "$1" != -o ]; do shift; done
echo "$3" >> "$(dirname "$0")/built"
printf half > "$2"; sleep 1; printf ' and half' >> "$2"
"""


def test_two_builds_at_once_do_the_work_once_and_neither_sees_half_a_program(fake_go):
    command(fake_go, "go", GO_THAT_BUILDS)
    # Processes of their own, as two test runs are.
    script = "from anabranch.devcluster import binaries; print((binaries.ensure(['etcd']) / 'etcd').read_text())"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def run():
        return subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True)

    first = run()
    deadline = time.monotonic() + 60
    while not (fake_go / "built").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    runs = [first, run()]
    said = [run.communicate(timeout=60)[0].strip() for run in runs]
    assert said == ["half and half", "half and half"]
    assert (fake_go / "built").read_text().split() == ["go.etcd.io/etcd/server/v3"]


def test_a_long_build_gives_signs_of_life_and_tells_its_time(fake_go, monkeypatch):
    command(fake_go, "go", GO_THAT_BUILDS)
    monkeypatch.setattr(binaries, "TICK", 0.2)
    said = []
    binaries.ensure(["etcd", "kubectl"], say=said.append)
    assert any(line.startswith("[1/2] etcd: building, ") for line in said)
    assert any(line.startswith("[2/2] kubectl: built in ") for line in said)


def test_a_failed_build_shows_what_go_said_and_leaves_no_program(fake_go):
    command(fake_go, "go", '[ "$1" = version ] && { echo go version go1.26.0; exit; }; echo no space left; exit 1')
    with pytest.raises(DevclusterError, match="no space left"):
        binaries.ensure(["etcd"])
    assert not binaries.path("etcd").exists()


@pytest.mark.parametrize(("failures", "builds"), [(2, True), (3, False)])
def test_a_build_whose_download_breaks_off_is_tried_again_and_not_for_ever(fake_go, monkeypatch, failures, builds):
    failing = f"""
[ "$1" = version ] && {{ echo go version go1.26.0 linux/amd64; exit; }}
echo tried >> "$(dirname "$0")/tries"
[ "$(wc -l < "$(dirname "$0")/tries")" -gt {failures} ] ||
    {{ echo 'k8s.io/x@v1: Get "https://modules.example/k8s.io/x/@v/v1.zip": dial tcp: i/o timeout'; exit 1; }}
"""
    command(fake_go, "go", failing + GO_THAT_BUILDS)
    monkeypatch.setattr(binaries, "PAUSES", (0.0, 0.0))
    said = []
    if builds:
        binaries.ensure(["etcd"], say=said.append)
    else:
        with pytest.raises(DevclusterError, match="i/o timeout"):
            binaries.ensure(["etcd"], say=said.append)
    assert binaries.path("etcd").exists() is builds
    assert len((fake_go / "tries").read_text().split()) == 3
    assert len([line for line in said if "could not be fetched" in line]) == 2


def test_the_folder_of_programs_is_named_after_the_version_that_go_mod_pins():
    assert binaries.kubernetes_version().startswith("v1.35.")
    assert binaries.directory().parent.name.startswith(f"{binaries.kubernetes_version()}-")


# Folders


def test_another_user_may_enter_only_what_every_folder_above_lets_it(tmp_path):
    outer = tmp_path / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and str(folder).startswith("/tmp/pytest"):
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    outer.chmod(0o700)
    assert not folders.may_enter(inner, NOBODY)
    outer.chmod(0o711)
    assert folders.may_enter(inner, NOBODY)


def test_one_process_at_a_time_holds_a_folder(tmp_path):
    waited, inside = [], []

    def second():
        with folders.exclusive(tmp_path, waiting=lambda: waited.append(True)):
            inside.append("second")

    with folders.exclusive(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        deadline = time.monotonic() + 60
        while not waited:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        inside.append("first")
    thread.join(60)
    assert inside == ["first", "second"]


def test_who_waited_for_a_folder_that_its_holder_deleted_makes_it_again(tmp_path):
    folder = tmp_path / "cluster"
    waiting, seen = threading.Event(), []

    def second():
        with folders.exclusive(folder, waiting=waiting.set):
            seen.append(folder.exists())

    with folders.exclusive(folder):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        folder.rmdir()
    thread.join(60)
    assert seen == [True]


# Ports and addresses


def test_ports_stay_the_same_from_start_to_start(tmp_path):
    file = tmp_path / "ports.json"
    chosen = [ports.start_on(file, ("a", "b"), lambda each: each, undo=lambda: None) for _ in "12"]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0].values())) == 2


@pytest.mark.skipif(not ports.OUTGOING.exists(), reason="only Linux says which ports it gives to connections")
def test_no_port_is_chosen_that_a_connection_may_get_while_its_server_restarts():
    first, last = map(int, ports.OUTGOING.read_text().split())
    chosen = ports.free([str(number) for number in range(50)])
    assert len(set(chosen.values())) == 50
    assert not [port for port in chosen.values() if first <= port <= last]


def test_a_system_that_gives_connections_any_port_has_ports_too(tmp_path, monkeypatch):
    monkeypatch.setattr(ports, "OUTGOING", tmp_path / "range")
    ports.OUTGOING.write_text("1024\t65535\n")
    assert len(set(ports.free(["a", "b"]).values())) == 2


def test_other_ports_are_chosen_when_another_program_has_taken_one(tmp_path):
    file, undone = tmp_path / "ports.json", []
    ports.start_on(file, ("a",), lambda each: each, undo=lambda: None)

    def start(each):
        try:
            with socket.create_server(("127.0.0.1", each["a"])):
                return each["a"]
        except OSError:
            raise PortTakenError("taken") from None

    taken = int(file.read_text().split(":")[1].strip(" }"))
    with socket.create_server(("127.0.0.1", taken)):
        other = ports.start_on(file, ("a",), start, undo=lambda: undone.append(True))
    assert other != taken
    assert undone == [True]


def test_a_port_that_is_always_taken_ends_in_an_error(tmp_path):
    attempts = []

    def start(each):
        attempts.append(each)
        raise PortTakenError("taken")

    with pytest.raises(PortTakenError):
        ports.start_on(tmp_path / "ports.json", ("a",), start, undo=lambda: None)
    assert len(attempts) == ports.ATTEMPTS


def test_an_address_is_changed_to_another_database_and_user():
    dsn = "postgresql://postgres:p%40ss@127.0.0.1:5432/postgres?sslmode=disable"
    assert postgres.with_database(dsn, "other") == ("postgresql://postgres:p%40ss@127.0.0.1:5432/other?sslmode=disable")
    assert postgres.with_database(dsn, "other", user="agent", password="a/b@c") == (
        "postgresql://agent:a%2Fb%40c@127.0.0.1:5432/other?sslmode=disable"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")
def test_a_folder_that_postgres_user_cannot_enter_is_refused_with_advice(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DevclusterError, match=r"cannot enter .*Choose a folder that others may enter"):
        postgres.start(closed / "postgres", durable=False)


def test_state_and_programs_of_root_are_where_another_user_can_reach_them():
    under_var = Path("/var") in folders.state().parents and Path("/var") in folders.shared_cache().parents
    assert under_var == (os.geteuid() == 0)
