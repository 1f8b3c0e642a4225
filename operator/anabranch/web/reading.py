"""What pages read of the API beside what one call gives: over namespaces, and only as much as is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.client.transport import path
from anabranch.model.errors import ForbiddenError, NotFoundError
from anabranch.model.ids import line_of
from anabranch.model.reviewing import CandidatePage, JobPage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from typing import TypeVar

    from anabranch.client import AnabranchClient
    from anabranch.model.answers import BaselineState
    from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate

    T = TypeVar("T")

AT_ONCE: Final = 8
"""Calls that one page makes at the same time."""

JOBS: Final = 1_000
"""Most jobs of a namespace that the queue looks at."""

CANDIDATES: Final = 500
"""Most candidates of a job that its page shows."""

HEADS: Final = 20
"""Candidates of a job that the queue looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job that waits for a reviewer.

    Attributes:
        job: The job.
        baseline: Name of its Baseline; empty: not known to the visitor.
        heads: Its first candidates that wait.
        more: Whether there may be more than those.
    """

    job: ConsolidationJob
    baseline: str
    heads: Sequence[KnowledgeCandidate] = field(default=())
    more: bool = False

    @property
    def place(self) -> str:
        """Namespace and name of the Baseline, as filters have them."""
        return f"{self.job.namespace}/{self.baseline}"


async def baselines(client: AnabranchClient, namespaces: Iterable[str]) -> list[BaselineState]:
    """The Baselines of some namespaces that the visitor may see, by namespace and name."""

    async def of(namespace: str) -> list[BaselineState]:
        return [state async for state in client.baselines(namespace)]

    return [state for states in await gathered(map(of, sorted(namespaces))) for state in states]


async def baseline_of(client: AnabranchClient, job: ConsolidationJob) -> str:
    """Name of the Baseline that a job belongs to; empty: the visitor may not know."""
    states = await baselines(client, [job.namespace])
    return next((state.name for state in states if state.line_id == line_of(job.job_id)), "")


async def waiting(client: AnabranchClient, namespaces: Iterable[str], known: Iterable[BaselineState]) -> list[Waiting]:
    """The jobs that wait for a reviewer, the oldest first; without their candidates."""
    names = {state.line_id: state.name for state in known}

    async def of(namespace: str) -> list[ConsolidationJob]:
        found: list[ConsolidationJob] = []
        pages = client.pages(JobPage, path(namespace, "jobs"), query={"state": "awaiting_review"})
        async for page in pages:
            found += page.items
            if len(found) >= JOBS:
                break
        return found

    jobs = [job for jobs in await gathered(map(of, sorted(namespaces))) for job in jobs]
    made = [Waiting(job=job, baseline=names.get(line_of(job.job_id), "")) for job in jobs]
    return sorted(made, key=lambda each: each.job.created_at)


async def with_heads(client: AnabranchClient, jobs: Iterable[Waiting]) -> list[Waiting]:
    """The same jobs with their first candidates."""

    async def of(each: Waiting) -> Waiting:
        job = each.job
        place = path(job.namespace, "jobs", job.name, "candidates")
        try:
            page = await client.get(CandidatePage, place, query={"limit": HEADS})
        except (NotFoundError, ForbiddenError):  # it ended, or a grant did, since the list was made
            return each
        heads = [candidate for candidate in page.items if candidate.state == "waiting"]
        return Waiting(job=job, baseline=each.baseline, heads=heads, more=page.next_cursor is not None)

    return await gathered(map(of, jobs))


async def candidates(client: AnabranchClient, job: ConsolidationJob) -> tuple[list[KnowledgeCandidate], bool]:
    """The candidates of a job, and whether there are more than a page shows."""
    found: list[KnowledgeCandidate] = []
    async for page in client.pages(CandidatePage, path(job.namespace, "jobs", job.name, "candidates")):
        found += page.items
        if len(found) >= CANDIDATES:
            return found[:CANDIDATES], len(found) > CANDIDATES or page.next_cursor is not None
    return found, False


async def gathered(calls: Iterable[Awaitable[T]]) -> list[T]:
    """What some calls give, in their order; only so many are made at once."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[T]) -> T:
        async with turns:
            return await call

    return await asyncio.gather(*map(one, calls))
