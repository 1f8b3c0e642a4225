"""The calls about consolidation jobs: what waits for a decision, and deciding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.client.transport import Transport, parse, path
from anabranch.model.answers import (
    CandidatePage,
    JobPage,
    ReviewAnswer,
    ReviewEntry,
    ReviewPage,
    Transition,
    TransitionPage,
)
from anabranch.model.objects import ConsolidationJob
from anabranch.model.requests import ReviewRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anabranch.model.objects import JobState, KnowledgeCandidate
    from anabranch.model.requests import DecisionRequest


class JobCalls(Transport):
    """Calls about jobs. Each takes the Baseline's namespace, then the job's id or name."""

    async def jobs(
        self,
        namespace: str,
        *,
        state: JobState | None = None,
        baseline: str | None = None,
        branch: str | None = None,
    ) -> AsyncIterator[ConsolidationJob]:
        """The jobs that you may see, by name; of a Baseline, of a branch (an id), in a state, where these are given."""
        query = {"state": state, "baseline": baseline, "branch": branch}
        async for page in self.pages(JobPage, path(namespace, "jobs"), query=query):
            for item in page.items:
                yield item

    async def job(self, namespace: str, job: str) -> ConsolidationJob:
        """A job."""
        return await self.get(ConsolidationJob, path(namespace, "jobs", job))

    async def candidates(self, namespace: str, job: str) -> AsyncIterator[KnowledgeCandidate]:
        """What a job decides about, each beside the record that it would replace."""
        async for page in self.pages(CandidatePage, path(namespace, "jobs", job, "candidates")):
            for item in page.items:
                yield item

    async def cited_evidence(self, namespace: str, job: str, locator: str) -> tuple[bytes, str]:
        """The bytes of evidence that a candidate of a job cites, by its locator or digest, and their media type.

        Raises:
            NotFoundError: If none that you may see cites it, or it is kept no more.
        """
        digest = locator.removeprefix("evidence:")
        answer = await self.send("GET", path(namespace, "jobs", job, "evidence", digest))
        return answer.content, answer.headers.get("content-type", "application/octet-stream")

    async def transitions(self, namespace: str, job: str) -> list[Transition]:
        """What happened to a job, step by step."""
        pages = self.pages(TransitionPage, path(namespace, "jobs", job, "transitions"))
        return [item async for page in pages for item in page.items]

    async def reviews(self, namespace: str, job: str) -> list[ReviewEntry]:
        """What reviewers have decided on a job's candidates so far, in order, decisions taken back included."""
        pages = self.pages(ReviewPage, path(namespace, "jobs", job, "review"))
        return [item async for page in pages for item in page.items]

    async def review(self, namespace: str, job: str, decisions: Sequence[DecisionRequest]) -> ReviewAnswer:
        """Decide on candidates of a job, as yourself; all decisions are recorded, or none.

        Raises:
            ForbiddenError: If you may not; with code ``SelfReview``: if you wrote one of them.
            ConflictError: With code ``ReviewStale``: if one is not what you saw.
        """
        body = ReviewRequest(decisions=tuple(decisions)).model_dump_json().encode()
        response = await self.send(
            "POST",
            path(namespace, "jobs", job, "review"),
            body=body,
            headers={"Content-Type": "application/json"},
            repeatable=False,
        )
        return parse(ReviewAnswer, response)
