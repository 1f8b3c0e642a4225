"""Reviewers of a line, who decide by resource or over HTTP on what waits, and may be late."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.store.world import AGENTS, decisions

from anabranch.consolidation import review
from anabranch.identity import Caller
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.model.requests import DecisionRequest
from anabranch.store import branches, candidates, jobs

if TYPE_CHECKING:
    from tests.store.world import World

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow

REVIEWERS = ("ada", "bob")


class Reviewers:
    """Those who decide on a line's findings."""

    def __init__(self, world: World, line: str) -> None:
        self.world = world
        self.line = line
        self._said: defaultdict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
        self._applied: defaultdict[str, int] = defaultdict(int)

    async def waiting(self) -> list[tuple[JobRow, CandidateRow]]:
        """Every candidate that waits for somebody, in an order that does not depend on who came first."""
        async with self.world.db.connection() as conn:
            ids = await conn.fetch(
                "SELECT DISTINCT job_id FROM candidates WHERE line = $1 AND state = 'waiting'", self.line
            )
            found = [
                (await jobs.get(conn, row["job_id"]), candidate)
                for row in ids
                for candidate in await candidates.of_job(conn, line=self.line, job_id=row["job_id"])
            ]
        open_ones = [(job, candidate) for job, candidate in found if candidate.state == "waiting"]
        return sorted(open_ones, key=lambda pair: (pair[1].key, pair[1].candidate_id))

    async def review(self, pick: int, action: str, reviewer: str, *, by_resource: bool) -> None:
        """Decide on a candidate as it is shown now."""
        if waiting := await self.waiting():
            await self._decide(*waiting[pick % len(waiting)], action, reviewer, by_resource=by_resource)

    async def accept(self, branch_id: str, key: str, *, by_resource: bool) -> None:
        """Accept what a run has found about a key."""
        for job, candidate in await self.waiting():
            if (candidate.branch_id, candidate.key) == (branch_id, key):
                await self._decide(job, candidate, "accept", REVIEWERS[0], by_resource=by_resource)
                return

    async def decide_on_all(self) -> bool:
        """Accept what waits, of each key the first, and reject the rest; whether anything waited."""
        waiting = await self.waiting()
        keys: set[str] = set()
        for job, candidate in waiting:
            action = "reject" if candidate.key in keys else "accept"
            keys.add(candidate.key)
            await self._decide(job, candidate, action, REVIEWERS[0], by_resource=False)
        return bool(waiting)

    async def _decide(
        self, job: JobRow, candidate: CandidateRow, action: str, reviewer: str, *, by_resource: bool
    ) -> None:
        """Whoever is late is told so."""
        if by_resource:
            await self._apply(job, candidate, action, reviewer)
            return
        (decision,) = decisions([candidate], action)
        request = DecisionRequest.model_validate({
            "candidate_id": decision["candidateId"],
            "content_hash": decision["contentHash"],
            "base_revision": decision["baseRevision"],
            "action": action,
        })  # fmt: skip
        with suppress(ConflictError, NotFoundError):
            await review.decide(self.world.db, job=job, caller=Caller(username=reviewer), decisions=[request])

    async def _apply(self, job: JobRow, candidate: CandidateRow, action: str, reviewer: str) -> None:
        """Write a decision into the job's resource, beside those that stand there."""
        (decision,) = decisions([candidate], action)
        self._said[job.name][reviewer, candidate.candidate_id] = decision
        self._applied[job.name] += 1
        by_reviewer: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for (who, _), said in self._said[job.name].items():
            by_reviewer[who].append(said)
        async with self.world.db.connection() as conn:
            branch = await branches.get(conn, job.branch_id or "")
        assert branch is not None
        spec: dict[str, Any] = {"origin": job.origin, "branchRef": {"namespace": AGENTS, "name": branch.name}}
        if job.origin == "Branch":
            spec["batches"] = {"from": job.from_sequence, "through": job.through_sequence}
        spec["reviews"] = [{"reviewer": who, "decisions": said} for who, said in by_reviewer.items()]
        await self.world.apply_job(job.name, generation=self._applied[job.name], **spec)
