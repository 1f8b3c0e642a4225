"""What must not be possible: an agent that approves its own finding, by either way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.cli.story.cast import DOCS_AGENT
from anabranch.model.errors import AnabranchError, ForbiddenError
from anabranch.model.requests import DecisionRequest

if TYPE_CHECKING:
    from anabranch.cli.story.stage import Stage
    from anabranch.client import AnabranchClient
    from anabranch.model.objects import KnowledgeCandidate


async def refused_by_http(stage: Stage, client: AnabranchClient, job: str, candidate: KnowledgeCandidate) -> None:
    """The agent's own token, at the API's review route."""
    decision = DecisionRequest(
        candidate_id=candidate.candidate_id,
        content_hash=candidate.content_hash,
        base_revision=candidate.canonical.revision if candidate.canonical else "0",
        action="accept",
    )
    try:
        await client.review(stage.cast.memory, job, [decision])
    except AnabranchError as error:
        stage.expect(error.status in (403, 404), f"by HTTP: {error.status} {error.code}")
    else:
        stage.expect(False, "the agent is refused by HTTP")


async def refused_by_kubectl(stage: Stage, job: str, candidate: KnowledgeCandidate) -> None:
    """The agent's own token, at the API server, with the right to patch jobs but not to review them."""
    from anabranch.cli.story.running import review  # noqa: PLC0415  (each tells a part of the same scene)

    reviewer = f"system:serviceaccount:{stage.cast.agents}:{DOCS_AGENT}"
    kubectl = stage.cast_kubectl(DOCS_AGENT, namespace=stage.cast.agents, at=stage.cast.memory)
    try:
        kubectl.patch("consolidationjobs", job, {"spec": {"reviews": [review(reviewer, candidate, "accept")]}})
    except ForbiddenError as error:
        stage.fact(f"by kubectl: {error.detail.splitlines()[0][:110]}…")
    else:
        stage.expect(False, "the agent is refused by kubectl")
