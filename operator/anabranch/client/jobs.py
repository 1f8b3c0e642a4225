"""The calls about consolidation jobs: what waits for a decision, and deciding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.client.transport import Transport, parse, path
from anabranch.model.merging import Draft, DraftRequest, Merge, MergePage
from anabranch.model.objects import ConsolidationJob
from anabranch.model.requests import ReviewRequest
from anabranch.model.reviewing import (
    CandidateGroup,
    CandidatePage,
    GroupPage,
    JobPage,
    ReviewAnswer,
    ReviewEntry,
    ReviewPage,
    Transition,
    TransitionPage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import httpx
    from pydantic import BaseModel, JsonValue

    from anabranch.model.merging import MergeRequest
    from anabranch.model.objects import JobState, KnowledgeCandidate
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest


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

    async def groups(self, namespace: str, job: str) -> list[CandidateGroup]:
        """Near-identical candidates of a job that wait, gathered: each group may be decided as one."""
        pages = self.pages(GroupPage, path(namespace, "jobs", job, "groups"))
        return [item async for page in pages for item in page.items]

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

    async def merge(self, namespace: str, job: str, merge: MergeRequest) -> Merge:
        """Propose one text of several candidates of a job, as yourself; the same again is the same merge.

        It becomes a candidate under its ``candidate_id``, for others than you to decide.

        Raises:
            ForbiddenError: If you may not decide on this job.
            ConflictError: If they cannot be made one of, or wait no more.
        """
        answer = await self._write(path(namespace, "jobs", job, "merges"), merge)
        return parse(Merge, answer)

    async def merges(self, namespace: str, job: str) -> list[Merge]:
        """What was proposed to make of a job's candidates, the oldest first, and what became of it."""
        pages = self.pages(MergePage, path(namespace, "jobs", job, "merges"))
        return [item async for page in pages for item in page.items]

    async def put_draft(self, namespace: str, job: str, content: JsonValue) -> str:
        """Keep a text for a merge in a job's ``spec.reviews``, which names it by the hash that this gives.

        Raises:
            ConflictError: If the job does not wait for a review.
        """
        answer = await self._write(path(namespace, "jobs", job, "drafts"), DraftRequest(content=content))
        return parse(Draft, answer).content_hash

    async def _write(self, place: str, body: BaseModel) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        return await self.send("POST", place, body=body.model_dump_json().encode(), headers=headers)

    async def review(
        self,
        namespace: str,
        job: str,
        decisions: Sequence[DecisionRequest] = (),
        *,
        groups: Sequence[GroupDecisionRequest] = (),
    ) -> ReviewAnswer:
        """Decide on candidates of a job, or on groups of them, as yourself; all decisions are recorded, or none.

        Raises:
            ForbiddenError: If you may not; with code ``SelfReview``: if you wrote one of them.
            ConflictError: With code ``ReviewStale``: if one is not what you saw; with ``GroupMixed``: if a group cannot
                be accepted as one.
        """
        body = ReviewRequest(decisions=tuple(decisions), groups=tuple(groups)).model_dump_json().encode()
        response = await self.send(
            "POST",
            path(namespace, "jobs", job, "review"),
            body=body,
            headers={"Content-Type": "application/json"},
            repeatable=False,
        )
        return parse(ReviewAnswer, response)
