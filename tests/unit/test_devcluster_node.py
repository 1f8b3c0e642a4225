"""What a node and the image decide from the machine, without a node."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile

import pytest

from anabranch.devcluster import binaries, image, node
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import cgroups, images, lock, machine

# Addresses


@pytest.mark.parametrize("route", ["10.96.0.0/12", "10.97.0.0/16", "10.98.1.7", "10.0.0.0/8"])
def test_a_route_to_a_nodes_addresses_is_found(route):
    assert machine.overlapping(["default", "192.0.2.0/24", "fe80::/64", route]) == route


def test_the_default_route_and_other_networks_are_no_obstacle():
    assert machine.overlapping(["default", "10.96.0.0/16", "10.98.2.0/24", "192.0.2.1", "::1"]) is None


# Programs


def test_what_only_a_node_needs_is_no_part_of_a_control_plane():
    assert not set(binaries.CONTROL_PLANE) & set(binaries.NODE | binaries.HELM)
    assert {binaries.path(name).parent for name in binaries.CONTROL_PLANE} == {binaries.directory()}


def test_a_program_of_our_own_source_is_named_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr(binaries, "MODULE", tmp_path)
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text("k8s.io/kubernetes v1.0.0")
    source = tmp_path / "main.go"
    monkeypatch.setitem(binaries.PROGRAMS, "pause", binaries.Source("./.", module=tmp_path))
    source.write_text("one")
    first = binaries.path("pause")
    source.write_text("two")
    assert binaries.path("pause") != first
    source.write_text("one")
    assert binaries.path("pause") == first


def test_root_of_a_container_that_may_make_no_namespaces_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PATH", str(tmp_path))
    (tmp_path / "unshare").write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2; exit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    assert "root may make none here: unshare failed: Operation not permitted" in machine._confined()
    (tmp_path / "unshare").write_text("#!/bin/sh\n")
    assert "namespaces" not in (machine._confined() or "")


def test_packages_are_announced_before_they_are_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho no network; exit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    said = []
    with pytest.raises(DevclusterError, match="no network"):
        machine.install({"no-such-program": "some-package"}, say=said.append)
    assert said == ["installing Debian packages on this machine: some-package"]


def test_a_user_who_is_not_root_is_told_so(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert node.available() == "A node needs root."


# The lock


def test_a_lock_that_is_held_tells_who_holds_it_and_is_free_when_they_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "FILE", tmp_path / "lock")
    assert lock.is_free()
    with lock.claimed(tmp_path / "cluster") as descriptor:
        holder = subprocess.Popen(["sleep", "60"], pass_fds=(descriptor,))
    try:
        assert not lock.is_free()
        with pytest.raises(DevclusterError, match=f"{tmp_path}/cluster .*{holder.pid}"), lock.claimed(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
    assert lock.is_free()


# cgroups


@pytest.mark.parametrize("hierarchies", [[""], ["cpu", "memory", "unified"]])
def test_cgroups_are_made_and_removed_in_every_hierarchy(tmp_path, hierarchies):
    for name in hierarchies:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "cgroup.procs").touch()
    cgroups.make(tmp_path)
    made = [tmp_path / name / cgroups.NAME for name in hierarchies]
    for path in made:
        (path / "kubepods/pod1").mkdir(parents=True)
    cgroups.remove(tmp_path)
    assert not any(path.exists() for path in made)
    cgroups.remove(tmp_path)


# Images


def test_an_archive_tells_its_images_name_digest_layers_and_size(tmp_path):
    config = json.dumps(
        {"config": {"Labels": {"a": "b"}}, "rootfs": {"type": "layers", "diff_ids": ["sha256:1"]}}
    ).encode()
    manifest = [{"Config": "c.json", "RepoTags": ["localhost/x:1"], "Layers": ["l.tar"]}]
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, content in {
            "manifest.json": json.dumps(manifest).encode(),
            "c.json": config,
            "l.tar": b"12345",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    read = image.read(tmp_path / "x.tar")
    assert (read.name, read.layers, read.size, read.labels) == ("localhost/x:1", ("sha256:1",), 5, {"a": "b"})
    assert read.digest == f"sha256:{hashlib.sha256(config).hexdigest()}"


def test_the_pause_image_is_a_whole_docker_archive(tmp_path, monkeypatch):
    (tmp_path / "pause").write_bytes(b"program")
    monkeypatch.setattr(binaries, "path", lambda name: tmp_path / name)
    images.write_pause(tmp_path / "out/pause.tar")
    read = image.read(tmp_path / "out/pause.tar")
    assert read.name == images.PAUSE
    with tarfile.open(tmp_path / "out/pause.tar") as archive:
        layer = archive.extractfile("layer.tar").read()
    assert read.layers == (f"sha256:{hashlib.sha256(layer).hexdigest()}",)


def test_the_source_label_holds_no_password(monkeypatch):
    answers = {"config": "https://me:secret@git.example/x.git", "log": "1700000000", "rev-parse": "abc"}
    monkeypatch.setattr(image, "_git", lambda command, *_: answers[command])
    arguments = image.arguments()
    assert arguments["SOURCE"] == "https://git.example/x.git"
    assert arguments["CREATED"] == "2023-11-14T22:13:20Z"
