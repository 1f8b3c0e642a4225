"""The chart as somebody installs it: with Helm, on a node, with a database whose volume outlives its pod."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.devcluster import binaries
from anabranch.devcluster.node import machine, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.devcluster.cluster import Cluster

CHART = Path(__file__).parents[2] / "charts/anabranch"
DOCUMENTS = CHART.parents[1] / "docs"
NAME = "anabranch"
NAMESPACE = "anabranch-system"
URL = f"https://anabranch-api.{NAMESPACE}.svc"
AUDIENCE = f"anabranch.{NAMESPACE}"
DATABASE = "anabranch-database-0"

DATA = "/var/lib/anabranch-data"
"""The folder of the node that the database's volume is."""

READY = "deployment/anabranch-operator", "deployment/anabranch-api"

TIMEOUT = 300
"""Seconds for an installation, an upgrade or an uninstallation."""


class CommandError(AssertionError):
    """A command failed; with what it printed."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release, whatever state it is in.

    Attributes:
        cluster: Where.
        folder: For files of the tests.
        values: It is installed with.
    """

    cluster: Cluster
    folder: Path
    values: dict[str, Any]

    def helm(self, *arguments: str, program: str = "helm") -> str:
        """Runs a Helm in the release's namespace."""
        return self.run([str(binaries.path(program)), *arguments, f"--namespace={NAMESPACE}"])

    def install(self, *options: str, chart: Path = CHART, program: str = "helm") -> None:
        """Installs a chart, and returns when all of it is ready."""
        values = self.folder / "values.json"
        values.write_text(json.dumps(self.values))
        wait = ("--wait", "--wait-for-jobs", f"--timeout={TIMEOUT}s")
        try:
            self.helm("install", NAME, str(chart), f"--values={values}", *wait, *options, program=program)
        except CommandError as error:
            raise CommandError(f"{error}\n{self.state()}") from None

    def upgrade(self) -> None:
        """Upgrades to the chart of this checkout, as `docs/upgrade.md` says."""
        line = next(line for line in commands("upgrade.md") if line.startswith("helm upgrade"))
        try:
            self.by_hand(line.replace("charts/anabranch", str(CHART)) + f" --timeout={TIMEOUT}s")
        except CommandError as error:
            raise CommandError(f"{error}\n{self.state()}") from None

    def uninstall(self, *, program: str = "helm") -> None:
        """Uninstalls, and returns when everything has gone."""
        try:
            self.helm("uninstall", NAME, "--wait", f"--timeout={TIMEOUT}s", program=program)
        except CommandError as error:
            raise CommandError(f"{error}\n{self.state()}") from None

    def by_hand(self, line: str) -> str:
        """Runs a line that a document tells people to type, without a shell: kubectl or helm."""
        command = shlex.split(line)
        known = {"kubectl": self.cluster.kubectl_path, "helm": binaries.path("helm"), "anabranch": anabranch()}
        return self.run([str(known[command[0]]), *command[1:]])

    def run(self, command: list[str], **environment: str) -> str:
        """Runs a command as the cluster's admin, and returns what it printed."""
        own = {"KUBECONFIG": str(self.cluster.kubeconfig), "HOME": str(self.folder), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=own | environment, timeout=TIMEOUT + 30
        )
        if done.returncode:
            raise CommandError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def kubectl(self, *arguments: str) -> str:
        """Runs kubectl in the release's namespace."""
        return self.cluster.kubectl(f"--namespace={NAMESPACE}", *arguments, timeout=TIMEOUT + 30)

    def ready(self) -> None:
        """Waits until operator and API are."""
        for deployment in READY:
            self.kubectl("rollout", "status", deployment, f"--timeout={TIMEOUT}s")

    def of(self, component: str, *, kind: str = "pods") -> list[dict[str, Any]]:
        """A part's objects, those too that are about to end."""
        selector = f"--selector=app.kubernetes.io/component={component}"
        items: list[dict[str, Any]] = self.cluster.get(kind, f"--namespace={NAMESPACE}", selector)["items"]
        return items

    def pods(self, component: str, *, ending: bool = True) -> list[str]:
        """Names of a part's pods, with those that are about to end or without."""
        found = [item["metadata"] for item in self.of(component)]
        return [metadata["name"] for metadata in found if ending or "deletionTimestamp" not in metadata]

    def authority(self) -> str:
        """Who signs the API's certificate."""
        inside = '--output=go-template={{index .data "ca.crt" | base64decode}}'
        return self.kubectl("get", "secret", "anabranch-api-tls", inside)

    def schema(self) -> str:
        """What the migration said at its end; before that it may have waited for the database."""
        return self.kubectl("logs", "--selector=app.kubernetes.io/component=migrate").splitlines()[-1]

    def state(self) -> str:
        """What a person would look at first: the pods, and what each that is not ready says."""
        told = [self.kubectl("get", "pods,jobs", "--output=wide")]
        for item in self.cluster.get("pods", f"--namespace={NAMESPACE}")["items"]:
            conditions = {each["type"]: each["status"] for each in item["status"].get("conditions", ())}
            if conditions.get("Ready") != "True":
                name = item["metadata"]["name"]
                logs = ("logs", name, "--all-containers", "--tail=15", "--ignore-errors", "--prefix")
                told.append(self.kubectl(*logs))
        return "\n".join(told)


def prepare(cluster: Cluster, folder: Path, *, image: str, postgres: str) -> Release:
    """Makes the release's namespace, and a volume for its database, as a cluster with storage would have.

    Args:
        cluster: With a node.
        folder: For files.
        image: Name of the image under test, without its tag.
        postgres: Name of the database's image.
    """
    machine.run(*namespaces.enter(namespaces.processes(cluster.kubeconfig.parent), "mkdir", "-p", DATA))
    restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": DATA},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [linux]}]}},
    }
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": volume},
        ]
    )
    trial = {"image": postgres, "pullPolicy": "Never", "storageSize": "1Gi"}
    values = {
        "image": {"repository": image, "pullPolicy": "Never"},
        "database": {"mode": "trial", "trial": trial},
        "operator": {"replicas": 2},
        # People reach it by port-forward.
        "api": {"replicas": 2, "tls": {"extraNames": ["localhost"]}},
    }
    return Release(cluster=cluster, folder=folder, values=values)


def commands(document: str) -> list[str]:
    """The commands that a document shows."""
    text = (DOCUMENTS / document).read_text()
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def anabranch() -> Path:
    """The command of this checkout, as a person has it on their machine."""
    return Path(sys.executable).with_name("anabranch")


def until(what: str, look: Callable[[], Any], *, seconds: float = 180) -> Any:
    """Looks again and again until there is something, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:.0f} s"
        time.sleep(0.3)
    return found
