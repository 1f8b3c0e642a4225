"""Postgres or the API server is restarted under work: what was acknowledged is published, once, and nobody helps."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter

import pytest
from tests.cluster.places import BASELINE, Place, eventually, finding

from anabranch.devcluster import choose
from anabranch.devcluster.processes import Processes
from anabranch.model.errors import UnavailableError

AWAY_SECONDS = 3.0
LAST = 24
"""Batches of a run: half of them come while the part is away, or just after."""


@pytest.fixture
async def town(stack):
    town = Place(stack, namespace=f"away-{secrets.token_hex(4)}")
    stack.make_namespace(town.namespace)
    town.baseline(review={"mode": "Automatic"})
    yield town
    await town.close()


def restart_postgres(stack):
    if stack.server.folder is None:
        pytest.skip("a Postgres of somebody else is not restarted")
    stack.server.stop()
    time.sleep(AWAY_SECONDS)
    choose.postgres_server(stack.folder / "postgres", durable=False)


def restart_api_server(stack):
    if stack.cluster.kind != "local":
        pytest.skip("a cluster of somebody else is not restarted")
    Processes(stack.folder / "cluster").stop("kube-apiserver")
    time.sleep(AWAY_SECONDS)
    choose.cluster(stack.folder / "cluster", audit=True)


@pytest.mark.parametrize("restart", [restart_postgres, restart_api_server])
async def test_what_was_acknowledged_is_published_once_whatever_was_restarted(stack, town, restart):
    agent = await town.client("agent", "anabranch-agent")
    branch = await town.branch(agent)
    evidence = await agent.put_evidence(town.namespace, branch.branch_id, b"seen")
    running = {name: Processes(stack.folder).running(name) for name in ("operator", "api")}

    async def submit(sequence):
        """As an agent does: again and again, until it is acknowledged."""
        while True:
            try:
                await agent.submit_batch(
                    town.namespace,
                    branch.branch_id,
                    sequence=sequence,
                    changes=[finding(f"away/{sequence:02}", f"Found at {sequence}.")],
                    sources=[[evidence]],
                    base_revisions=["0"],
                )
            except UnavailableError:
                await asyncio.sleep(0.2)
            else:
                return

    for sequence in range(1, LAST // 2 + 1):
        await submit(sequence)
    restarting = asyncio.create_task(asyncio.to_thread(restart, stack))
    for sequence in range(LAST // 2 + 1, LAST + 1):
        await submit(sequence)
        await asyncio.sleep(0.2)
    await restarting

    publications = [await town.publication(agent, branch, sequence) for sequence in range(1, LAST + 1)]
    assert all(publication.generation for publication in publications)
    wanted = [f"away/{sequence:02}" for sequence in range(1, LAST + 1)]
    found = [record.key async for record in agent.records(town.namespace, BASELINE) if record.key.startswith("away/")]
    assert found == wanted
    page = await agent.events(town.namespace, BASELINE, limit=1_000)
    assert Counter(event.key for event in page.events if event.kind == "published") == dict.fromkeys(wanted, 1)

    async def told():
        status = town.stack.cluster.get("baseline", BASELINE, f"--namespace={town.namespace}")["status"]
        return status["current"]["generation"] == page.events[-1].generation and status["pendingBatches"] == 0

    async def born():
        """Whether each batch is in one job, and each job is a resource that has ended."""
        jobs = json.loads(town.kubectl("get", "consolidationjobs", "--output=json"))["items"]
        taken = [
            sequence
            for job in jobs
            if job["status"].get("state") == "published"
            for sequence in range(job["spec"]["batches"]["from"], job["spec"]["batches"]["through"] + 1)
        ]
        return sorted(taken) == list(range(1, LAST + 1))

    await eventually(told)
    await eventually(born)
    # Neither process had to be started anew.
    assert {name: Processes(stack.folder).running(name) for name in running} == running
    town.apply("Branch", "later", {"baselineRef": {"name": BASELINE}, "agent": {"serviceAccountName": "agent"}})
    town.kubectl("wait", "--for=condition=Ready", "branch/later", "--timeout=60s")
