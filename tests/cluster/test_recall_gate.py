"""The recall gate from end to end: a finding that costs an answer waits, and who lets it through has read which."""

from __future__ import annotations

import json

import pytest
from tests.cluster.places import BASELINE, Place, eventually, finding

from anabranch.model.requests import DecisionRequest

TASKS = [{"id": "exit-137", "query": "exit 137 cause", "answers": ["build/exit-137"]}]
RECALL = {"tasks": {"configMap": {"name": "questions"}}, "k": 1}


@pytest.fixture
async def place(stack):
    place = Place(stack)
    stack.make_namespace(place.namespace)
    yield place
    await place.close()


def baseline(place: Place) -> dict:
    return json.loads(place.kubectl("get", "baseline", BASELINE, "--output=json"))


def condition(resource: dict, kind: str) -> str | None:
    return next((one["reason"] for one in resource["status"].get("conditions", ()) if one["type"] == kind), None)


async def test_a_finding_that_costs_an_answer_waits_for_a_reviewer_who_knows(place):
    place.baseline(review={"mode": "Automatic"}, recall=RECALL)
    assert condition(baseline(place), "RecallTasksUnavailable") == "ConfigMapMissing"
    agent, reviewer = await place.client("ada", "anabranch-agent"), await place.client("rosa", "anabranch-reviewer")
    branch = await place.branch(agent)
    await place.submit(agent, branch, finding("noise", "exit 137 cause, exit 137 cause"))

    async def waiting(reason: str):
        jobs = json.loads(place.kubectl("get", "consolidationjobs", "--output=json"))["items"]
        return next((job for job in jobs if condition(job, "Ready") == reason), None)

    await eventually(lambda: waiting("RecallTasksUnavailable"))
    metadata = {"name": "questions", "namespace": place.namespace}
    data = {"tasks.jsonl": "\n".join(map(json.dumps, TASKS))}
    place.stack.cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])

    job = await eventually(lambda: waiting("RecallRegressed"))
    assert condition(baseline(place), "RecallTasksUnavailable") is None
    assert baseline(place)["status"]["head"]["generation"] == 1
    (candidate,) = [one async for one in reviewer.candidates(place.namespace, job["metadata"]["name"])]
    assert (candidate.state, candidate.reason) == ("waiting", "RecallRegressed")
    assert "exit-137" in candidate.detail
    decision = DecisionRequest(
        candidate_id=candidate.candidate_id,
        content_hash=candidate.content_hash,
        base_revision=candidate.canonical.revision if candidate.canonical else "0",
        action="accept",
        reason="the answer is about to be written anew",
        hold=candidate.hold,
    )
    await reviewer.review(place.namespace, job["metadata"]["name"], [decision])
    await place.publication(agent, branch)

    async def regressed():
        return condition(resource := baseline(place), "QualityRegressed") and resource

    status = (await eventually(regressed))["status"]
    assert status["quality"]["recall"]["recall"] == 0
    assert status["quality"]["recall"]["change"] == -1
    told = await reviewer.quality(place.namespace, BASELINE, history=5)
    assert told.recall[0].worse == ("exit-137",)
