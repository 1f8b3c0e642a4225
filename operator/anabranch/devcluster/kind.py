"""A cluster in docker, by the `kind` command, where the machine has both.

It has a node, so more works there than on a bare control plane; what it cannot do is log requests.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from anabranch.devcluster import binaries, folders
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.devcluster.folders import Say

WAIT = "180s"
"""How long `kind` may wait for the node."""


def available() -> bool:
    """Whether the command is there and a docker daemon answers."""
    return bool(shutil.which("kind")) and docker_answers()


def docker_answers() -> bool:
    """Whether there is a docker daemon to work with."""
    if not shutil.which("docker"):
        return False
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=15)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def up(folder: Path, name: str, *, say: Say = folders.silent) -> Cluster:
    """Makes the cluster of that name unless it exists, and writes its admin's kubeconfig into a folder.

    Raises:
        DevclusterError: `kind` failed; with its own words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    if name in _kind("get", "clusters").split():
        _kind("export", "kubeconfig", "--name", name, "--kubeconfig", str(kubeconfig))
    else:
        say(f"making the kind cluster {name}")
        _kind("create", "cluster", "--name", name, "--kubeconfig", str(kubeconfig), "--wait", WAIT)
    return Cluster(kind="kind", kubeconfig=kubeconfig, kubectl_path=binaries.kubectl(say))


def down(name: str) -> None:
    """Deletes the cluster of that name, if there is one."""
    _kind("delete", "cluster", "--name", name)


def _kind(*arguments: str) -> str:
    done = subprocess.run(["kind", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise DevclusterError(f"`kind {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout
