"""Two stages for tests: the running whole, and a cluster with this release installed but no operator.

On the second come namespaces for one test each, and people with tokens of their own.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster import undisturbed

from anabranch.devcluster import accounts, assembly, installation
from anabranch.devcluster import stack as stacks
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.errors import DevclusterError
from anabranch.manifests import crds, install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.cluster.places import Place


AT_FIRST = pytest.StashKey["tuple[stacks.Stack, frozenset[str]]"]()
"""The stack, and what there was when nobody had used it."""

TIMEOUT = 900
"""Seconds for a test here: the first one starts everything, perhaps while the machine has much other work."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session")
def stack(run_folder, pytestconfig) -> Iterator[stacks.Stack]:
    folder = run_folder / "stack"
    (volume := run_folder / "volume").mkdir()
    config = {"backupTargets": {"volume": {"folder": {"path": str(volume)}}}}
    try:
        made = assembly.up(folder, options=assembly.Options(owner=stacks.TEMPORARY, audit=True, config=config))
        undisturbed.await_leader(made)
        pytestconfig.stash[AT_FIRST] = made, undisturbed.state(made)
        yield made
    finally:
        if started := stacks.load(folder):
            started.down()


@pytest.fixture(scope="module", autouse=True)
def as_it_was(request) -> Iterator[None]:
    """A file leaves the stack as it found it."""
    yield
    if not any(item.module is request.module and "stack" in item.fixturenames for item in request.session.items):
        return
    stack, before = request.config.stash.get(AT_FIRST, (None, frozenset()))
    if stack is None or stack.cluster.kind != "local" or stack.server.folder is None:
        return  # what others do with what is theirs
    undisturbed.await_leader(stack)
    after = undisturbed.state(stack)
    changed = [*(f"+ {each}" for each in sorted(after - before)), *(f"- {each}" for each in sorted(before - after))]
    assert not changed, "\n".join(["this file has left the stack otherwise than it found it", *changed])


@pytest.fixture(scope="module")
async def place(stack) -> AsyncIterator[Place]:
    """A namespace of the stack with a Baseline, for the tests of a module."""
    from tests.cluster.places import Place

    place = Place(stack)
    stack.make_namespace(place.namespace)
    place.baseline(review={"mode": "Automatic"})
    yield place
    await place.close()


@pytest.fixture(scope="session")
def installed(cluster) -> Iterator[Cluster]:
    """The cluster, with definitions, roles and admission policies at work, and no operator."""
    release = {"owner": stacks.TEMPORARY, "definitions": crds(), "others": install()}
    installation.install(cluster, **release)
    await_policies(cluster)
    await_aggregation(cluster)
    yield cluster
    if cluster.kind == "given":
        installation.uninstall(cluster, **release)


@pytest.fixture
def namespace(installed) -> Iterator[str]:
    """A namespace for one test."""
    name = f"test-{secrets.token_hex(4)}"
    installed.kubectl("create", "namespace", name)
    yield name
    installed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def person(installed, namespace, tmp_path):
    """Makes ServiceAccounts of the test's namespace, and gives the cluster as each of them sees it, by its own token.

    Grants are names of ClusterRoles to bind there, or `verbs resources` of the group anabranch.dev.
    """

    def make(name: str, *grants: str) -> Cluster:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        installed.apply([account, *grant(namespace, subject, *grants)])
        made = accounts.set_up(installed, namespace=namespace, name=name, folder=tmp_path)
        return Cluster(kind=installed.kind, kubeconfig=made.kubeconfig, kubectl_path=installed.kubectl_path)

    return make


def grant(namespace: str, subject: dict[str, str], *grants: str) -> Iterator[dict[str, Any]]:
    """The Roles and RoleBindings that give a subject each grant in a namespace."""
    version = "rbac.authorization.k8s.io/v1"
    for each in grants:
        verbs, _, resources = each.partition(" ")
        metadata = {"name": f"grant-{secrets.token_hex(4)}", "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": each}
        if resources:
            rule = {"apiGroups": ["anabranch.dev"], "resources": resources.split(","), "verbs": verbs.split(",")}
            yield {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}
            role |= {"kind": "Role", "name": metadata["name"]}
        yield {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        }


def await_aggregation(cluster: Cluster) -> None:
    """Wait until the cluster's own roles hold what ours add to them: a controller does that, a moment later."""
    deadline = time.monotonic() + 30
    for role in ("view", "edit", "admin"):
        while "anabranch.dev" not in json.dumps(cluster.get("clusterrole", role).get("rules", [])):
            assert time.monotonic() < deadline, f"nothing is added to {role}"
            time.sleep(0.1)


def await_policies(cluster: Cluster) -> None:
    """Wait until the API server has loaded the policies: a moment after it has stored them."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    cluster.apply([*grant(name, {"kind": "User", "name": "probe"}, "create baselines,consolidationjobs")])
    review = {"reviewer": "probe", "decisions": []}
    forbidden = (
        ("Baseline", {"review": {"mode": "Automatic"}}),
        ("Baseline", {"adopt": {"lineId": f"ln_{'0' * 26}"}}),
        ("ConsolidationJob", {"origin": "Import"}),
        ("ConsolidationJob", {"branchRef": {"name": "b"}, "batches": {"from": 1, "through": 1}, "reviews": [review]}),
    )
    deadline = time.monotonic() + 30
    for kind, spec in forbidden:
        body = {"apiVersion": "anabranch.dev/v1alpha1", "kind": kind, "metadata": {"name": "probe"}, "spec": spec}
        create = ("create", "--dry-run=server", "--as=probe", f"--namespace={name}", "--filename=-")
        while True:
            try:
                cluster.kubectl(*create, stdin=json.dumps(body))
            except DevclusterError as error:
                if "ValidatingAdmissionPolicy" in str(error):
                    break
            assert time.monotonic() < deadline, f"no policy stopped {body}"
            time.sleep(0.1)
    cluster.kubectl("delete", "namespace", name, "--wait=false")
