"""Finished Branches and jobs are deleted by the operator when their time is over, over a restart of it too."""

from __future__ import annotations

import secrets

import pytest
from tests.cluster.places import BASELINE, Place, eventually, finding

from anabranch.devcluster.errors import DevclusterError
from anabranch.kube.client import KubeClient
from anabranch.kube.errors import ObjectNotFoundError, StaleObjectError
from anabranch.kube.kinds import BRANCH
from anabranch.manifests import OPERATOR_ACCOUNT
from anabranch.model.canonical import content_hash
from anabranch.model.objects import RunCompletion
from anabranch.model.requests import DecisionRequest

KEY = "build/cache"


@pytest.fixture
async def town(stack):
    town = Place(stack, namespace=f"expiry-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    town.baseline(review={"mode": "Automatic"})
    yield town
    await town.close()


def names(town, kind):
    found = town.stack.cluster.get(kind, f"--namespace={town.namespace}")["items"]
    return {item["metadata"]["name"]: item for item in found}


async def complete(town, agent, branch, *, last):
    completion = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent.baseline_id,
        last_submitted_sequence=last,
        delta_hash=content_hash([]),
    )
    assert (await agent.complete(town.namespace, branch.branch_id, completion)).closed_at


async def absent(town, kind, name):
    async def look():
        return name not in names(town, kind)

    await eventually(look)


async def test_what_has_ended_is_deleted_after_its_time_and_nothing_else_is(town):
    agent = await town.client("agent", "anabranch-agent")
    reviewer = await town.client("reviewer", "anabranch-reviewer")
    default = await town.branch(agent, name="default")
    brief = await town.branch(agent, name="brief", ttl_after_finished="1s")
    live = await town.branch(agent, name="live", ttl_after_finished="1s")
    kept = await town.branch(agent, name="kept", ttl_after_finished=None)
    await town.submit(agent, brief, finding("build/new", "It is faster so."), finding(KEY, "Never."), base="0")
    for branch in (default, kept):
        await complete(town, agent, branch, last=0)
    await complete(town, agent, brief, last=1)

    async def waiting():
        return [job async for job in reviewer.jobs(town.namespace, state="awaiting_review")]

    (held,) = await eventually(waiting)
    town.stack.stop("operator")  # who comes next finds what is due
    try:
        (made,) = {name for name in names(town, "cjob") if name != held.name}
        patch = '{"spec": {"ttlSecondsAfterFinished": 0}}'
        town.kubectl("patch", f"cjob/{made}", "--type=merge", f"--patch={patch}")
    finally:
        town.stack.start_operator()
    await absent(town, "cjob", made)
    branches = names(town, "branches")
    assert branches.keys() == {"brief", "default", "kept", "live"}, "its findings are not all decided"
    assert branches["default"]["spec"]["ttlAfterFinished"] == "30d"
    assert "ttlAfterFinished" not in branches["kept"]["spec"]
    assert names(town, "cjob")[held.name]["spec"]["ttlSecondsAfterFinished"] == 86_400
    assert live.branch_id == branches["live"]["status"]["branchId"]

    (candidate,) = [found async for found in reviewer.candidates(town.namespace, held.name)]
    decision = DecisionRequest(
        candidate_id=candidate.candidate_id,
        content_hash=candidate.content_hash,
        base_revision=candidate.canonical.revision,
        action="reject",
    )
    await reviewer.review(town.namespace, held.name, [decision])
    await absent(town, "branches", "brief")
    await absent(town, "cjob", held.name)  # its owner is gone
    assert names(town, "branches").keys() == {"default", "kept", "live"}

    # What they stood for is there.
    assert (await reviewer.job(town.namespace, held.job_id)).state == "published"
    (decided,) = [found async for found in reviewer.candidates(town.namespace, held.job_id)]
    assert decided.state == "rejected"
    assert (await reviewer.record(town.namespace, BASELINE, "build/new")).content == "It is faster so."


async def test_a_deletion_reaches_neither_a_namesake_nor_what_changed_since(town):
    kube = await KubeClient.open(str(town.stack._account(OPERATOR_ACCOUNT).kubeconfig))
    where = {"namespace": town.namespace, "name": "run"}
    try:
        town.apply("Branch", "run", {"baselineRef": {"name": "none"}, "agent": {"serviceAccountName": "scout"}})
        seen = (await kube.get(BRANCH, **where))["metadata"]
        with pytest.raises(StaleObjectError):
            await kube.delete(BRANCH, **where, uid="another", resource_version=seen["resourceVersion"])
        town.kubectl("label", "branch/run", "changed=so")
        with pytest.raises(StaleObjectError):
            await kube.delete(BRANCH, **where, uid=seen["uid"], resource_version=seen["resourceVersion"])

        town.kubectl("patch", "branch/run", "--type=merge", '--patch={"metadata": {"finalizers": ["example.org/x"]}}')
        for _ in range(2):
            held = (await kube.get(BRANCH, **where))["metadata"]
            again = {"uid": held["uid"], "resource_version": held["resourceVersion"]}
            assert await kube.delete(BRANCH, **where, **again) is False
        town.kubectl("patch", "branch/run", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
        with pytest.raises(ObjectNotFoundError):
            await kube.delete(BRANCH, **where, **again)
    finally:
        await kube.close()


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("Branch", "ttlAfterFinished", "0s"), ("ConsolidationJob", "ttlSecondsAfterFinished", -1)],
)
def test_a_time_that_is_none_is_refused_at_the_apply(town, kind, field, value):
    specs = {
        "Branch": {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "scout"}},
        "ConsolidationJob": {"branchRef": {"name": "run"}, "batches": {"from": 1, "through": 1}},
    }
    with pytest.raises(DevclusterError, match=field):
        town.apply(kind, "refused", specs[kind] | {field: value})
