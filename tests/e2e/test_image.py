"""The image holds what operator, API and migration need, nothing else, and works on a read-only file system."""

from __future__ import annotations

import json
import subprocess
import tarfile
from datetime import UTC, datetime

import pytest

import anabranch

LARGEST = 300e6
"""Bytes, unpacked: more than this, and something has come along that should not."""

LABELS = {
    "org.opencontainers.image.title": "anabranch",
    "org.opencontainers.image.version": anabranch.__version__,
    "org.opencontainers.image.licenses": "Apache-2.0",
}

# What reads its own code, opens a database or an API, and serves.
IMPORTS = "anabranch.api.serve, anabranch.controllers.operator, anabranch.store.migrate, ssl, sqlite3, uvloop, asyncpg"

# Installed things, by what people would call them in a container that they broke into.
UNWANTED = ("apt", "apt-get", "bash", "cc", "curl", "dpkg", "gcc", "make", "mount", "perl", "pip", "su", "tar", "wget")


@pytest.fixture(scope="session")
def files(image):
    """The names of all files of the image."""
    with tarfile.open(image.archive) as archive:
        names = []
        for layer in json.load(archive.extractfile("manifest.json"))[0]["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as opened:
                names += opened.getmembers()
    return {member.name.removeprefix("./").rstrip("/"): member for member in names}


def test_its_labels_tell_what_it_is_and_what_it_was_made_from(image):
    assert image.labels.items() >= LABELS.items()
    revision = image.labels["org.opencontainers.image.revision"]
    # Of this checkout, though it may have gone on since.
    subprocess.run(["git", "merge-base", "--is-ancestor", revision, "HEAD"], check=True)
    show = ["git", "log", "-1", "--format=%ct", revision]
    seconds = int(subprocess.run(show, check=True, capture_output=True, text=True).stdout)
    created = datetime.fromisoformat(image.labels["org.opencontainers.image.created"])
    assert created == datetime.fromtimestamp(seconds, UTC)
    assert "org.opencontainers.image.source" in image.labels


def test_it_is_small(image):
    assert image.size < LARGEST


def test_nothing_in_it_installs_builds_or_helps_to_break_out(files):
    programs = {name.rpartition("/")[2] for name in files if "/bin/" in f"/{name}" or "/sbin/" in f"/{name}"}
    assert {"git", "python3", "ssh", "anabranch"} <= programs
    assert not [name for name in programs if name in UNWANTED]
    assert not [name for name in files if "/site-packages/pip/" in name or "/ensurepip/" in name]
    assert not [name for name, member in files.items() if member.mode & 0o6000 and member.isfile()], "setuid"


def test_nothing_of_the_machine_that_built_it_is_in_it(files, image):
    assert "etc/hosts" not in files or files["etc/hosts"].size == 0
    assert not [name for name in files if name.startswith("run/build")]
    with tarfile.open(image.archive) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        config = archive.extractfile(manifest["Config"]).read()
    assert b"PIP_" not in config


def test_every_module_has_its_bytecode(files):
    sources = [name for name in files if name.endswith(".py") and "/anabranch/" in name]
    assert sources
    for name in sources:
        folder, _, module = name.rpartition("/")
        assert f"{folder}/__pycache__/{module.removesuffix('.py')}.cpython-311.pyc" in files


def test_in_a_pod_it_is_not_root_and_has_nothing_to_write_but_tmp(pods):
    script = (
        "import os, pathlib, tempfile\n"
        "assert os.getuid() == os.getgid() == 65532, os.getuid()\n"
        "tempfile.TemporaryFile().close()\n"
        "try: pathlib.Path(os.environ['HOME'], 'x').touch()\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert pods.run("writes", "python", "-c", script).strip() == "Read-only file system"


def test_in_a_pod_its_commands_run(pods):
    script = (
        "set -e; anabranch --version; anabranch operator --help; anabranch api --help; anabranch migrate --help\n"
        f"python -c 'import {IMPORTS}; print(\"all there\")'\n"
    )
    said = pods.run("commands", "sh", "-c", script)
    for expected in (anabranch.__version__, "--workers", "ANABRANCH_CURSOR_KEYS", "--roles-from-env", "all there"):
        assert expected in said


def test_in_a_pod_git_mirrors_a_repository_and_knows_https_and_ssh(pods):
    script = (
        "set -e; cd /tmp; git init --quiet one; cd one\n"
        "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty --message=one\n"
        "git init --quiet --bare /tmp/two; git -C /tmp/two fetch --quiet /tmp/one HEAD\n"
        "git -C /tmp/two log FETCH_HEAD\n"
        "git ls-remote https://127.0.0.1:1/x 2>&1 || true\n"
        "git ls-remote ssh://127.0.0.1:1/x 2>&1 || true\n"
    )
    said = pods.run("git", "sh", "-c", script)
    assert "    one" in said
    assert "Failed to connect to 127.0.0.1 port 1" in said
    assert "connect to host 127.0.0.1 port 1: Connection refused" in said
