"""A Kubernetes control plane on the loopback address: etcd, kube-apiserver, kube-controller-manager.

It is everything that speaks to the API needs: custom resources, RBAC, admission, tokens, garbage collection. There is
no node, so pods stay Pending; the package ``node`` adds one. Each folder is a cluster of its own, with its own ports:
several run side by side.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import string
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.devcluster import binaries, folders, pki
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.ports import answers, as_client, start_on
from anabranch.devcluster.processes import Processes, Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.devcluster.folders import Say

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager")
"""In the order in which they start."""

PORTS = "ports.json"

TEMPLATES = Path(__file__).resolve().parent / "config"

# A clean environment: a proxy variable would send the components' own traffic away.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}


@dataclass(frozen=True)
class Component:
    """How a component fares.

    Attributes:
        name: Its name.
        pid: Its process id; None when it does not run.
        memory: Its resident memory in bytes.
    """

    name: str
    pid: int | None = None
    memory: int = 0


def up(
    folder: Path,
    *,
    durable: bool = False,
    audit: bool = False,
    api_options: Sequence[str] = (),
    say: Say = folders.silent,
) -> Cluster:
    """Starts the control plane of a folder, or what of it does not run, and returns when the API is ready for use.

    Args:
        folder: Where it keeps everything.
        durable: Whether its data must survive the end of the machine; without that it is faster.
        audit: Whether the API server writes ``log/audit.log``; counts when the API server starts.
        api_options: Further options of the API server, which go before its usual ones where they have the same name.
        say: Takes progress.

    Raises:
        DevclusterError: Something did not start; with the end of its log.
    """
    folder = folder.resolve()
    binaries.ensure(say=say)
    with folders.exclusive(folder, waiting=lambda: say(f"another process is at work on {folder}: waiting for it")):
        start = time.monotonic()
        cluster = start_on(
            folder / PORTS,
            ("etcd", "etcd-peer", "api"),
            lambda ports: _start(folder, ports, durable=durable, audit=audit, api_options=api_options),
            undo=lambda: _stop(folder),
        )
        say(f"control plane {binaries.kubernetes_version()} ready in {time.monotonic() - start:.1f} s")
        return cluster


def down(folder: Path, *, keep_data: bool = False) -> None:
    """Stops the control plane of a folder, and deletes the folder unless its data is to be kept."""
    folder = folder.resolve()
    if folder.exists():
        with folders.exclusive(folder):
            _stop(folder)
            if not keep_data:
                shutil.rmtree(folder)


def status(folder: Path) -> list[Component]:
    """How each component of a folder's control plane fares."""
    processes = Processes(folder.resolve())
    running = {name: processes.running(name) for name in COMPONENTS}
    return [
        Component(name, pid=process.pid, memory=process.memory_info().rss) if process else Component(name)
        for name, process in running.items()
    ]


def _start(folder: Path, ports: dict[str, int], *, durable: bool, audit: bool, api_options: Sequence[str]) -> Cluster:
    """Starts what does not run, each after what it needs."""
    pki.ensure(folder / "pki")
    _write_config(folder, ports)
    cluster = Cluster(
        kind="local",
        kubeconfig=folder / "kubeconfig",
        kubectl_path=binaries.path("kubectl"),
        audit_log=folder / "log/audit.log" if audit else None,
    )
    processes = Processes(folder)

    def start(name: str, *files: str, more: Sequence[str] = ()) -> None:
        given = [option for file in files for option in options(folder / "config" / file)]
        processes.start(name, Program([binaries.path(name), *given, *more], env=ENVIRONMENT))

    start("etcd", "etcd.args", *([] if durable else ["etcd-volatile.args"]))
    processes.wait("etcd", lambda: answers(f"http://127.0.0.1:{ports['etcd']}/health"), "etcd")
    audited = ["kube-apiserver-audit.args"] if audit else []
    start("kube-apiserver", "kube-apiserver.args", *audited, more=api_options)
    # Asked many times a second, by a request and not by kubectl, which would take the processor that they start on.
    api, admin = f"https://127.0.0.1:{ports['api']}", as_client(folder / "pki", "admin")
    processes.wait("the API", lambda: answers(f"{api}/readyz", context=admin), "kube-apiserver", "etcd")
    start("kube-controller-manager", "kube-controller-manager.args")
    # Both are the controllers' work: when they are there, a namespace is usable.
    default = f"{api}/api/v1/namespaces/default"
    made = [f"{default}/{it}" for it in ("serviceaccounts/default", "configmaps/kube-root-ca.crt")]
    processes.wait("a usable namespace", lambda: all(answers(url, context=admin) for url in made), *COMPONENTS)
    return cluster


def _stop(folder: Path) -> None:
    """Stops every component, the last one first.

    The API server would wait up to a minute for clients that still watch something: it is not given that.
    """
    processes = Processes(folder)
    for name in reversed(COMPONENTS):
        processes.stop(name)


def _write_config(folder: Path, ports: dict[str, int]) -> None:
    """Writes the kubeconfigs, and the templates with the cluster's values filled in."""
    server = f"https://127.0.0.1:{ports['api']}"
    write_kubeconfig(folder / "kubeconfig", folder / "pki", "admin", server=server)
    values = {
        "dir": folder,
        "api_port": ports["api"],
        "etcd": f"http://127.0.0.1:{ports['etcd']}",
        "etcd_peer": f"http://127.0.0.1:{ports['etcd-peer']}",
    }
    render(TEMPLATES, folder / "config", values)
    for name in pki.CLIENTS:
        if name != "admin":
            write_kubeconfig(folder / f"config/{name}.kubeconfig", folder / "pki", name, server=server)


def render(templates: Path, target: Path, values: Mapping[str, object]) -> None:
    """Fills values into the templates of a folder; a file that would not change is not written."""
    target.mkdir(parents=True, exist_ok=True)
    for template in templates.iterdir():
        _write(target / template.name, string.Template(template.read_text()).substitute(values), mode=0o644)


def write_kubeconfig(path: Path, certificates: Path, name: str, *, server: str) -> None:
    """Writes the kubeconfig of a client, with its certificate inside, so that it can be carried elsewhere.

    Args:
        path: Where to.
        certificates: The folder of :mod:`~anabranch.devcluster.pki`.
        name: The client's certificate there.
        server: The API's URL.
    """

    def data(file: str) -> str:
        return base64.b64encode((certificates / file).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{name}.crt"), "client-key-data": data(f"{name}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": name}}],
        "current-context": "devcluster",
    }
    _write(path, json.dumps(config, indent=1), mode=0o600)


def options(file: Path) -> list[str]:
    """The options in a file: a line each, less the comments."""
    return re.findall(r"^--.+", file.read_text(), re.MULTILINE)


def api_port(folder: Path) -> int:
    """The port that a folder's API server listens on."""
    return int(json.loads((folder / PORTS).read_text())["api"])


def _write(path: Path, text: str, *, mode: int) -> None:
    """Writes a file only where that changes it: kube-proxy ends when its own is written, even with the same text."""
    if not path.exists() or path.read_text() != text:
        path.touch(mode)
        path.write_text(text)
