"""Last part: a rollback is one line, everything stands, and the way on is to remove that line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anabranch.cli.story.cast import BASELINE, BUILD_AGENT
from anabranch.cli.story.findings import EVIDENCE, FAILURE, FIX, LATE, LATE_KEY, RIVAL_FIX
from anabranch.cli.story.opening import BUILD_BRANCH, DOCS_BRANCH
from anabranch.cli.story.running import finding, published
from anabranch.model.canonical import content_hash
from anabranch.model.objects import Receipt, RunCompletion

if TYPE_CHECKING:
    from anabranch.cli.story.stage import Stage

QUIET = 1.5
"""Seconds in which a paused line must not publish; a running one takes a fraction of that."""


async def roll_back(stage: Stage) -> None:
    """Pin the generation before the decision; consolidation pauses, nothing is lost."""
    cast = stage.cast
    head = stage.get("baseline", BASELINE, namespace=cast.memory)["status"]["head"]["generation"]
    target = head - 1
    stage.step(f"Rollback: kubectl patch of spec.pin, from generation {head} to {target}")
    patch = f'{{"spec":{{"pin":{{"generation":{target}}}}}}}'
    stage.kubectl("patch", f"baseline/{BASELINE}", f"--namespace={cast.memory}", "--type=merge", f"--patch={patch}")
    await stage.condition("baseline", BASELINE, "ConsolidationPaused", namespace=cast.memory)
    stage.wait(f"baseline/{BASELINE}", "Ready", namespace=cast.memory)
    async with stage.client(cast.agents, BUILD_AGENT) as client:
        fact = await client.record(cast.memory, BASELINE, FAILURE)
        stage.expect(fact.content == FIX, "readers have the earlier fix again")
        manifests = [manifest.generation async for manifest in client.manifests(cast.memory, BASELINE)]
        stage.expect(manifests == list(range(head, 0, -1)), f"the history stands: generations {manifests}")
        evidence = await client.put_evidence(cast.agents, BUILD_BRANCH, EVIDENCE, media_type="text/plain")
        branch = await client.branch(cast.agents, BUILD_BRANCH)
        receipt = await client.submit_batch(
            cast.agents,
            branch.branch_id,
            sequence=2,
            changes=[finding(LATE_KEY, LATE, scope="shared")],
            sources=[[evidence]],
            base_revisions=["0"],
            final=True,
            last_acknowledged_sequence=1,
        )
        stage.expect(isinstance(receipt, Receipt), "findings are still received")
        await asyncio.sleep(QUIET)
        answer = await client.batch(cast.agents, BUILD_BRANCH, 2)
        stage.expect(isinstance(answer, Receipt), "and wait: consolidation is paused")
    stage.show()


async def resume(stage: Stage) -> None:
    """Remove the pin: current returns to the head, and what waited goes on."""
    cast = stage.cast
    stage.step("The pin is removed: back to the head, and what waited goes on")
    patch = '[{"op":"remove","path":"/spec/pin"}]'
    stage.kubectl("patch", f"baseline/{BASELINE}", f"--namespace={cast.memory}", "--type=json", f"--patch={patch}")
    async with stage.client(cast.agents, BUILD_AGENT) as client:
        publication = await published(stage, client, BUILD_BRANCH, 2)
        stage.fact(f"the finding that waited is in generation {publication.generation}")
        fact = await client.record(cast.memory, BASELINE, FAILURE)
        stage.expect(fact.content == RIVAL_FIX, "the reviewer's decision stands")
        kinds = [event.kind for event in (await client.events(cast.memory, BASELINE)).events]
        stage.expect(
            "rollback" in kinds and "resumed" in kinds, f"the feed tells all of it in order: {', '.join(kinds)}"
        )
        branch = await client.branch(cast.agents, BUILD_BRANCH)
        completion = RunCompletion(
            run_id=branch.run_id,
            branch_id=branch.branch_id,
            agent_id=branch.agent_id,
            baseline_id=branch.parent_snapshot_id,
            last_submitted_sequence=2,
            delta_hash=content_hash([]),
        )
        await client.complete(cast.agents, BUILD_BRANCH, completion)

        async def completed() -> bool:
            status = stage.get("branch", BUILD_BRANCH, namespace=cast.agents).get("status", {})
            return bool(status.get("phase") == "Completed")

        await stage.until(f"the completion of {BUILD_BRANCH}", completed)
        stage.fact(f"the build agent's run is closed; {DOCS_BRANCH} goes on")
    stage.show()
