"""The local control plane and the identities on it, for real."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from anabranch.devcluster import accounts, children, controlplane, ephemeral
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.processes import Processes

pytestmark = pytest.mark.long


@pytest.fixture
def folder(cluster):
    if cluster.kind != "local":
        pytest.skip("the control plane is not built where there is another cluster")
    with ephemeral.folder() as path:
        yield path / "cluster"


@pytest.fixture
def namespace(cluster):
    name = f"devcluster-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def account(cluster, namespace, tmp_path):
    cluster.kubectl("create", "serviceaccount", "worker", f"--namespace={namespace}")
    return accounts.set_up(cluster, namespace=namespace, name="worker", folder=tmp_path)


def review(cluster, token, audience=None):
    """What the API server says of a token."""
    spec = {"token": token} | ({"audiences": [audience]} if audience else {})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    return json.loads(cluster.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(body)))["status"]


def acting_as(cluster, account):
    return Cluster(kind=cluster.kind, kubeconfig=account.kubeconfig, kubectl_path=cluster.kubectl_path)


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


# The control plane


def test_a_control_plane_comes_up_again_with_its_data_and_leaves_nothing_when_it_goes_down(folder):
    cluster = controlplane.up(folder, durable=True)
    assert "--unsafe-no-fsync" not in Processes(folder).running("etcd").cmdline()
    cluster.kubectl("create", "namespace", "kept")
    first = {component.name: component.pid for component in controlplane.status(folder)}
    assert all(first.values())

    assert controlplane.up(folder) == cluster
    assert {component.name: component.pid for component in controlplane.status(folder)} == first

    controlplane.down(folder, keep_data=True)
    assert not any(component.pid for component in controlplane.status(folder))
    assert "kept" in controlplane.up(folder).kubectl("get", "namespaces", "--output=name")

    processes = [Processes(folder).running(name) for name in controlplane.COMPONENTS]
    controlplane.down(folder)
    assert not any(process.is_running() for process in processes)
    assert not folder.exists()


def test_a_component_that_was_killed_is_started_again_and_no_other(folder):
    controlplane.up(folder)
    before = {component.name: component.pid for component in controlplane.status(folder)}
    os.kill(before["kube-controller-manager"], signal.SIGKILL)
    wait_until(lambda: not Processes(folder).running("kube-controller-manager"))
    controlplane.up(folder)
    after = {component.name: component.pid for component in controlplane.status(folder)}
    assert all(after.values())
    assert {name for name in before if before[name] != after[name]} == {"kube-controller-manager"}


def test_two_control_planes_run_side_by_side(cluster, namespace, folder):
    other = controlplane.up(folder)
    assert namespace in cluster.kubectl("get", "namespaces", "--output=name")
    assert namespace not in other.kubectl("get", "namespaces", "--output=name")


def test_a_control_plane_that_cannot_start_says_why_and_its_command_fails_without_a_traceback(folder):
    folder.mkdir()
    (folder / "data").write_text("a file where etcd wants a folder")
    command = [sys.executable, "-m", "anabranch.devcluster", "up", "--dir", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=children.environment())
    assert done.returncode == 1
    assert "devcluster: Waiting for etcd: etcd has ended." in done.stderr
    assert "not a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_write_is_in_the_audit_log_before_it_is_answered(cluster, namespace):
    if cluster.audit_log is None:
        pytest.skip(f"a {cluster.kind} cluster shows no audit log")
    cluster.kubectl("create", "configmap", "counted", f"--namespace={namespace}")
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    writes = [
        line
        for line in lines
        if line["verb"] == "create"
        and line.get("objectRef", {}).get("namespace") == namespace
        and line["objectRef"].get("name") == "counted"
    ]
    assert [(line["stage"], line["responseStatus"]["code"]) for line in writes] == [("ResponseComplete", 201)]


def test_what_the_cluster_refuses_is_told_in_its_own_words(cluster):
    with pytest.raises(DevclusterError, match=r'kubectl get namespace absent.*namespaces "absent" not found'):
        cluster.kubectl("get", "namespace", "absent")


def test_manifests_are_applied_as_one_and_again_without_a_change(cluster, namespace):
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"a": "b"},
        }
        for name in ("one", "two")
    ]
    cluster.apply(manifests)
    first = cluster.get("configmap", "one", "two", f"--namespace={namespace}")
    cluster.apply(manifests)
    assert cluster.get("configmap", "one", "two", f"--namespace={namespace}") == first


# Identities


def test_a_token_for_an_audience_is_accepted_for_it_and_for_no_other(cluster, namespace, account):
    token = accounts.mint(cluster, namespace=namespace, name="worker", audience="anabranch.test")
    accepted = review(cluster, token.value, "anabranch.test")
    assert accepted["authenticated"]
    assert accepted["audiences"] == ["anabranch.test"]
    assert accepted["user"]["username"] == f"system:serviceaccount:{namespace}:worker"
    assert not review(cluster, token.value, "another").get("authenticated")
    assert not review(cluster, token.value).get("authenticated")
    assert timedelta(minutes=50) < token.expires_at - datetime.now(UTC) < timedelta(minutes=70)


def test_no_token_is_minted_for_an_account_that_is_not_there(cluster, namespace):
    with pytest.raises(DevclusterError, match='serviceaccounts "absent" not found'):
        accounts.mint(cluster, namespace=namespace, name="absent")


def test_an_account_acts_under_its_own_name_and_only_its_own_rights(cluster, namespace, account):
    worker = acting_as(cluster, account)
    whoami = json.loads(worker.kubectl("auth", "whoami", "--output=json"))
    assert whoami["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:worker"
    with pytest.raises(DevclusterError, match="forbidden"):
        worker.kubectl("get", "secrets", f"--namespace={namespace}")


def test_nobody_else_may_read_a_token(account):
    assert account.token_file.stat().st_mode & 0o077 == 0
    assert account.kubeconfig.stat().st_mode & 0o077 == 0
    assert account.token_file.read_text() not in account.kubeconfig.read_text()


def test_a_token_is_renewed_long_before_it_runs_out_and_works_at_any_moment(cluster, account):
    stop, seen = threading.Event(), {account.token_file.read_text()}
    keeper = threading.Thread(
        target=accounts.keep_fresh,
        args=(cluster, [account]),
        kwargs={"stop": stop, "every": timedelta(milliseconds=500)},
    )
    keeper.start()
    try:

        def renewed_thrice():
            token = account.token_file.read_text()
            assert token.count(".") == 2, "a part of a token was seen"
            seen.add(token)
            return len(seen) > 3

        wait_until(renewed_thrice)
        assert acting_as(cluster, account).kubectl("auth", "whoami")
    finally:
        stop.set()
        keeper.join(20)
    assert not keeper.is_alive()
    expiries = [json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["exp"] for token in seen]
    assert max(expiries) > min(expiries)


def test_a_renewal_that_fails_is_tried_again(cluster, account, monkeypatch, capfd):
    monkeypatch.setattr(accounts, "RETRY", timedelta(milliseconds=50))
    broken = Cluster(kind="local", kubeconfig=account.folder / "absent", kubectl_path=cluster.kubectl_path)
    stop, before = threading.Event(), account.token_file.read_text()
    keeper = threading.Thread(target=accounts.keep_fresh, args=(broken, [account]), kwargs={"stop": stop})
    keeper.start()
    try:
        wait_until(lambda: "failed" in capfd.readouterr().err)
        broken.kubeconfig.write_bytes(cluster.kubeconfig.read_bytes())  # the API server is back
        wait_until(lambda: account.token_file.read_text() != before)
    finally:
        stop.set()
        keeper.join(20)
