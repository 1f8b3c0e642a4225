"""Before an installation goes: the operator ends, and nothing of it holds a Baseline or a namespace afterwards."""

from __future__ import annotations

import json

import pytest

from anabranch.baselines import retiring
from anabranch.baselines.finalizer import FINALIZER
from anabranch.kube.client import KubeClient
from anabranch.manifests import DEFAULT_NAMESPACE, LEASE, OPERATOR_ACCOUNT
from anabranch.model.errors import UnavailableError

LABELS = {"app.kubernetes.io/name": "anabranch", "app.kubernetes.io/component": "operator"}
HELD = {"metadata": {"finalizers": [FINALIZER, "example.org/theirs"]}}


@pytest.fixture
def deployed(installed):
    """The operator's Deployment with two pods, which no node runs."""
    pod = {"containers": [{"name": "operator", "image": "anabranch"}]}
    metadata = {"name": OPERATOR_ACCOUNT, "namespace": DEFAULT_NAMESPACE}
    template = {"metadata": {"labels": LABELS}, "spec": secured(pod)}
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
    installed.apply([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}])
    yield installed
    installed.kubectl("delete", "deployment", OPERATOR_ACCOUNT, f"--namespace={DEFAULT_NAMESPACE}")


def secured(pod):
    container = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod["containers"][0]["securityContext"] = container
    return {**pod, "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}


@pytest.fixture
def baseline(installed, namespace):
    """Makes a Baseline whose data goes with it, as an operator would hold it."""

    def make(name):
        metadata = {"name": name, "namespace": namespace, **HELD["metadata"]}
        body = {"apiVersion": "anabranch.dev/v1alpha1", "kind": "Baseline", "metadata": metadata}
        installed.apply([{**body, "spec": {"deletionPolicy": "Delete"}}])

    yield make
    names = installed.kubectl("get", "baselines", "--output=name", f"--namespace={namespace}").split()
    for name in names:
        free = json.dumps({"metadata": {"finalizers": None}})
        installed.kubectl("patch", name, "--type=merge", f"--patch={free}", f"--namespace={namespace}")


def finalizers(cluster, namespace, name):
    return cluster.get("baseline", name, f"--namespace={namespace}")["metadata"].get("finalizers", [])


def replicas(cluster):
    return cluster.get("deployment", OPERATOR_ACCOUNT, f"--namespace={DEFAULT_NAMESPACE}")["spec"]["replicas"]


async def retire(cluster):
    said = []
    kube = await KubeClient.open(str(cluster.kubeconfig))
    try:
        where = {"namespace": DEFAULT_NAMESPACE, "deployment": OPERATOR_ACCOUNT}
        await retiring.retire(kube, **where, seconds=60, say=said.append)
    finally:
        await kube.close()
    return said


async def test_the_operator_ends_and_only_its_own_finalizer_goes(deployed, namespace, baseline):
    baseline("facts")
    said = await retire(deployed)
    assert replicas(deployed) == 0
    assert finalizers(deployed, namespace, "facts") == ["example.org/theirs"]
    assert said == ["The operator is stopped.", f"Baseline {namespace}/facts goes by itself now; its data stays."]
    assert await retire(deployed) == ["The operator is stopped."]


async def test_its_lease_goes_with_it(deployed):
    metadata = {"name": LEASE, "namespace": DEFAULT_NAMESPACE}
    deployed.apply([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}])
    await retire(deployed)
    assert deployed.kubectl("get", "leases", f"--namespace={DEFAULT_NAMESPACE}", "--output=name") == ""


async def test_while_data_is_being_deleted_nothing_is_changed(deployed, namespace, baseline):
    baseline("facts")
    baseline("going")
    deployed.kubectl("delete", "baseline", "going", "--wait=false", f"--namespace={namespace}")
    with pytest.raises(retiring.DeletionUnderWayError, match=f"{namespace}/going is being deleted"):
        await retire(deployed)
    assert replicas(deployed) == 2
    assert FINALIZER in finalizers(deployed, namespace, "facts")


async def test_a_deletion_that_begins_meanwhile_brings_the_operator_back(deployed, namespace, baseline, monkeypatch):
    baseline("facts")
    ended = retiring._ended

    async def deleted_meanwhile(*arguments, **settings):
        await ended(*arguments, **settings)
        deployed.kubectl("delete", "baseline", "facts", "--wait=false", f"--namespace={namespace}")

    monkeypatch.setattr(retiring, "_ended", deleted_meanwhile)
    with pytest.raises(retiring.DeletionUnderWayError):
        await retire(deployed)
    assert replicas(deployed) == 2
    assert FINALIZER in finalizers(deployed, namespace, "facts")


async def test_an_operator_that_does_not_end_goes_on(deployed, namespace, baseline, monkeypatch):
    baseline("facts")

    async def hangs(*_arguments, **_settings):
        raise UnavailableError("Still there: operator-1.")

    monkeypatch.setattr(retiring, "_ended", hangs)
    with pytest.raises(UnavailableError):
        await retire(deployed)
    assert replicas(deployed) == 2
    assert FINALIZER in finalizers(deployed, namespace, "facts")


async def test_an_operator_that_is_gone_already_is_not_missed(installed, namespace, baseline):
    baseline("facts")
    assert len(await retire(installed)) == 2
    assert finalizers(installed, namespace, "facts") == ["example.org/theirs"]
