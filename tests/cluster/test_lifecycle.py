"""Baselines, Branches and namespaces come and go while the operator runs, and while it does not."""

from __future__ import annotations

import secrets

import asyncpg
import pytest
from tests.cluster.places import Place, eventually

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


async def until(look, *, within=60.0):
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
    town.kubectl("delete", "baseline", "facts", "--wait=false")
    assert get(town, "baseline", "facts")["metadata"]["deletionTimestamp"]
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
