"""What a Baseline promises to keep is kept on a running stack, and what it does not goes, and says so."""

from __future__ import annotations

import json
import secrets

import pytest
from tests.cluster.places import Place, eventually, finding

from anabranch.model.canonical import content_hash
from anabranch.model.errors import GoneError
from anabranch.model.objects import RunCompletion

SHORT = {
    "generations": 1,
    "age": "1s",
    "events": "1s",
    "completedRuns": "1s",
    "tombstones": "1s",
    "transitions": "1s",
}


@pytest.fixture
async def town(stack):
    """A namespace for one test, with an agent that may fork in it."""
    town = Place(stack, namespace=f"keep-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    yield town
    await town.close()


def get(place, kind, name):
    return place.stack.cluster.get(kind, name, f"--namespace={place.namespace}")


def patch(place, spec):
    place.kubectl("patch", "baseline", "facts", "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def stalled(item):
    found = [entry for entry in item.get("status", {}).get("conditions", ()) if entry["type"] == "Stalled"]
    return found[0]["reason"] if found else None


async def generations(client, place):
    return [manifest.generation async for manifest in client.manifests(place.namespace, "facts")]


async def restored(place, generation):
    """Make one more generation."""
    patch(place, {"restore": {"generation": 1, "id": f"once-{generation}"}})

    async def there():
        return (get(place, "baseline", "facts")["status"].get("head") or {}).get("generation") == generation

    await eventually(there)


async def test_generations_go_and_whoever_comes_too_late_is_told(town):
    town.baseline(retention={"generations": 10})
    for generation in (2, 3, 4):
        await restored(town, generation)
    agent = await town.client("scout", "anabranch-agent", "anabranch-viewer")
    first = await agent.manifest(town.namespace, "facts", 1)

    patch(town, {"retention": SHORT})

    async def pruned():
        return await generations(agent, town) == [4, 3]

    await eventually(pruned)
    for ref in (1, first.baseline_id):
        with pytest.raises(GoneError, match="Generation 1 was removed by retention"):
            await agent.manifest(town.namespace, "facts", ref)

    late = {"baselineRef": {"name": "facts", "generation": 1}, "agent": {"serviceAccountName": "scout"}}
    town.apply("Branch", "late", late)

    async def expired():
        return get(town, "branch", "late").get("status", {}).get("phase") == "Expired"

    await eventually(expired)
    assert stalled(get(town, "branch", "late")) == "GenerationPruned"

    patch(town, {"restore": None, "pin": {"generation": 1}})

    async def refused():
        return stalled(get(town, "baseline", "facts"))

    assert await eventually(refused) == "PinTargetPruned"
    assert get(town, "baseline", "facts")["status"]["current"]["generation"] == 4


async def test_a_run_that_is_over_is_reclaimed_and_what_it_published_stays(town):
    town.baseline(review={"mode": "Automatic"})
    agent = await town.client("scout", "anabranch-agent", "anabranch-viewer")
    branch = await town.branch(agent)
    await town.submit(agent, branch, finding("build/new", "Found."))
    published = await town.publication(agent, branch)
    await complete(town, agent, branch)
    other = await town.branch(agent)
    patch(town, {"retention": SHORT})

    async def reclaimed():
        answer = await town.raw(agent, "GET", f"branches/{branch.branch_id}/batches")
        return answer if answer.status_code == 410 else None

    assert (await eventually(reclaimed)).json()["code"] == "Reclaimed"
    told = await agent.branch(town.namespace, branch.name)
    assert (told.phase, told.last_submitted_sequence, told.parent) == ("Completed", 1, branch.parent)
    record = await agent.record(town.namespace, "facts", "build/new")
    assert (record.content, record.origin_runs) == ("Found.", (branch.run_id,))
    # The other run is live, so its parent is kept, and so is all that it has.
    assert other.parent.generation == published.generation
    assert (await agent.view(town.namespace, other.branch_id, "build/new")).content == "Found."


async def complete(place, agent, branch):
    completion = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent.baseline_id,
        last_submitted_sequence=1,
        delta_hash=content_hash([]),
    )
    assert (await agent.complete(place.namespace, branch.name, completion)).closed_at
