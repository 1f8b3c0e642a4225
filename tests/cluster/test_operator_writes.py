"""What the operator writes to the API server, counted in the audit log: a status for each change, and nothing else."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter

import pytest

from anabranch.manifests import OPERATOR_ACCOUNT

pytestmark = pytest.mark.long

KINDS = {"baselines", "branches", "consolidationjobs"}
WRITES = {"create", "update", "patch", "delete"}
RUNS = tuple(f"run-{number}" for number in range(5))


class AuditLog:
    """The operator's writes to objects of one namespace, from now on."""

    def __init__(self, stack, namespace):
        if stack.cluster.audit_log is None:
            pytest.skip("only a local control plane has an audit log")
        self._path = stack.cluster.audit_log
        self._user = f"system:serviceaccount:{stack.namespace}:{OPERATOR_ACCOUNT}"
        self._namespace = namespace
        self._begin = self._path.stat().st_size

    def writes(self):
        """Counted by resource, object, verb and subresource."""
        with self._path.open("rb") as log:
            log.seek(self._begin)
            entries = [json.loads(line) for line in log if line.endswith(b"\n")]
        return Counter(
            (ref["resource"], ref["name"], entry["verb"], ref.get("subresource", ""))
            for entry in entries
            if entry["user"]["username"] == self._user
            and entry["verb"] in WRITES
            and entry.get("stage") == "ResponseComplete"
            and (ref := entry.get("objectRef", {})).get("resource") in KINDS
            and ref.get("namespace") == self._namespace
        )


@pytest.fixture
def namespace(stack):
    name = f"writes-{secrets.token_hex(4)}"
    stack.make_namespace(name)
    kubectl = stack.cluster.kubectl
    kubectl("create", "serviceaccount", "scout", f"--namespace={name}")
    kubectl(
        "create", "rolebinding", "scout", "--clusterrole=anabranch-agent", f"--serviceaccount={name}:scout",
        f"--namespace={name}",
    )  # fmt: skip
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def resource(namespace, kind, name, spec):
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "anabranch.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def make_baseline(stack, namespace):
    metadata = {"name": "guide", "namespace": namespace}
    data = {"guide.md": "# Build\n\nRun make test.\n"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    spec = {"import": {"configMap": {"name": "guide"}}}
    stack.cluster.apply([config_map, resource(namespace, "Baseline", "kb", spec)])
    stack.cluster.kubectl("wait", "--for=condition=Ready", "baseline/kb", f"--namespace={namespace}", "--timeout=120s")


def make_branches(stack, namespace):
    spec = {"baselineRef": {"name": "kb"}, "agent": {"serviceAccountName": "scout"}, "task": "First."}
    stack.cluster.apply([resource(namespace, "Branch", name, spec) for name in RUNS])
    await_observed(stack, namespace, "branches", "Ready")


def await_observed(stack, namespace, plural, condition):
    """Wait until every object's status answers to its spec, then a moment more for what should not come."""
    kubectl = stack.cluster.kubectl
    kubectl("wait", f"--for=condition={condition}", plural, "--all", f"--namespace={namespace}", "--timeout=120s")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        items = stack.cluster.get(plural, f"--namespace={namespace}")["items"]
        if all(item["status"]["observedGeneration"] == item["metadata"]["generation"] for item in items):
            time.sleep(1.5)
            return
        time.sleep(0.1)
    raise AssertionError(f"not observed: {items}")


def one_status(plural, *names):
    return Counter({(plural, name, "patch", "status"): 1 for name in names})


def test_each_creation_and_each_change_of_a_spec_costs_one_write_of_status(stack, namespace):
    log = AuditLog(stack, namespace)
    make_baseline(stack, namespace)
    make_branches(stack, namespace)
    assert log.writes() == one_status("baselines", "kb") + one_status("branches", *RUNS)

    log = AuditLog(stack, namespace)
    patch = json.dumps({"spec": {"task": "Second."}})
    stack.cluster.kubectl("patch", "branch", *RUNS, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
    await_observed(stack, namespace, "branches", "Ready")
    assert log.writes() == one_status("branches", *RUNS)

    log = AuditLog(stack, namespace)
    patch = json.dumps({"spec": {"pin": {"generation": 1}}})
    stack.cluster.kubectl("patch", "baseline/kb", f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
    await_observed(stack, namespace, "baselines", "Ready")
    assert log.writes() == one_status("baselines", "kb")


def test_a_changed_label_costs_no_write_and_neither_does_a_restart(stack, namespace):
    make_baseline(stack, namespace)
    make_branches(stack, namespace)

    log = AuditLog(stack, namespace)
    for plural in ("baselines", "branches"):
        stack.cluster.kubectl("label", plural, "--all", "team=build", f"--namespace={namespace}")
    await_observed(stack, namespace, "branches", "Ready")
    assert log.writes() == Counter()

    log = AuditLog(stack, namespace)
    stack.stop("operator")
    stack.start_operator()
    time.sleep(3)
    assert log.writes() == Counter()


def test_a_second_operator_adds_no_write(stack, namespace):
    stack.start_operator("operator-2")
    try:
        log = AuditLog(stack, namespace)
        make_baseline(stack, namespace)
        make_branches(stack, namespace)
        assert log.writes() == one_status("baselines", "kb") + one_status("branches", *RUNS)
    finally:
        stack.stop("operator-2")


def test_when_the_leader_dies_another_operator_writes_in_its_place(stack, namespace):
    stack.start_operator("operator-2")
    try:
        stack.kill("operator")
        log = AuditLog(stack, namespace)
        make_baseline(stack, namespace)
        make_branches(stack, namespace)
        assert log.writes() == one_status("baselines", "kb") + one_status("branches", *RUNS)
    finally:
        stack.start_operator()
        stack.stop("operator-2")


def test_what_happened_is_told_once_as_an_event(stack, namespace):
    make_baseline(stack, namespace)
    make_branches(stack, namespace)
    stack.stop("operator")
    stack.start_operator()
    wanted = Counter({("Imported", "kb"): 1, **{("Forked", name): 1 for name in RUNS}})
    deadline = time.monotonic() + 60
    while True:  # each is told behind the status that a test waits for
        events = stack.cluster.get("events.events.k8s.io", f"--namespace={namespace}")["items"]
        told = Counter((event["reason"], event["regarding"]["name"]) for event in events)
        if told >= wanted or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert told == wanted


def test_statuses_that_a_backup_has_set_back_are_written_anew_and_no_others(stack, namespace):
    make_baseline(stack, namespace)
    make_branches(stack, namespace)
    stack.stop("operator")
    older = {"baseline/kb": {"current": None}, "branch/run-0": {"observedGeneration": -1, "branchId": None}}
    try:
        for name, status in older.items():
            patch = json.dumps({"status": status})
            stack.cluster.kubectl(
                "patch", name, "--subresource=status", "--type=merge", f"--patch={patch}", f"--namespace={namespace}"
            )
        log = AuditLog(stack, namespace)
    finally:
        stack.start_operator()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and sum(log.writes().values()) < len(older):
        time.sleep(0.2)
    await_observed(stack, namespace, "branches", "Ready")
    assert log.writes() == one_status("baselines", "kb") + one_status("branches", "run-0")
    assert stack.cluster.get("baseline", "kb", f"--namespace={namespace}")["status"]["current"]["generation"] == 1
