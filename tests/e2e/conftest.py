"""The stage of the end-to-end tests: a cluster with a node, and this checkout's image on it.

They need root on Linux, and on Debian they install what is missing, after saying so. Elsewhere they are skipped, unless
ANABRANCH_E2E=require makes that a failure. ANABRANCH_IMAGE names a saved image to take instead of building one.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.devcluster import binaries, node
from anabranch.devcluster import image as images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.devcluster.cluster import Cluster

TIMEOUT = 900
"""Seconds for a test here: the first one builds the image, on a machine that has nothing of it perhaps."""

PATIENCE = 180
"""Seconds for a pod's start or end, perhaps while the machine has other work."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def pytest_collection_modifyitems(items):
    """Tests of the node's own life go first: there is one node at a time, and the others share theirs.

    Those of a release go last, in their order: it lives through them.
    """
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.timeout(TIMEOUT))
    items.sort(key=lambda item: (item in mine and "node_cluster" in item.fixturenames, _line_of_release(item)))


def _line_of_release(item):
    return item.location[1] if "release" in item.fixturenames else 0


@pytest.fixture(scope="session")
def say(pytestconfig) -> Callable[[str], None]:
    """Shows progress: the first run takes minutes, and may install packages."""
    return pytestconfig.get_terminal_writer().line


@pytest.fixture(scope="session")
def node_programs(say) -> None:
    """What a node is made of, built before any test's clock matters."""
    require(node.available())
    binaries.ensure(binaries.PROGRAMS, say=say)


@pytest.fixture(scope="session")
def node_cluster(run_folder, node_programs, say) -> Iterator[Cluster]:
    """A cluster of this run with a node, as its admin."""
    folder = run_folder / "node-cluster"
    try:
        yield node.up(folder, audit=True, say=say)
    finally:
        node.down(folder)


@pytest.fixture(scope="session")
def image(run_folder, say) -> images.Image:
    """This checkout's image, saved."""
    if given := os.environ.get("ANABRANCH_IMAGE"):
        return images.read(Path(given))
    require(images.available())
    return images.build(run_folder / "image.tar", say=say)


@pytest.fixture(scope="session")
def loaded_image(node_cluster, image) -> images.Image:
    """The image, which pods can ask for."""
    node.load_image(node_cluster, image.archive)
    return image


@pytest.fixture
def pods(node_cluster, loaded_image) -> Iterator[Pods]:
    """A namespace for one test's pods, which must meet the strictest standard."""
    name = f"test-{secrets.token_hex(4)}"
    metadata = {"name": name, "labels": RESTRICTED}
    node_cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    yield Pods(node_cluster, name, loaded_image.name)
    node_cluster.kubectl("delete", "namespace", name, "--wait=false")


class Pods:
    """Pods of this checkout's image in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, image: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._image = image

    def start(self, name: str, *command: str, port: int | None = None, **environment: str) -> None:
        """Starts a pod whose container runs a command of the image, as a service if it has a port."""
        container = {
            "name": "main",
            "image": self._image,
            "imagePullPolicy": "Never",
            "command": list(command),
            "env": [{"name": key, "value": value} for key, value in environment.items()],
            "resources": {"limits": {"memory": "256Mi", "cpu": "1"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
        if port:
            container["readinessProbe"] = {"tcpSocket": {"port": port}, "periodSeconds": 1}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        }
        metadata = {"name": name, "namespace": self.namespace, "labels": {"app": name}}
        manifests = [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]
        if port:
            service = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]}
            manifests.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
        self.cluster.apply(manifests)

    def run(self, name: str, *command: str, **environment: str) -> str:
        """Runs a command of the image in a pod to its end, and returns what it printed."""
        self.start(name, *command, **environment)
        try:
            self.wait(name, "jsonpath={.status.phase}=Succeeded")
        except Exception as error:
            logs = self.cluster.kubectl("logs", name, f"--namespace={self.namespace}")
            described = self.cluster.kubectl("describe", "pod", name, f"--namespace={self.namespace}")
            raise AssertionError(f"{name}: {logs}\n{described}") from error
        return self.cluster.kubectl("logs", name, f"--namespace={self.namespace}")

    def wait(self, name: str, condition: str) -> None:
        """Waits for a pod's condition, such as `condition=Ready`."""
        target = ("pod", name, f"--namespace={self.namespace}")
        self.cluster.kubectl("wait", f"--for={condition}", f"--timeout={PATIENCE}s", *target, timeout=PATIENCE + 10)


def require(reason: str | None) -> None:
    """Skips the test for a reason, if there is one; fails it where these tests are asked for."""
    if reason and os.environ.get("ANABRANCH_E2E") == "require":
        pytest.fail(f"ANABRANCH_E2E=require, but: {reason}")
    if reason:
        pytest.skip(reason)
