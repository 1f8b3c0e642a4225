"""Agents, reviewers and two operators over one line, each of whom may do the wrong thing at a bad moment."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.store.dying import DyingDatabase, KilledError
from tests.store.world import AGENTS, World, decisions

from anabranch.baselines import pinning
from anabranch.branches import completion
from anabranch.consolidation import receipt, review, schedule, work
from anabranch.consolidation.services import Services
from anabranch.consolidation.sources import SourceChecker, SourcesConfig, resolvers
from anabranch.identity import Caller, grants
from anabranch.model.canonical import content_hash
from anabranch.model.crd import Pin
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from anabranch.model.objects import RunCompletion
from anabranch.model.requests import DecisionRequest
from anabranch.store import candidates, jobs, leases, records

if TYPE_CHECKING:
    from anabranch.store.branches import BranchRow
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow

REVIEWERS = ("ada", "bob")
IMPORTED = {"a": "first", "b": "first", "c": "first"}

Change = dict[str, Any]


@dataclass
class Agent:
    """An agent's run: what it has found, and what it was told of it.

    Attributes:
        branch: Its branch.
        exports: Whether its private findings may leave it.
        outbox: Its batches, the first one is number 1: the changes, and whether it calls it its last.
        receipts: Ids by sequence, of what was acknowledged.
        completion: What its RunCompletion said, once it was sent.
    """

    branch: BranchRow
    exports: bool
    outbox: list[tuple[list[Change], bool]] = field(default_factory=list)
    receipts: dict[int, str] = field(default_factory=dict)
    completion: dict[str, Any] | None = None

    @property
    def account(self) -> str:
        return self.branch.service_account

    @property
    def secret(self) -> str:
        return f"secret of {self.account}"

    def complete_through(self) -> int:
        """Up to where all its batches were acknowledged."""
        through = 0
        while through + 1 in self.receipts:
            through += 1
        return through


@dataclass
class Death:
    """How a worker ends: at which use of the database, before or after what it did counts, killed or cut off."""

    at: int
    before: bool
    error: Exception


class Fleet:
    """A line, its agents, and two operators that do not know of each other."""

    def __init__(self, db: Database, other: Database) -> None:
        self.db = db
        self.world, twin = World(db), World(other)
        twin.permissions = self.world.permissions
        checker = SourceChecker(resolvers(other, self.world.permissions, SourcesConfig()))
        twin.services = Services(db=other, grants=self.world.permissions, sources=checker)
        self.operators = (self.world, twin)
        self.imported = IMPORTED
        self.agents: list[Agent] = []
        self.paused: list[tuple[World, JobRow]] = []
        self.revoked: set[tuple[str, str]] = set()
        self.pinned = False
        self._reviews: defaultdict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
        self._applied: defaultdict[str, int] = defaultdict(int)

    async def begin(self, number: int, *, policy: dict[str, Any]) -> None:
        """Import a baseline, and have three agents fork it, of whom the first may export what is private."""
        name = f"facts-{number}"
        self.line = (await self.world.import_documents(IMPORTED, name=name, review=policy)).line.line
        for who in range(3):
            branch = await self.world.apply_branch(
                f"agent-{number}-{who}", baseline=name, sharingPolicy={"exportPrivate": who == 0}
            )
            self.agents.append(Agent(branch, exports=who == 0))

    async def end(self) -> None:
        """Let nobody take anything up of this line any more: the next example begins."""
        async with self.db.connection() as conn:
            await conn.execute("UPDATE lines SET deleted_at = now() WHERE line = $1", self.line)

    # Agents.

    async def compose(self, agent: Agent, drawn: list[dict[str, Any]], *, final: bool) -> None:
        """Put a batch into an agent's outbox. Of each change it knows the newest revision, or what it forked."""
        async with self.db.connection() as conn:
            keys = [change["key"] for change in drawn]
            newest = await records.current_of(conn, line=self.line, generation=await self._head(), keys=keys)
        changes = []
        for one in drawn:
            change = {name: value for name, value in one.items() if name != "knows_newest"}
            knows_newest = one["knows_newest"]
            base = newest[change["key"]].revision if knows_newest and change["key"] in newest else 0
            if not knows_newest and change["key"] in IMPORTED:
                base = 1
            if change.get("visibility") == "private" and change.get("op") != "tombstone":
                change["content"] = f"{agent.secret}: {change['content']}"
            changes.append(change | {"base": base})
        agent.outbox.append((changes, final))

    async def send(self, agent: Agent, sequence: int) -> None:
        """Send a batch, perhaps again; it has one receipt, unless its run was over before it."""
        changes, final = agent.outbox[sequence - 1]
        over = agent.completion is not None and sequence > agent.completion["last_submitted_sequence"]
        try:
            ack = await self.world.submit(agent.branch, sequence, *changes, final=final)
        except ConflictError:
            assert over
        else:
            assert not over
            assert agent.receipts.setdefault(sequence, ack.receipt_id) == ack.receipt_id

    async def forge(self, agent: Agent, sequence: int) -> None:
        """Send something else under a number that is taken."""
        with pytest.raises(ConflictError):
            await self.world.submit(agent.branch, sequence, {"key": "a", "content": "forged"})

    async def tear(self, agent: Agent) -> None:
        """Lose the connection in the middle of a batch."""
        torn = b'{"branch_id":"' + agent.branch.branch_id.encode() + b'","sequence":1,"changes":[{"key":"a"'
        with pytest.raises(InvalidInputError):
            await receipt.read(torn)

    async def complete(self, agent: Agent) -> None:
        """Say that nothing more comes than is in the outbox. Said again it is the same, and nothing else is taken."""
        first = agent.completion is None
        if first:
            agent.completion = {
                "run_id": agent.branch.run_id,
                "branch_id": agent.branch.branch_id,
                "agent_id": agent.branch.agent_id,
                "baseline_id": agent.branch.parent_baseline_id,
                "last_submitted_sequence": len(agent.outbox),
                "delta_hash": content_hash([]),
            }
        await self._complete(agent, agent.completion)
        with pytest.raises(ConflictError):
            await self._complete(agent, agent.completion | {"last_submitted_sequence": 1_000})

    async def _complete(self, agent: Agent, raw: dict[str, Any]) -> None:
        await completion.submit(self.db, branch=agent.branch, completion=RunCompletion.model_validate(raw), raw=raw)

    # Operators.

    async def operate(self, operator: int, *, limit: int, death: Death | None = None) -> int:
        """Make jobs, claim some and work on all of them at once, until they are done or the worker ends; how many."""
        world = self.operators[operator]
        db: Any = world.db
        if death is not None:
            db = DyingDatabase(world.db, at=death.at, before=death.before, error=death.error)
        services = Services(db=db, grants=world.permissions, sources=world.services.sources)
        await schedule.make_jobs(world.db)
        async with world.db.connection() as conn:
            claim = await leases.claim(conn, holder=world.holder, limit=limit)
        await asyncio.gather(*(self._work(world, services, job) for job in claim.jobs))
        return len(claim.jobs) + claim.done

    async def _work(self, world: World, services: Services, job: JobRow) -> None:
        try:
            await work.advance(services, job)
        except KilledError:
            self.paused.append((world, job))
        except leases.FencedError:
            pass
        except UnavailableError:
            async with world.db.connection() as conn:
                await leases.release(conn, job=job, due_in=timedelta())

    async def pause(self, operator: int) -> bool:
        """Let a worker claim a job, and do nothing until it comes back; whether there was one to claim."""
        world = self.operators[operator]
        await schedule.make_jobs(world.db)
        async with world.db.connection() as conn:
            claimed = (await leases.claim(conn, holder=world.holder, limit=1)).jobs
        self.paused += [(world, job) for job in claimed]
        return bool(claimed)

    async def come_back(self, which: int) -> None:
        """A worker that was paused, or thought dead, goes on with what it remembers."""
        world, job = self.paused.pop(which % len(self.paused))
        async with self.db.connection() as conn:
            now = await jobs.get(conn, job.job_id)
        try:
            await work.advance(world.services, job)
        except leases.FencedError:
            assert (now.fence, now.holder, now.state) != (job.fence, job.holder, job.state)
        else:  # on a paused line it may not even get so far as to be told
            assert self.pinned or (now.fence, now.holder, now.state) == (job.fence, job.holder, job.state)

    async def expire(self) -> None:
        """Let all leases run out now. How often a job may be taken over is another test's business."""
        async with self.db.connection() as conn:
            await conn.execute(
                "UPDATE jobs SET lease_deadline = now() - interval '1 h', due_at = now() - interval '1 h',"
                " retry_limit = 1000 WHERE line = $1 AND holder IS NOT NULL",
                self.line,
            )

    # Reviewers, and those who grant.

    async def waiting(self) -> list[tuple[JobRow, CandidateRow]]:
        """Every candidate that waits for somebody, in an order that does not depend on who came first."""
        async with self.db.connection() as conn:
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
        """Decide on a candidate as it is shown now. Whoever is late is told so."""
        waiting = await self.waiting()
        if not waiting:
            return
        job, candidate = waiting[pick % len(waiting)]
        if by_resource:
            await self._apply_review(job, candidate, action, reviewer)
            return
        (decision,) = decisions([candidate], action)
        request = DecisionRequest.model_validate({
            "candidate_id": decision["candidateId"],
            "content_hash": decision["contentHash"],
            "base_revision": decision["baseRevision"],
            "action": action,
        })  # fmt: skip
        with suppress(ConflictError, NotFoundError):
            await review.decide(self.db, job=job, caller=Caller(username=reviewer), decisions=[request])

    async def _apply_review(self, job: JobRow, candidate: CandidateRow, action: str, reviewer: str) -> None:
        """Write a decision into the job's resource, beside those that stand there."""
        (decision,) = decisions([candidate], action)
        self._reviews[job.name][reviewer, candidate.candidate_id] = decision
        self._applied[job.name] += 1
        by_reviewer: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for (who, _), said in self._reviews[job.name].items():
            by_reviewer[who].append(said)
        branch = next(agent.branch for agent in self.agents if agent.branch.branch_id == job.branch_id)
        spec: dict[str, Any] = {"origin": job.origin, "branchRef": {"namespace": AGENTS, "name": branch.name}}
        if job.origin == "Branch":
            spec["batches"] = {"from": job.from_sequence, "through": job.through_sequence}
        spec["reviews"] = [{"reviewer": who, "decisions": said} for who, said in by_reviewer.items()]
        await self.world.apply_job(job.name, generation=self._applied[job.name], **spec)

    def revoke(self, agent: Agent, verb: str) -> None:
        grant = {"write": grants.SCOPE_WRITE, "tombstone": grants.SCOPE_TOMBSTONE, "export": grants.SCOPE_EXPORT}[verb]
        self.world.permissions.deny(grant, account=agent.account)
        self.revoked.add((agent.branch.branch_id, verb))

    def give_back(self) -> None:
        self.world.permissions.give_back()
        self.revoked.clear()

    async def pin(self, *, on: bool) -> None:
        self.pinned = on
        pin = Pin(generation=1) if on else None
        assert await pinning.follow_pin(self.db, line=self.line, pin=pin) == []

    async def settle(self) -> None:
        """Let all obstacles go away, work until nothing is due, and decide on what waits; until nothing waits."""
        self.give_back()
        await self.pin(on=False)
        for _ in range(50):
            await self.expire()
            while any(await asyncio.gather(*(self.operate(operator, limit=5) for operator in range(2)))):
                pass
            waiting = await self.waiting()
            if not waiting:
                return
            for pick, (_, candidate) in enumerate(waiting):
                first = pick == 0 or waiting[pick - 1][1].key != candidate.key
                await self.review(pick, "accept" if first else "reject", "ada", by_resource=False)
        raise AssertionError("something waits for ever")

    async def _head(self) -> int:
        return (await self.world.state(self.line)).head.head_generation
