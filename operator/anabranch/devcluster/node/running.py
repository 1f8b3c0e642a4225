"""A cluster with a node, up and down: the control plane on the host, and the node's programs in its namespaces."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.devcluster import binaries, controlplane, folders, pki
from anabranch.devcluster.controlplane import Component
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import addresses, cgroups, images, machine, namespaces
from anabranch.devcluster.pki import Client
from anabranch.devcluster.ports import answers
from anabranch.devcluster.processes import Program

if TYPE_CHECKING:
    from anabranch.devcluster.cluster import Cluster
    from anabranch.devcluster.folders import Say
    from anabranch.devcluster.processes import Processes

TEMPLATES: Final = Path(__file__).resolve().parent / "config"

INSIDE: Final = ("containerd", "kubelet", "kube-proxy", "coredns")
"""What runs in the node's namespaces, in the order of its start."""

COMPONENTS: Final = ("kube-scheduler", namespaces.NAME, *INSIDE)

CLIENTS: Final = {
    "apiserver-kubelet-client": Client("apiserver-kubelet-client", group="system:masters"),
    "kube-scheduler": Client("system:kube-scheduler"),
    "kubelet": Client(f"system:node:{addresses.NAME}", group="system:nodes"),
    "kube-proxy": Client("system:kube-proxy"),
    "coredns": Client("coredns"),
}
"""The users of a node, by the name of their certificate."""


def up(folder: Path, *, durable: bool = False, audit: bool = False, say: Say = folders.silent) -> Cluster:
    """Starts a cluster with a node, or what of it does not run, and returns when pods can run and DNS answers.

    It takes some ten seconds, and minutes where programs are to be built first.

    Args:
        folder: Where it keeps everything.
        durable: Whether its data must survive the end of the machine; without that it is faster.
        audit: Whether the API server logs each request.
        say: Takes progress, and what is about to be installed on the machine.

    Raises:
        DevclusterError: The machine cannot have a node, another one runs, or something did not start.
    """
    if reason := machine.available():
        raise DevclusterError(reason, hint="Without --node, the control plane needs nothing but Python and Go.")
    folder = folder.resolve()
    processes = namespaces.processes(folder)
    if not exists(folder) and any(component.pid for component in controlplane.status(folder)):
        raise DevclusterError(
            f"The control plane in {folder} runs without a node.", hint="Take it down first, or name another folder."
        )
    machine.install(machine.PROGRAMS, say=say)
    binaries.ensure([*binaries.CONTROL_PLANE, *binaries.NODE], say=say)
    with folders.exclusive(processes.folder):
        start = time.monotonic()
        namespaces.ensure(processes)
        pki.ensure(folder / "pki")
        pki.ensure_node(folder / "pki", clients=CLIENTS, name=addresses.NAME, address=addresses.NODE)
        options = _api_options(folder)
        cluster = controlplane.up(folder, durable=durable, audit=audit, api_options=options, say=say)
        _start(folder, processes, cluster)
        say(f"the node is ready {time.monotonic() - start:.1f} s after the start; pods can run")
    return cluster


def down(folder: Path, *, keep_data: bool = False) -> None:
    """Stops a cluster with its node, and deletes its folder unless its data is to be kept.

    It leaves nothing behind, also after an ``up`` that was killed.
    """
    folder = folder.resolve()
    if not folder.exists():
        return
    processes = namespaces.processes(folder)
    with folders.exclusive(processes.folder):
        namespaces.remove(processes)
        for name in COMPONENTS:
            processes.stop(name)
        controlplane.down(folder, keep_data=keep_data)


def status(folder: Path) -> list[Component]:
    """How each component of a folder's cluster fares, the control plane's first."""
    processes = namespaces.processes(folder)
    found = []
    for name in COMPONENTS:
        process = processes.running(name)
        if process and name in INSIDE:
            process = next(iter(process.children()), process)  # the recorded one only entered the namespaces
        found.append(Component(name))
        if process:
            found[-1] = replace(found[-1], pid=process.pid, memory=process.memory_info().rss)
    return [*controlplane.status(folder), *found]


def exists(folder: Path) -> bool:
    """Whether a folder's cluster has a node, running or not."""
    return namespaces.processes(folder).folder.is_dir()


def _start(folder: Path, processes: Processes, cluster: Cluster) -> None:
    """Starts what does not run, each as soon as it can, and waits for all of it at the end."""
    _configure(folder, processes.folder)

    def start(name: str) -> None:
        program = binaries.path(name) if name in binaries.NODE else shutil.which(name, path=machine.PATH) or name
        command = [program, *controlplane.options(processes.folder / f"config/{name}.args")]
        inside = namespaces.enter(processes, *command) if name in INSIDE else command
        processes.start(name, Program(inside, env=controlplane.ENVIRONMENT))

    start("containerd")
    start("kube-scheduler")
    cluster.kubectl("apply", "--server-side", f"--filename={processes.folder}/config/dns-rbac.yaml")
    ready = namespaces.enter(processes, "ctr", "version")
    processes.wait("containerd", lambda: machine.run(*ready) != "", "containerd")
    images.ensure_pause(processes)
    for name in ("kubelet", "kube-proxy", "coredns"):
        start(name)
    # That the API server reaches the kubelet is what logs and exec need.
    healthz = f"--raw=/api/v1/nodes/{addresses.NAME}/proxy/healthz"
    processes.wait("the kubelet", lambda: cluster.kubectl("get", healthz) == "ok", "kubelet", "containerd")
    condition = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    node = ("get", "node", addresses.NAME, f"--output={condition}")
    processes.wait("the node", lambda: cluster.kubectl(*node) == "True", *INSIDE, "kube-scheduler")
    processes.wait("DNS", lambda: answers(f"http://{addresses.NODE}:8181/ready"), "coredns")


def _configure(folder: Path, own: Path) -> None:
    port = controlplane.api_port(folder)
    values = {
        "dir": own,
        "pki": folder / "pki",
        "node_name": addresses.NAME,
        "node_address": addresses.NODE,
        "pod_cidr": addresses.PODS,
        "service_cidr": addresses.SERVICES,
        "cgroup": cgroups.NAME,
        "pause_image": images.PAUSE,
    }
    controlplane.render(TEMPLATES, own / "config", values)
    for name in ("kube-scheduler", *INSIDE[1:]):
        host = addresses.HOST if name in INSIDE else "127.0.0.1"
        target = own / f"config/{name}.kubeconfig"
        controlplane.write_kubeconfig(target, folder / "pki", name, server=f"https://{host}:{port}")


def _api_options(folder: Path) -> list[str]:
    """What the API server has to know of a node."""
    return [
        # Pods come by the host's end of the link, everyone else by the loopback address; a server has one or all.
        "--bind-address=0.0.0.0",
        f"--advertise-address={addresses.HOST}",
        "--endpoint-reconciler-type=lease",
        "--allow-privileged",
        # For logs, exec and port-forward.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={folder}/pki/ca.crt",
        f"--kubelet-client-certificate={folder}/pki/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={folder}/pki/apiserver-kubelet-client.key",
    ]
