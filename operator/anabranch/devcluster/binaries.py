"""The programs of the local cluster, built from the Go modules that ``go.mod`` and ``go.sum`` beside this file pin.

A build is slow the first time (minutes) and never needed again: its result goes to a cache folder that is named after
what it is made from, so another version never meets an old program. What only a node needs is built only for one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import folders, toolchain
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from anabranch.devcluster.folders import Say

MODULE = Path(__file__).resolve().parent
"""Where go.mod is; it pins every component, and its replace lines map Kubernetes' staging modules."""

HELM3 = MODULE / "helm3"
"""The module of Helm 3, which needs other versions of nearly everything."""


@dataclass(frozen=True)
class Source:
    """What a program is built from.

    Attributes:
        package: Its Go package.
        module: The folder of the go.mod that pins it.
        stamps: Variables that the linker sets, beside Kubernetes' own, by their full name.
    """

    package: str
    module: Path = MODULE
    stamps: tuple[tuple[str, str], ...] = ()


CONTROL_PLANE = {
    "etcd": Source("go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Source("k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": Source("k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kubectl": Source("k8s.io/kubernetes/cmd/kubectl"),
}
"""What every cluster runs."""

NODE = {
    "kube-scheduler": Source("k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": Source("k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": Source("k8s.io/kubernetes/cmd/kube-proxy"),
    "coredns": Source("./node/programs/coredns"),
    "pause": Source("./node/programs/pause"),
}
"""What a cluster with a node runs besides."""

HELM = {
    "helm": Source("helm.sh/helm/v4/cmd/helm", stamps=(("helm.sh/helm/v4/internal/version.version", "v4.1.0"),)),
    # The default of Helm 3 is Kubernetes 1.20, whatever it is built with: `helm template` would refuse our charts.
    "helm3": Source(
        "helm.sh/helm/v3/cmd/helm",
        module=HELM3,
        stamps=(
            ("helm.sh/helm/v3/internal/version.version", "v3.18.6"),
            ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor", "1"),
            ("helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor", "33"),
        ),
    ),
}
"""What installs a chart: the newest Helm, and the oldest that the chart is made for."""

PROGRAMS = CONTROL_PLANE | NODE | HELM

PAUSES = (5.0, 20.0)
"""Seconds before a build is tried again that could not fetch a module: go itself asks for each of them once."""

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
    return folders.cache() / f"{kubernetes_version()}-{_digest(MODULE)}" / "bin"


def path(name: str) -> Path:
    """Where a program is, once :func:`ensure` has seen to it.

    Kubernetes' own are in one folder; each of the others is in one that is named after its own source.
    """
    source = PROGRAMS[name]
    if source.module == MODULE and not source.package.startswith("."):
        return directory() / name
    own = sorted((source.module / source.package).glob("*.go"))
    return folders.cache() / f"{name}-{_digest(source.module, *own)}" / "bin" / name


def ensure(names: Iterable[str] = tuple(CONTROL_PLANE), *, say: Say = folders.silent) -> Path:
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
            directory(), waiting=lambda: say("another process is building programs of the cluster: waiting for it")
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


def _digest(module: Path, *files: Path) -> str:
    """Eight digits that tell a module's pins, and some further files, from any others."""
    content = b"".join(file.read_bytes() for file in (module / "go.mod", module / "go.sum", *files))
    return hashlib.sha256(content).hexdigest()[:8]


def _missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if not path(name).exists()]


def _build(go: Path, name: str, *, label: str, say: Say) -> None:
    """Builds one program beside its place, and moves it there when it is complete."""
    source, folder = PROGRAMS[name], path(name).parent
    folder.mkdir(parents=True, exist_ok=True)
    part, log = folder / f".{name}.{os.getpid()}.part", folder.parent / f"build-{name}.log"
    flags = _linker_flags(source)
    command = [str(go), "build", "-trimpath", "-ldflags", flags, "-o", str(part), source.package]
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    say(f"{label}: building (log: {log})")
    start = time.monotonic()
    for pause in (*PAUSES, None):
        if _ran(command, log, source.module, environment, tick=lambda: _tell(say, label, start)):
            break
        said = log.read_text(errors="replace").splitlines()
        if pause is None or not any("https://" in line for line in said):  # a compiler has no reason to say that
            tail = "\n".join(said[-15:])
            raise DevclusterError(f"Building {name} failed:\n{tail}", hint=f"The whole output is in {log}.")
        say(f"{label}: a module could not be fetched, so again in {pause:.0f} s: {said[-1]}")
        time.sleep(pause)
    part.rename(path(name))
    say(f"{label}: built in {time.monotonic() - start:.0f} s")


def _tell(say: Say, label: str, start: float) -> None:
    say(f"{label}: building, {time.monotonic() - start:.0f} s so far")


def _ran(command: list[str], log: Path, folder: Path, environment: dict[str, str], *, tick: Callable[[], None]) -> bool:
    """Runs a command to its end, its output in a log, with signs of life; tells whether it succeeded."""
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                try:
                    process.wait(TICK)
                except subprocess.TimeoutExpired:
                    tick()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode == 0


def _linker_flags(source: Source) -> str:
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
    stamps = [(f"{package}.{key}", value) for package in packages for key, value in stamp.items()]
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in (*stamps, *source.stamps))])
