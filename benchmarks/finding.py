"""How long a finding of one branch takes until it is published, with automatic review, by the custom resources.

An agent submits a finding with evidence over HTTP, in a batch of its own, and waits for its publication before it
submits the next one. The clock runs from the request until a watch of the ConsolidationJobs shows the job that the
operator made of it as published: receipt, a row and a resource for the job, its sources checked against the caller's
grants, the publication, and the status of it all, with every commit durable. There is no peer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

from anabranch.client import AnabranchClient
from anabranch.devcluster import assembly
from anabranch.kube.client import KubeClient
from anabranch.kube.kinds import JOB
from anabranch.model.objects import BranchManifest, Change
from anabranch.model.requests import BranchRequest
from benchmarks import measure
from benchmarks.crowd import BASELINE, HOME, Crowd

if TYPE_CHECKING:
    from benchmarks.stage import Stage

NAME: Final = "finding"
BAR_MS: Final = 500.0
AGENT: Final = "finder"


async def run(stage: Stage, *, quick: bool) -> list[measure.Row]:
    """Measure one finding after the other."""
    stack = await asyncio.to_thread(
        assembly.up, stage.folder / "stack", options=assembly.Options(durable=True, audit=True)
    )
    await asyncio.to_thread(Crowd(stack).home)
    metadata = {"name": AGENT, "namespace": HOME}
    await asyncio.to_thread(stack.cluster.apply, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}])
    token = await asyncio.to_thread(stack.token, HOME, AGENT)
    kube = await KubeClient.open(str(stack.cluster.kubeconfig))
    published: dict[int, asyncio.Future[float]] = {}
    try:
        async with AnabranchClient(stack.api_url, token=token) as client:
            branch = await _branch(client)
            watching = asyncio.create_task(_watch(kube, branch.name, published))
            taken = [await _publish(client, branch, number, published) for number in range(1, 11 if quick else 101)]
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    finally:
        await kube.close()
    warm = [total for total, _ in taken[5:]]
    p50, p95 = statistics.median(warm), statistics.quantiles(warm, n=20)[-1]
    return [
        measure.Row(
            name="finding_published",
            work="finding received to published, automatic mode, one branch, through the custom resource",
            peer="-",
            bar=f"p50 ≤ {BAR_MS:.0f} ms",
            reached=p50 <= BAR_MS,
            figures={
                "ms_p50": p50,
                "ms_p95": p95,
                "acknowledged_ms_p50": statistics.median(received for _, received in taken[5:]),
            },
        )
    ]


async def _branch(client: AnabranchClient) -> BranchManifest:
    """A fresh branch of the agent."""
    request = BranchRequest(name=f"run-{secrets.token_hex(4)}", baseline=BASELINE)
    for _ in range(60):
        made = await client.create_branch(HOME, request)
        if isinstance(made, BranchManifest):
            return made
        await asyncio.sleep(0.5)
    raise TimeoutError(f"no branch: {made}")


async def _publish(
    client: AnabranchClient, branch: BranchManifest, number: int, published: dict[int, asyncio.Future[float]]
) -> tuple[float, float]:
    """Milliseconds until a finding is published, and until it was acknowledged."""
    evidence = await client.put_evidence(HOME, branch.branch_id, secrets.token_bytes(64))
    change = Change(
        key=f"build/{branch.name}/{number}", content=f"Seen {number} times.", scope="shared", visibility="shareable"
    )
    published[number] = asyncio.get_running_loop().create_future()
    began = time.monotonic()
    await client.submit_batch(
        HOME, branch.branch_id, sequence=number, changes=[change], sources=[[evidence]], base_revisions=["0"]
    )
    received = time.monotonic()
    async with asyncio.timeout(60):
        shown = await published[number]
    return (shown - began) * 1000, (received - began) * 1000


async def _watch(kube: KubeClient, branch: str, published: dict[int, asyncio.Future[float]]) -> None:
    """Note when the job of each batch is shown as published."""
    path = JOB.path(namespace=HOME)
    query = {"watch": "true", "timeoutSeconds": "600"}
    async with kube.connection.stream(path, query=query, accept="application/json", idle=600) as lines:
        async for line in lines:
            _note(json.loads(line)["object"], branch, published)


def _note(job: dict[str, Any], branch: str, published: dict[int, asyncio.Future[float]]) -> None:
    spec, status = job.get("spec", {}), job.get("status", {})
    if spec.get("branchRef", {}).get("name") != branch or status.get("state") != "published":
        return
    for number in range(spec["batches"]["from"], spec["batches"]["through"] + 1):
        if number in published and not published[number].done():
            published[number].set_result(time.monotonic())
