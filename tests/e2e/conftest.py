"""The stage of the end-to-end tests: a cluster with a node, and this checkout's image on it.

They need root on Linux, and on Debian they install what is missing, after saying so. Elsewhere they are skipped, unless
ANABRANCH_E2E=require makes that a failure. ANABRANCH_IMAGE names a saved image to take instead of building one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.e2e import database, previous, releases
from tests.e2e.teams import Team

from anabranch.devcluster import binaries, node
from anabranch.devcluster import image as images
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.previous import Previous
    from tests.e2e.releases import Release
    from tests.e2e.teams import Load

    from anabranch.devcluster.cluster import Cluster

TIMEOUT = 900
"""Seconds for a test here: the first one builds the image, on a machine that has nothing of it perhaps."""

PATIENCE = 180
"""Seconds for a pod's start or end, perhaps while the machine has other work."""

LIFE = ("test_upgrade.py", "test_story.py", "test_under_load.py", "test_uninstall.py", "test_newcomer.py")
"""The tests of a release, in the order of its life."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def pytest_collection_modifyitems(items):
    """Tests of the node's own life go first: there is one node at a time, and the others share theirs.

    Those of a release go last, in their order: it lives through them, from the installation to the end.
    """
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.timeout(TIMEOUT))
    items.sort(key=lambda item: (item in mine and "node_cluster" in item.fixturenames, *_place_in_life(item)))


def pytest_collection_finish(session):
    """Builds what a node is made of before any test's clock runs: that takes minutes, once on a machine."""
    wanted = any("node_programs" in item.fixturenames for item in session.items)
    if wanted and not session.config.option.collectonly and not node.available():
        with contextlib.suppress(DevclusterError):  # the fixture tells of it
            _make_node(session.config.get_terminal_writer().line)


def _make_node(say: Callable[[str], None]) -> None:
    machine.install(machine.PROGRAMS, say=say)
    binaries.ensure(binaries.PROGRAMS, say=say)


def _place_in_life(item):
    file = item.path.name
    return (LIFE.index(file), item.location[1]) if file in LIFE else (-1, 0)


@pytest.fixture(scope="session")
def say(pytestconfig) -> Callable[[str], None]:
    """Shows progress: the first run takes minutes, and may install packages."""
    return pytestconfig.get_terminal_writer().line


@pytest.fixture(scope="session")
def node_programs(say) -> None:
    """What a node is made of, built before any test's clock matters."""
    require(node.available())
    require(refusal(lambda: machine.install(machine.PROGRAMS, say=say)))
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
    require(refusal(lambda: images.prepare(say=say)))
    return images.build(run_folder / "image.tar", say=say)


@pytest.fixture(scope="session")
def loaded_image(node_cluster, image) -> images.Image:
    """The image, which pods can ask for."""
    node.load_image(node_cluster, image.archive)
    return image


@pytest.fixture(scope="session")
def release_before(node_cluster, loaded_image, run_folder, say) -> tuple[Release, Previous]:
    """The release before this one, ready."""
    folder = run_folder / "release"
    folder.mkdir()
    archive = folder / "postgres.tar"
    database.save(loaded_image, archive)
    node.load_image(node_cluster, archive)
    archive.unlink()
    repository = loaded_image.name.rpartition(":")[0]
    release = releases.prepare(node_cluster, folder, image=repository, postgres=database.NAME)
    before = previous.prepare(node_cluster, folder / "previous", image=loaded_image, say=say)
    release.install(chart=before.chart)
    return release, before


@pytest.fixture(scope="session")
def team(release_before, loaded_image) -> Team:
    """A team that has used it since."""
    team = Team(release=release_before[0], image=loaded_image.name)
    team.settle()
    return team


@pytest.fixture(scope="session")
def upgrade(release_before, team) -> Upgrade:
    """The upgrade to this release, while the team's agents go on, and what was before it."""
    release, before = release_before
    memory, schema = team.memory(), release.schema()
    jobs = {item["metadata"]["uid"] for item in release.of("migrate", kind="jobs")}
    with team.load("upgraded", insist=not before.rolls) as load:
        release.upgrade()
    return Upgrade(before=before, memory=memory, schema=schema, jobs=jobs, load=load)


@pytest.fixture(scope="session")
def release(release_before, upgrade) -> Release:
    """This release, upgraded from the one before."""
    return release_before[0]


@pytest.fixture
def pods(node_cluster, loaded_image) -> Iterator[Pods]:
    """A namespace for one test's pods, which must meet the strictest standard."""
    name = f"test-{secrets.token_hex(4)}"
    metadata = {"name": name, "labels": RESTRICTED}
    node_cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    yield Pods(node_cluster, name, loaded_image.name)
    node_cluster.kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """An upgrade that has ended.

    Attributes:
        before: What it came from.
        memory: What a reader had before it.
        schema: What the migration said before it.
        jobs: The uids of the migration's Jobs before it.
        load: What was submitted meanwhile.
    """

    before: Previous
    memory: Any
    schema: str
    jobs: set[str]
    load: Load


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


def refusal(prepare: Callable[[], None]) -> str | None:
    """Why this machine, or its network, does not give what is needed; None where it does."""
    try:
        prepare()
    except DevclusterError as error:
        return str(error)
    return None


def require(reason: str | None) -> None:
    """Skips the test for a reason, if there is one; fails it where these tests are asked for."""
    if reason and os.environ.get("ANABRANCH_E2E") == "require":
        pytest.fail(f"ANABRANCH_E2E=require, but: {reason}")
    if reason:
        pytest.skip(reason)
