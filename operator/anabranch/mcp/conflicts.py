"""A branch's own findings that wait for a reviewer: looked for a piece at a time, so that no call grows with them.

A branch may have thousands of candidates in many jobs, each with a megabyte on either side. So a call reads so many
pages at most, gives so many bytes at most, and says with a cursor where the next one goes on: which page of jobs, which
of them, which page of its candidates, and behind which one. A forged cursor leads nowhere that its holder may not go:
the pages' own cursors are sealed, and each page is asked for with the caller's token.
"""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from pydantic import TypeAdapter

from anabranch.client.transport import path
from anabranch.mcp.arguments import Conflicts, ViewConflicts
from anabranch.model.errors import InvalidInputError
from anabranch.model.reviewing import CandidatePage, JobPage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import TypeAlias

    from anabranch.client import AnabranchClient
    from anabranch.model.objects import KnowledgeCandidate

    _Step: TypeAlias = tuple["_Place", KnowledgeCandidate | None]
    """Where a walk stands, and the conflict that comes next; None: a page is about to be read."""

PAGES: Final = 20
"""That one call reads: of jobs and of candidates together."""

CANDIDATES: Final = 10
"""Of a page: each may be two megabytes."""

BYTES: Final = 1 << 20
"""Of one answer; a single conflict may be more."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a walk goes on.

    Attributes:
        jobs: Cursor of the page of jobs; None: the first one.
        job: Name of the job in it; those before it are done.
        candidates: Cursor of the page of its candidates; None: the first one.
        candidate: Id of the last one in it that is done.
    """

    jobs: str | None = None
    job: str = ""
    candidates: str | None = None
    candidate: str = ""

    @classmethod
    def parse(cls, cursor: str | None) -> Self:
        """The place that a cursor says.

        Raises:
            InvalidInputError: If it says none.
        """
        if cursor is None:
            return cls()
        try:
            return cls(*_MEMBERS.validate_json(base64.urlsafe_b64decode(cursor)))
        except ValueError:
            raise InvalidInputError(
                "`cursor` is none that this tool gave.", hint="Leave it out to begin anew."
            ) from None

    def text(self) -> str:
        """As a cursor."""
        return base64.urlsafe_b64encode(json.dumps(astuple(self), separators=(",", ":")).encode()).decode()


_MEMBERS: Final = TypeAdapter(tuple[str | None, str, str | None, str])


async def view_conflicts(client: AnabranchClient, asked: ViewConflicts) -> Conflicts:
    """The branch's own candidates that contradict a record and wait: some of them, and where there are more."""
    branch = await client.branch(asked.namespace, asked.branch)
    found: list[KnowledgeCandidate] = []
    pages = size = 0
    steps = _jobs(client, branch.baseline.partition("/")[0], branch.branch_id, _Place.parse(asked.cursor))
    async with contextlib.aclosing(steps):
        async for place, candidate in steps:
            if candidate is None:
                pages += 1
            else:
                size += len(candidate.model_dump_json())
            full = len(found) == asked.limit or (found and size > BYTES)
            if pages > PAGES or (candidate is not None and full):
                return Conflicts(conflicts=tuple(found), next_cursor=place.text())
            if candidate is not None:
                found.append(candidate)
    return Conflicts(conflicts=tuple(found), next_cursor=None)


async def _jobs(client: AnabranchClient, namespace: str, branch_id: str, place: _Place) -> AsyncGenerator[_Step, None]:
    """Walk through a branch's jobs that wait, from a place on."""
    while True:
        yield place, None
        query = {"state": "awaiting_review", "branch": branch_id, "cursor": place.jobs}
        page = await client.get(JobPage, path(namespace, "jobs"), query=query)
        for job in page.items:
            if job.name >= place.job:
                place = place if job.name == place.job else _Place(place.jobs, job.name)
                async for step in _candidates(
                    client, path(namespace, "jobs", job.job_id, "candidates"), branch_id, place
                ):
                    yield step
        if page.next_cursor is None:
            return
        place = _Place(page.next_cursor)


async def _candidates(
    client: AnabranchClient, where: str, branch_id: str, place: _Place
) -> AsyncGenerator[_Step, None]:
    """Walk through those candidates of a branch in a job that contradict a record and wait, from a place on."""
    while True:
        yield place, None
        query = {"limit": CANDIDATES, "cursor": place.candidates}
        page = await client.get(CandidatePage, where, query=query)
        for candidate in page.items:
            if candidate.candidate_id > place.candidate:
                if candidate.conflicting and candidate.state == "waiting" and candidate.branch_id == branch_id:
                    yield place, candidate
                place = replace(place, candidate=candidate.candidate_id)
        if page.next_cursor is None:
            return
        place = _Place(place.jobs, place.job, page.next_cursor)
