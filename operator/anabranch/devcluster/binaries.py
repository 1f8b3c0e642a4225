"""The programs of the control plane, built from the Go modules that ``go.mod`` and ``go.sum`` beside this file pin.

A build is slow the first time (minutes) and never needed again: its result goes to a cache folder that is named after
those two files, so another version never meets an old program.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import folders, toolchain
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anabranch.devcluster.folders import Say

MODULE = Path(__file__).resolve().parent
"""Where go.mod is; it pins every component, and its replace lines map Kubernetes' staging modules."""

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
"""The Go package of each program."""

TICK = 15.0
"""Seconds between two signs of life during a long build."""


@cache
def kubernetes_version() -> str:
    """The version that go.mod pins, with its leading ``v``."""
    match = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text())
    if not match:
        raise DevclusterError(f"{MODULE / 'go.mod'} does not name k8s.io/kubernetes.")
    return match[1]


@cache
def directory() -> Path:
    """The folder of the programs that belong to this exact set of modules."""
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum")))
    return folders.cache() / f"{kubernetes_version()}-{digest.hexdigest()[:8]}" / "bin"


def path(name: str) -> Path:
    """Where a program is, once :func:`ensure` has seen to it."""
    return directory() / name


def ensure(names: Iterable[str] = tuple(PACKAGES), *, say: Say = folders.silent) -> Path:
    """Builds the programs that the cache lacks, one after the other.

    Two processes may call it at once: the second waits, and finds the work done. A program appears in the folder
    whole or not at all.

    Returns:
        The folder that holds them.

    Raises:
        DevclusterError: There is no Go, or a build failed; with the end of its output.
    """
    wanted = list(names)
    if _missing(wanted):
        with folders.exclusive(
            directory(), waiting=lambda: say("another process is building the control plane: waiting for it")
        ):
            missing = _missing(wanted)
            go = toolchain.find(say) if missing else Path()
            for number, name in enumerate(missing, 1):
                _build(go, name, label=f"[{number}/{len(missing)}] {name}", say=say)
    return directory()


def kubectl(say: Say = folders.silent) -> Path:
    """A kubectl for a cluster that is not built here: the machine's own, else the one from these modules."""
    own = shutil.which("kubectl")
    return Path(own) if own else ensure(["kubectl"], say=say) / "kubectl"


def _missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if not path(name).exists()]


def _build(go: Path, name: str, *, label: str, say: Say) -> None:
    """Builds one program beside its place, and moves it there when it is complete."""
    part, log = directory() / f".{name}.{os.getpid()}.part", directory().parent / f"build-{name}.log"
    command = [str(go), "build", "-trimpath", "-ldflags", _linker_flags(), "-o", str(part), PACKAGES[name]]
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    say(f"{label}: building (log: {log})")
    start = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=MODULE, env=environment, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                try:
                    process.wait(TICK)
                except subprocess.TimeoutExpired:
                    say(f"{label}: building, {time.monotonic() - start:.0f} s so far")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise DevclusterError(f"Building {name} failed:\n{tail}", hint=f"The whole output is in {log}.")
    part.rename(path(name))
    say(f"{label}: built in {time.monotonic() - start:.0f} s")


def _linker_flags() -> str:
    """Puts the version in, as Kubernetes' own build does, or clients see v0.0.0.

    The build date keeps its default: the same input gives the same program.
    """
    kubernetes = kubernetes_version()
    major, minor = kubernetes.removeprefix("v").split(".")[:2]
    stamp = {
        "gitVersion": kubernetes,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {package}.{key}={value}" for package in packages for key, value in stamp.items())])
