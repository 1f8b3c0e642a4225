"""Second part: a finding is published while its run goes on, a contradiction waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.cli.story.cast import BASELINE, BUILD_AGENT, DOCS_AGENT, REVIEWER
from anabranch.cli.story.findings import (
    EVIDENCE,
    FAILURE,
    FIX,
    GUIDE,
    GUIDE_EVIDENCE,
    NOTE,
    PREREQUISITES,
    RIVAL_EVIDENCE,
    RIVAL_FIX,
)
from anabranch.cli.story.opening import BUILD_BRANCH, DOCS_BRANCH, fingerprint
from anabranch.cli.story.refusals import refused_by_http, refused_by_kubectl
from anabranch.model.errors import AnabranchError
from anabranch.model.objects import Change, Publication, Receipt

if TYPE_CHECKING:
    from anabranch.cli.story.stage import Stage
    from anabranch.client import AnabranchClient
    from anabranch.model.objects import KnowledgeCandidate


async def publish_during_run(stage: Stage) -> None:
    """The first agent keeps a private note, hands in a verified fix, and goes on working."""
    cast = stage.cast
    stage.step("The build agent finds the cause and submits it during its run")
    async with stage.client(cast.agents, BUILD_AGENT) as client:
        await client.put_private(cast.agents, BUILD_BRANCH, "notes/hunch", NOTE)
        stage.fact("a private note stays in its own overlay")
        evidence = await client.put_evidence(cast.agents, BUILD_BRANCH, EVIDENCE, media_type="text/plain")
        branch = await client.branch(cast.agents, BUILD_BRANCH)
        receipt = await client.submit_batch(
            cast.agents,
            branch.branch_id,
            sequence=1,
            changes=[finding(FAILURE, FIX, scope="team/build")],
            sources=[[evidence]],
            base_revisions=["1"],
        )
        stage.expect(isinstance(receipt, Receipt), f'batch 1 is durable: ack "receipt", {receipt.receipt_id}')
        publication = await published(stage, client, BUILD_BRANCH, 1)
        stage.fact(f'consolidated: ack "publication", generation {publication.generation}')
        running = await client.branch(cast.agents, BUILD_BRANCH)
        stage.expect(running.phase == "Active", "its run goes on")
    stage.wait("consolidationjobs --all", "Complete", namespace=cast.memory)
    stage.show()


async def follow(stage: Stage, original: str) -> None:
    """The second agent sees the fix before the first one's run has ended; nothing else leaked or moved."""
    cast = stage.cast
    stage.step("The docs agent sees it before that run has ended")
    async with stage.client(cast.agents, DOCS_AGENT) as client:
        page = await client.events(cast.memory, BASELINE)
        event = next((event for event in page.events if event.key == FAILURE), None)
        stage.expect(
            event is not None, f"event {event.sequence if event else 0} of the feed: {event and event.kind} {FAILURE}"
        )
        fact = await client.record(cast.memory, BASELINE, FAILURE)
        stage.expect(fact.content == FIX, "current has the fix, with its evidence and its run as the source")
        base = await client.view(cast.agents, DOCS_BRANCH, FAILURE, layer="base")
        stage.expect(base.content != FIX, "its own parent, generation 1, still says that the cause is unknown")
        refusal = await refusal_of(client.get_private(cast.agents, BUILD_BRANCH, "notes/hunch"))
        stage.expect(refusal is not None, f"the build agent's note is not for it: {refusal}")
        keys = [fact.key async for fact in client.records(cast.memory, BASELINE)]
        stage.expect("notes/hunch" not in keys, f"and is in none of the {len(keys)} records of current")
        again = await fingerprint(client, cast.memory, generation=1)
        stage.expect(again == original, "generation 1 is unchanged, bit for bit")


async def conflict(stage: Stage) -> None:
    """One batch with an update that goes on and a contradiction that waits; its author cannot wave it through."""
    cast = stage.cast
    stage.step("The docs agent updates the guide, and contradicts the fix: only the contradiction waits")
    async with stage.client(cast.agents, DOCS_AGENT) as client:
        sources = [
            [await client.put_evidence(cast.agents, DOCS_BRANCH, body, media_type="text/plain")]
            for body in (GUIDE_EVIDENCE, RIVAL_EVIDENCE)
        ]
        branch = await client.branch(cast.agents, DOCS_BRANCH)
        await client.submit_batch(
            cast.agents,
            branch.branch_id,
            sequence=1,
            changes=[finding(PREREQUISITES, GUIDE, scope="shared"), finding(FAILURE, RIVAL_FIX, scope="team/build")],
            sources=sources,
            base_revisions=["1", "1"],
        )
        publication = await published(stage, client, DOCS_BRANCH, 1)
        guide = await client.record(cast.memory, BASELINE, PREREQUISITES)
        stage.expect(guide.content == GUIDE, f"the guide is updated in generation {publication.generation}")
        job = await held_job(stage)
        await stage.condition("consolidationjob", job, "AwaitingReview", namespace=cast.memory)
        stage.fact(f"the contradiction waits in {job}")
        stage.show()

        stage.step("No agent approves its own finding")
        candidate = await waiting_candidate(client, cast.memory, job)
        await refused_by_http(stage, client, job, candidate)
        await refused_by_kubectl(stage, job, candidate)


async def decide(stage: Stage) -> None:
    """A reviewer reads both sides and accepts one, as herself, with kubectl."""
    cast = stage.cast
    stage.step("A reviewer sees both sides and decides")
    job = await held_job(stage)
    async with stage.client(cast.memory, REVIEWER) as client:
        candidate = await waiting_candidate(client, cast.memory, job)
        if candidate.canonical is None:
            raise AnabranchError("The conflict shows no canonical record.")
        stage.fact(f"canonical, revision {candidate.canonical.revision}: {first_line(candidate.canonical.content)}")
        stage.fact(f"candidate of {candidate.author.rpartition(':')[2]}: {first_line(candidate.content)}")
        stage.expect(
            bool(candidate.sources and candidate.canonical.source_locators),
            "each with its source, checked when it came in",
        )
        decide_as(stage, REVIEWER, job, candidate, action="accept")
        stage.fact(f"kubectl patch consolidationjob {job}: accept, as {REVIEWER}")
        stage.wait(f"consolidationjob/{job}", "Complete", namespace=cast.memory)
        fact = await client.record(cast.memory, BASELINE, FAILURE)
        stage.expect(
            fact.content == RIVAL_FIX and candidate.canonical.revision in fact.supersedes,
            f"published as revision {fact.revision}; it names revision {candidate.canonical.revision} as superseded",
        )
    stage.show()


def finding(key: str, content: Any, *, scope: str) -> Change:
    """A change that may be shared."""
    return Change(key=key, content=content, scope=scope, visibility="shareable")


async def published(stage: Stage, client: AnabranchClient, branch: str, sequence: int) -> Publication:
    """Ask for a batch until its answer says that it was published."""

    async def look() -> Publication | None:
        answer = await client.batch(stage.cast.agents, branch, sequence)
        return answer if isinstance(answer, Publication) else None

    return await stage.until(f"the publication of batch {sequence} of {branch}", look)


async def held_job(stage: Stage) -> str:
    """Name of the job that holds the contradiction."""

    async def look() -> str | None:
        items = stage.get("consolidationjobs", "", namespace=stage.cast.memory)["items"]
        held = [item for item in items if item["spec"].get("origin") == "Held"]
        return str(held[0]["metadata"]["name"]) if held else None

    return await stage.until("the held job", look)


async def waiting_candidate(client: AnabranchClient, namespace: str, job: str) -> KnowledgeCandidate:
    """The one candidate that waits in a job."""
    found = [candidate async for candidate in client.candidates(namespace, job)]
    return next(candidate for candidate in found if candidate.state == "waiting")


def decide_as(stage: Stage, account: str, job: str, candidate: KnowledgeCandidate, *, action: str) -> None:
    """Patch the job's reviews with a ServiceAccount's own kubeconfig, as a person does with theirs."""
    reviewer = f"system:serviceaccount:{stage.cast.memory}:{account}"
    stage.cast_kubectl(account, namespace=stage.cast.memory).patch(
        "consolidationjobs", job, {"spec": {"reviews": [review(reviewer, candidate, action)]}}
    )


def review(reviewer: str, candidate: KnowledgeCandidate, action: str) -> dict[str, Any]:
    """An entry of ``spec.reviews`` with one decision."""
    return {
        "reviewer": reviewer,
        "decisions": [
            {
                "candidateId": candidate.candidate_id,
                "contentHash": candidate.content_hash,
                "baseRevision": candidate.canonical.revision if candidate.canonical else "0",
                "action": action,
                "reason": "Cheaper, and measured on twelve builds.",
            }
        ],
    }


async def refusal_of(call: Any) -> str | None:
    """The code of the error that a call ends in; None if it does not."""
    try:
        await call
    except AnabranchError as error:
        return error.code
    return None


def first_line(content: Any) -> str:
    """The beginning of a record's text."""
    return str(content["text"]).replace("\n", " ")[:90] + "…"
