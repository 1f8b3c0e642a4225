"""Baselines, Branches and namespaces come and go while the operator runs, and while it does not."""

from __future__ import annotations

import json
import secrets

import asyncpg
import pytest
from tests.cluster.conftest import grant
from tests.cluster.places import Place, eventually, finding

from anabranch.controllers import sweep
from anabranch.controllers.reconciler import Reconciler
from anabranch.controllers.services import controllers
from anabranch.kube.client import KubeClient
from anabranch.manifests import LEASE, OPERATOR_ACCOUNT
from anabranch.store.database import Database

pytestmark = pytest.mark.long

FINALIZER = "anabranch.dev/data"


@pytest.fixture
async def town(stack):
    """A namespace for one test, with an agent that may fork in it."""
    town = Place(stack, namespace=f"life-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    town.account("scout", "anabranch-agent")
    yield town
    await town.close()


def get(place, kind, name):
    return place.stack.cluster.get(kind, name, f"--namespace={place.namespace}")


def condition(item, kind):
    found = [entry for entry in item.get("status", {}).get("conditions", ()) if entry["type"] == kind]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def fork(place, name, baseline="facts", *, namespace=None):
    ref = {"name": baseline} | ({"namespace": namespace} if namespace else {})
    place.apply("Branch", name, {"baselineRef": ref, "agent": {"serviceAccountName": "scout"}})


def wait(place, what, *, until="condition=Ready"):
    place.kubectl("wait", f"--for={until}", what, "--timeout=60s")


async def until(look, *, within=None):
    """What a look gives once it gives anything; the look need not be asynchronous."""

    async def again():
        return look()

    return await eventually(again, within=within)


async def query(stack, sql, *arguments):
    conn = await asyncpg.connect(stack.admin_dsn)
    try:
        return await conn.fetchval(sql, *arguments)
    finally:
        await conn.close()


async def versions(stack, line):
    return await query(stack, "SELECT count(*) FROM record_versions WHERE line = $1", line)


# ------------------------------------------------------------------------------------------------------------ deletion


async def test_a_baseline_goes_with_its_data_when_its_policy_says_so_and_the_operator_is_there(stack, town):
    town.baseline(deletionPolicy="Delete")
    fork(town, "run")
    wait(town, "branch/run")
    item = get(town, "baseline", "facts")
    line = item["status"]["lineId"]
    assert item["metadata"]["finalizers"] == [FINALIZER]
    assert await versions(stack, line) == 3

    stack.stop("operator")
    try:
        town.kubectl("delete", "baseline", "facts", "--wait=false")
        assert get(town, "baseline", "facts")["metadata"]["deletionTimestamp"]
    finally:
        stack.start_operator()

    wait(town, "baseline/facts", until="delete")
    assert await query(stack, "SELECT count(*) FROM lines WHERE line = $1", line) == 0
    assert await versions(stack, line) == 0
    branch = await until(lambda: (item := get(town, "branch", "run"))["status"]["phase"] == "Expired" and item)
    status, reason, message = condition(branch, "Stalled")
    assert (status, reason) == ("True", "BaselineDeleted")
    assert f"{town.namespace}/facts was deleted together with its data" in message


async def test_a_policy_that_changes_takes_the_finalizer_along(town):
    town.baseline()
    assert "finalizers" not in get(town, "baseline", "facts")["metadata"]
    town.kubectl("patch", "baseline/facts", "--type=merge", '--patch={"spec": {"deletionPolicy": "Delete"}}')
    await until(lambda: get(town, "baseline", "facts")["metadata"].get("finalizers") == [FINALIZER])
    # Somebody replaces the object by one without: it comes back.
    town.kubectl("patch", "baseline/facts", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    await until(lambda: get(town, "baseline", "facts")["metadata"].get("finalizers") == [FINALIZER])
    town.kubectl("patch", "baseline/facts", "--type=merge", '--patch={"spec": {"deletionPolicy": "Retain"}}')
    await until(lambda: not get(town, "baseline", "facts")["metadata"].get("finalizers"))


async def test_a_namespace_goes_and_what_it_left_is_adopted_by_name_of_the_line(stack, town):
    town.baseline("kept")
    town.baseline("gone", deletionPolicy="Delete")
    kept, gone = (get(town, "baseline", name)["status"]["lineId"] for name in ("kept", "gone"))

    town.kubectl("delete", "namespace", town.namespace, "--timeout=90s", scoped=False)
    assert await versions(stack, gone) == 0
    assert await versions(stack, kept) == 3

    stack.make_namespace(town.namespace)
    town.baseline("gone", deletionPolicy="Delete")
    assert get(town, "baseline", "gone")["status"]["lineId"] != gone
    town.apply("Baseline", "kept", {})
    status, reason, message = await until(lambda: condition(get(town, "baseline", "kept"), "Stalled"))
    assert (status, reason) == ("True", "AdoptionRequired")
    assert kept in message

    town.apply("Baseline", "kept", {"adopt": {"lineId": kept}})
    wait(town, "baseline/kept")
    item = get(town, "baseline", "kept")
    assert (item["status"]["lineId"], item["status"]["current"]["generation"]) == (kept, 1)
    assert condition(item, "Stalled") is None


# ------------------------------------------------------------------------------------------ while no operator is there


async def swept(stack, *namespaces):
    """A sweep under the operator's own accounts, in some namespaces only; whether it wants to look again."""
    db = await Database.open(stack.operator_dsn, application_name="test sweep")
    kube = await KubeClient.open(str(stack._account(OPERATOR_ACCOUNT).kubeconfig))
    try:
        kinds = controllers(db, kube=kube, grants=None, guard=None, models=(), agents=db, tell=None)
        reconciler = Reconciler(kinds, db=db, kube=kube, changed=lambda: None)
        scope = sweep.Scope(namespaces, system_namespace=stack.namespace, lease=LEASE)
        looks = sweep.Sweep(db, kube, reconciler=reconciler, tell=None, scope=scope)
        return await looks.look()
    finally:
        await kube.close()
        await db.close()


async def test_deletions_that_nobody_told_are_found_and_nothing_else_is_touched(stack, town, monkeypatch):
    town.baseline()
    town.baseline("stays")
    fork(town, "run", "facts")
    fork(town, "stays", "stays")
    for branch in ("run", "stays"):
        wait(town, f"branch/{branch}")
    line = get(town, "baseline", "facts")["status"]["lineId"]
    await until(lambda: "swept" in stack.log("operator").read_text())

    stack.stop("operator")
    try:
        town.kubectl("delete", "baseline/facts", "branch/run")
        monkeypatch.setattr(sweep, "GRACE_SECONDS", 0.0)
        assert await swept(stack, town.namespace) is False
    finally:
        stack.start_operator()

    gone = "SELECT array_agg(name) FROM {} WHERE namespace = $1 AND deleted_at IS NOT NULL"
    assert await query(stack, gone.format("lines"), town.namespace) == ["facts"]
    assert await query(stack, gone.format("branches"), town.namespace) == ["run"]
    assert await versions(stack, line) == 3


async def test_statuses_that_somebody_wiped_or_forged_are_written_anew(town):
    town.baseline()
    fork(town, "run")
    fork(town, "early", "none")
    wait(town, "branch/run")
    objects = (("baseline", "facts"), ("branch", "run"), ("branch", "early"))
    await until(lambda: condition(get(town, "branch", "early"), "Reconciling"))
    before = {name: get(town, kind, name)["status"] for kind, name in objects}
    assert before["early"]["phase"] == "Pending"

    wipe = json.dumps([{"op": "replace", "path": "/status", "value": {"observedGeneration": -1}}])
    for kind, name in objects:
        town.kubectl("patch", f"{kind}/{name}", "--subresource=status", "--type=json", f"--patch={wipe}")
    for kind, name in objects:
        await until(lambda kind=kind, name=name: get(town, kind, name)["status"] == before[name])

    forged = json.dumps({"status": {"phase": "Completed"}})
    town.kubectl("patch", "branch/run", "--subresource=status", "--type=merge", f"--patch={forged}")
    await until(lambda: get(town, "branch", "run")["status"] == before["run"])


# ---------------------------------------------------------------------------------------------------------- the source


async def test_a_source_that_changes_is_reviewed_and_one_that_goes_missing_takes_nothing_away(town):
    town.baseline()

    def told(kind):
        return (condition(get(town, "baseline", "facts"), kind) or (None, None))[1]

    changed = json.dumps({"data": {"facts.jsonl": json.dumps({"key": "build/cache", "content": "Otherwise."})}})
    town.kubectl("patch", "configmap/facts", "--type=merge", f"--patch={changed}")
    await until(lambda: told("ImportChanged") == "AwaitingReview")
    (job,) = await until(lambda: town.stack.cluster.get("cjob", f"--namespace={town.namespace}")["items"])
    assert job["spec"]["origin"] == "Import"

    town.kubectl("delete", "configmap/facts")
    await until(lambda: told("ImportMissing") == "ConfigMapMissing")
    item = get(town, "baseline", "facts")
    assert condition(item, "Ready")[0] == "True"
    assert (item["status"]["current"]["generation"], item["status"]["current"]["records"]) == (1, 3)

    metadata = {"name": "facts", "namespace": town.namespace}
    town.stack.cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **json.loads(changed)}])
    await until(lambda: told("ImportMissing") is None)
    assert told("ImportChanged") == "AwaitingReview"


# ---------------------------------------------------------------------------------------------------- in whatever order


async def test_a_branch_and_a_job_may_come_before_their_baseline_and_from_another_namespace(stack, town):
    """Everything is applied backwards, as Git may do it; the Baseline is another team's."""
    platform = Place(stack, namespace=f"life-{secrets.token_hex(4)}")
    stack.make_namespace(platform.namespace)
    ref = {"namespace": town.namespace, "name": "run"}
    platform.apply("ConsolidationJob", "by-hand", {"branchRef": ref, "batches": {"from": 1, "through": 1}})
    fork(town, "run", namespace=platform.namespace)
    job = await until(lambda: condition(get(platform, "consolidationjob", "by-hand"), "Reconciling"))
    branch = await until(lambda: condition(get(town, "branch", "run"), "Reconciling"))
    assert (job[1], branch[1]) == ("BranchUnavailable", "BaselineUnavailable")

    platform.baseline(review={"mode": "Automatic"})
    assert condition(get(town, "branch", "run"), "Ready")[0] == "False"  # consent lies with the Baseline's namespace
    scout = {"kind": "ServiceAccount", "name": "scout", "namespace": town.namespace}
    stack.cluster.apply([*grant(platform.namespace, scout, "anabranch-agent")])
    wait(town, "branch/run")
    assert (await until(lambda: condition(get(platform, "consolidationjob", "by-hand"), "Reconciling")))[1] in {
        "BranchUnavailable", "BatchesMissing",
    }  # fmt: skip

    client = await town.client("scout")
    branch = await client.branch(town.namespace, "run")
    await town.submit(client, branch, finding("build/cache", "Warm it twice."), base="1")
    wait(platform, "consolidationjob/by-hand", until="condition=Complete")
    assert get(platform, "baseline", "facts")["status"]["current"]["generation"] == 2
    await platform.close()
