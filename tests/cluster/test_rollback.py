"""Rollback by Git and by hand: every field keeps its owner, a repeated apply is nothing, the feed has it in order."""

from __future__ import annotations

import json
import os
import secrets
import subprocess

import asyncpg
import pytest
from tests.cluster.places import Place, eventually, finding
from tests.cluster.test_operator_writes import AuditLog

from anabranch.devcluster import children

GIT, CLI = "argocd-controller", "anabranch-rollback"
RUNS = ("run-1", "run-2")


@pytest.fixture
async def town(stack):
    """A namespace for one test with a Baseline of Git's, of which an agent has published two generations more."""
    town = Place(stack, namespace=f"back-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    town.account("scout", "anabranch-agent")
    data = {"facts.jsonl": json.dumps({"key": "build/cache", "content": "Warm it."}) + "\n"}
    metadata = {"name": "facts", "namespace": town.namespace}
    stack.cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    commit(town, baseline())
    town.kubectl("wait", "--for=condition=Ready", "baseline/facts", "--timeout=60s")
    client = town.client_of_scout = await town.client("scout")
    for base, name in enumerate(RUNS, start=1):
        commit(town, branch(name))
        town.kubectl("wait", "--for=condition=Ready", f"branch/{name}", "--timeout=60s")
        run = await client.branch(town.namespace, name)
        await town.submit(client, run, finding("build/cache", f"Says {name}."), base=str(base))
        await town.publication(client, run)
    await until(lambda: current(town) == 3)
    await until(lambda: {get(town, "branch", name)["status"]["lastSubmittedSequence"] for name in RUNS} == {1})
    yield town
    await town.close()


def baseline(**spec):
    spec = {"import": {"configMap": {"name": "facts"}}, "review": {"mode": "Automatic"}, **spec}
    return {"kind": "Baseline", "metadata": {"name": "facts"}, "spec": spec}


def branch(name):
    spec = {"baselineRef": {"name": "facts"}, "agent": {"serviceAccountName": "scout"}, "task": "Look into the cache."}
    return {"kind": "Branch", "metadata": {"name": name}, "spec": spec}


def commit(town, body, manager=GIT):
    """Apply as a GitOps controller does."""
    document = json.dumps({"apiVersion": "anabranch.dev/v1alpha1", **body})
    flags = ("--server-side", f"--field-manager={manager}", "--force-conflicts", "--filename=-")
    town.kubectl("apply", *flags, stdin=document)


def get(town, kind, name):
    arguments = ("get", kind, name, "--output=json", "--show-managed-fields")
    return json.loads(town.kubectl(*arguments))


def current(town):
    return get(town, "baseline", "facts")["status"]["current"]["generation"]


async def until(look, *, within=None):
    async def again():
        return look()

    return await eventually(again, within=within)


def events(town):
    """Reasons of all Kubernetes Events about the Baseline, by name of the Event."""
    items = town.stack.cluster.get("events.events.k8s.io", f"--namespace={town.namespace}")["items"]
    return {item["metadata"]["name"]: item["reason"] for item in items if item["regarding"]["kind"] == "Baseline"}


def anabranch(town, *arguments):
    """Run our command as the admin; its exit code, and what it printed."""
    path = os.pathsep.join([str(town.stack.cluster.kubectl_path.parent), os.environ["PATH"]])
    env = children.environment(PATH=path)
    where = (f"--kubeconfig={town.stack.cluster.kubeconfig}", f"--namespace={town.namespace}")
    command = children.command("anabranch.cli.main", *arguments, *where)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=120)
    return done.returncode, done.stdout + done.stderr


async def agent_is_told(town, *kinds):
    """Wait until the agent's queue has these events, and see that it has no others."""
    conn = await asyncpg.connect(town.stack.admin_dsn)

    async def told():
        rows = await conn.fetch("SELECT kind FROM agent_events WHERE namespace = $1 ORDER BY ordinal", town.namespace)
        return len(rows) >= len(kinds) and [row["kind"] for row in rows]

    try:
        assert await eventually(told) == list(kinds)
    finally:
        await conn.close()


async def feed(town):
    page = await town.client_of_scout.events(town.namespace, "facts")
    return [event.kind for event in page.events]


async def test_applying_the_same_again_is_no_write_and_no_event(stack, town):
    objects = [("baseline", "facts", baseline()), *(("branch", name, branch(name)) for name in RUNS)]
    for _, _, body in objects:
        commit(town, body)  # the first one after creation may be written, whatever it says
    before = [get(town, kind, name) for kind, name, _ in objects]
    told, log = events(town), AuditLog(stack, town.namespace)

    for _, _, body in objects * 3:
        commit(town, body)

    assert [get(town, kind, name) for kind, name, _ in objects] == before
    assert log.writes() == {}
    assert events(town) == told
    # And nobody but Git owns anything of a spec: the operator writes statuses, and fights for nothing.
    for item in before:
        fields = {entry["manager"]: set(entry["fieldsV1"]) for entry in item["metadata"]["managedFields"]}
        assert "f:spec" in fields.pop(GIT)
        assert set().union(*fields.values()) <= {"f:status"}


async def test_a_commit_rolls_back_and_its_revert_returns_each_with_one_event(stack, town):
    told = events(town)
    commit(town, baseline(pin={"generation": 1}))
    await until(lambda: current(town) == 1)
    town.kubectl("wait", "--for=condition=ConsolidationPaused", "baseline/facts", "--timeout=60s")
    assert get(town, "baseline", "facts")["status"]["previous"]["generation"] == 3

    log = AuditLog(stack, town.namespace)
    commit(town, baseline(pin={"generation": 1}))
    assert log.writes() == {}

    commit(town, baseline())
    await until(lambda: current(town) == 3)
    commit(town, baseline(restore={"generation": 1, "id": "2030-01-01"}))
    await until(lambda: current(town) == 4)
    commit(town, baseline(restore={"generation": 1, "id": "2030-01-01"}, suspend=True))
    await until(lambda: get(town, "baseline", "facts")["status"]["observedGeneration"] == 5)
    assert current(town) == 4

    assert await feed(town) == ["published", "published", "rollback", "resumed", "restored"]
    await agent_is_told(town, "finding.published", "finding.published", "baseline.rollback", "baseline.rollback")

    def new():
        return sorted(reason for name, reason in events(town).items() if name not in told)

    await until(lambda: new() == ["Paused", "Restored", "Resumed", "RolledBack"])


async def test_a_target_that_is_not_there_stalls_and_moves_nothing(town):
    commit(town, baseline(pin={"generation": 99}))
    town.kubectl("wait", "--for=condition=Stalled", "baseline/facts", "--timeout=60s")
    item = get(town, "baseline", "facts")
    reasons = {entry["type"]: entry["reason"] for entry in item["status"]["conditions"]}
    assert reasons == {"Ready": "PinTargetUnknown", "Stalled": "PinTargetUnknown"}
    assert item["status"]["current"]["generation"] == 3

    commit(town, baseline(pin={"baselineId": item["status"]["history"][1]["baselineId"]}))
    town.kubectl("wait", "--for=condition=Ready", "baseline/facts", "--timeout=60s")
    assert current(town) == 2


async def test_a_pin_that_the_command_and_git_share_is_reported_and_goes_when_both_have_let_go(town):
    # By hand first: where Git owns the spec, the command prints the commit and touches nothing.
    code, said = anabranch(town, "baseline", "rollback", "facts", "--to=2", "--apply")
    assert code != 0
    assert GIT in said
    pin = {"kind": "Baseline", "metadata": {"name": "facts"}, "spec": {"pin": {"generation": 2}}}
    commit(town, pin, manager=CLI)
    await until(lambda: current(town) == 2)
    assert "its pin is owned by" not in anabranch(town, "doctor")[1]

    commit(town, baseline(pin={"generation": 2}))  # Git adopts it …
    code, said = anabranch(town, "doctor")
    assert code == 1
    assert f"{town.namespace}/facts: its pin is owned by" in said
    assert f"anabranch baseline rollback facts -n {town.namespace} --release" in said

    commit(town, baseline())  # … and takes it out: the command owns it still.
    assert get(town, "baseline", "facts")["spec"]["pin"] == {"generation": 2}
    code, said = anabranch(town, "baseline", "rollback", "facts", "--release")
    assert code == 0, said
    await until(lambda: current(town) == 3)
    assert await feed(town) == ["published", "published", "rollback", "resumed"]
