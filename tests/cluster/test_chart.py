"""The chart on a real API server: everything is accepted as it is, and what was drawn stays drawn."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest
import yaml
from tests.chart.rendering import CHART, EXISTING, NAMESPACE, TRIAL, helm_at

from anabranch.devcluster import choose
from anabranch.devcluster.errors import DevclusterError

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
INSTANCE = "--selector=app.kubernetes.io/instance=anabranch"
KINDS = (
    "deployments,statefulsets,jobs,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,"
    "poddisruptionbudgets,clusterroles,clusterrolebindings,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,customresourcedefinitions"
)


@pytest.fixture(scope="module")
def helm():
    return helm_at("helm")


@pytest.fixture(scope="module")
def bare(run_folder):
    """A cluster of its own: an installation takes names that a cluster has once."""
    if choose.cluster_kind() != "local":
        pytest.skip("the chart is installed on a cluster that nobody else uses")
    folder = run_folder / "chart"
    cluster = choose.cluster(folder)
    metadata = {"name": NAMESPACE, "labels": RESTRICTED}
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    yield cluster
    choose.remove_cluster(folder, cluster)


@pytest.fixture
def install(helm, bare):
    """Installs or upgrades a release, whose pods no node runs, with some values."""

    def install(values, *, name="anabranch"):
        arguments = ("upgrade", "--install", name, str(CHART), f"--namespace={NAMESPACE}", "--values=-")
        return helm.run(*arguments, f"--kubeconfig={bare.kubeconfig}", stdin=json.dumps(values))

    return install


@pytest.mark.parametrize("values", [EXISTING, TRIAL], ids=["existing", "trial"])
def test_the_api_server_accepts_every_object_and_warns_of_none(helm, bare, values):
    objects = [each for each in helm.render(values).objects if each["kind"] != "Pod"]
    apply = ("apply", "--dry-run=server", "--server-side", "--force-conflicts", "--filename=-")
    done = subprocess.run(
        [bare.kubectl_path, f"--kubeconfig={bare.kubeconfig}", *apply],
        check=False,
        capture_output=True,
        text=True,
        input=yaml.safe_dump_all(objects),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(objects)


def test_the_restricted_standard_admits_every_pod(helm, bare):
    for owner, metadata, spec in helm.render(TRIAL).pods():
        pod = {name: value for name, value in spec.items() if name != "serviceAccountName"}  # made by the release
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": owner, "labels": metadata["labels"]}}
        restart = {"restartPolicy": spec.get("restartPolicy", "Always")}
        if owner == "anabranch-database":
            claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}  # as the StatefulSet adds it
            pod["volumes"] = [*pod["volumes"], claim]
        create = ("create", "--dry-run=server", f"--namespace={NAMESPACE}", "--filename=-")
        bare.kubectl(*create, stdin=json.dumps({**body, "spec": {**pod, **restart}}))
    pod["containers"][0]["securityContext"].pop("capabilities")
    with pytest.raises(DevclusterError, match="violates PodSecurity"):
        bare.kubectl(*create, stdin=json.dumps({**body, "spec": {**pod, **restart}}))


def secrets(cluster):
    found = cluster.get("secrets", f"--namespace={NAMESPACE}", INSTANCE)["items"]
    return {
        f"{item['metadata']['name']}/{key}": base64.b64decode(value)
        for item in found
        for key, value in item["data"].items()
    }


def test_a_release_lives_through_upgrades_with_its_secrets_and_leaves_only_data_behind(helm, bare, install):
    assert "wait deployment/anabranch-operator" in install(TRIAL)
    first = secrets(bare)

    # The same again, and with more names: only the certificate is signed anew, by the same authority.
    install({**TRIAL, "operator": {"workers": 2}})
    assert secrets(bare) == first
    install({**TRIAL, "api": {"tls": {"extraNames": ["memory.example"]}}})
    renamed = secrets(bare)
    changed = {name for name in first if renamed[name] != first[name]}
    assert changed == {"anabranch-api-tls/tls.crt", "anabranch-api-tls/tls.key"}

    # Whoever deletes it gets another one, which clients trust already.
    bare.kubectl("delete", "secret", "anabranch-api-tls", f"--namespace={NAMESPACE}")
    install({**TRIAL, "api": {"tls": {"extraNames": ["memory.example"]}}})
    renewed = secrets(bare)
    assert renewed["anabranch-api-tls/tls.crt"] != renamed["anabranch-api-tls/tls.crt"]
    assert renewed["anabranch-api-tls/ca.crt"] == first["anabranch-api-tls/ca.crt"]

    # Every upgrade has one Job of its own, since a Job cannot be changed.
    (job,) = bare.get("jobs", f"--namespace={NAMESPACE}", INSTANCE)["items"]
    assert job["metadata"]["name"].startswith("anabranch-migrate-")

    # A cluster has one.
    with pytest.raises(Exception, match="invalid ownership metadata"):
        install(TRIAL, name="second")

    uninstall = ("uninstall", "anabranch", f"--namespace={NAMESPACE}", "--no-hooks", f"--kubeconfig={bare.kubeconfig}")
    helm.run(*uninstall)
    left = bare.get(KINDS, f"--namespace={NAMESPACE}", INSTANCE)["items"]
    assert {(item["kind"], item["metadata"]["name"]) for item in left} == {
        *(("Secret", f"anabranch-database-{role}") for role in ("admin", "operator", "api", "migrate")),
        *(
            ("CustomResourceDefinition", f"{plural}.anabranch.dev")
            for plural in ("baselines", "branches", "consolidationjobs")
        ),
    }

    # What stayed is taken up again, so the passwords still fit the data.
    install(TRIAL)
    again = secrets(bare)
    assert {name for name in first if name.startswith("anabranch-database") and again[name] != first[name]} == set()
    helm.run(*uninstall)
