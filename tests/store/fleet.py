"""Two operators over one line, its agents and reviewers, each of whom may do the wrong thing at a bad moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.store.dying import DyingDatabase, KilledError
from tests.store.fleet_agents import IMPORTED, Agent
from tests.store.fleet_reviewers import Reviewers
from tests.store.world import World

from anabranch.baselines import pinning
from anabranch.consolidation import schedule, work
from anabranch.consolidation.services import Services
from anabranch.consolidation.sources import SourceChecker, SourcesConfig, resolvers
from anabranch.identity import grants
from anabranch.model.crd import Pin
from anabranch.model.errors import UnavailableError
from anabranch.store import jobs, leases

if TYPE_CHECKING:
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow


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
        self.agents: list[Agent] = []
        self.paused: list[tuple[World, JobRow]] = []
        self.revoked: set[tuple[str, str]] = set()
        self.pinned = False

    async def begin(self, number: int, *, policy: dict[str, Any]) -> None:
        """Import a baseline, and have three agents fork it, of whom the first may export what is private."""
        name = f"facts-{number}"
        self.line = (await self.world.import_documents(IMPORTED, name=name, review=policy)).line.line
        self.reviewers = Reviewers(self.world, self.line)
        for who in range(3):
            branch = await self.world.apply_branch(
                f"agent-{number}-{who}", baseline=name, sharingPolicy={"exportPrivate": who == 0}
            )
            assert branch is not None
            self.agents.append(Agent(self.world, branch, exports=who == 0))

    async def end(self) -> None:
        """Let nobody take anything up of this line any more: the next example begins."""
        async with self.db.connection() as conn:
            await conn.execute("UPDATE lines SET deleted_at = now() WHERE line = $1", self.line)

    # Operators.

    async def operate(self, operator: int, *, limit: int, death: Death | None = None) -> int:
        """Make jobs, claim some and work on all of them at once, until they are done or the worker ends; how many."""
        world = self.operators[operator]
        db: Any = world.db
        if death is not None:
            db = DyingDatabase(world.db, at=death.at, before=death.before, error=death.error)
        services = Services(db=db, grants=world.permissions, sources=world.services.sources)
        claim = await self._claim(world, limit=limit)
        await asyncio.gather(*(self._work(world, services, job) for job in claim.jobs))
        return len(claim.jobs) + claim.done

    async def _claim(self, world: World, *, limit: int) -> leases.Claim:
        await schedule.make_jobs(world.db)
        async with world.db.connection() as conn:
            return await leases.claim(conn, holder=world.holder, limit=limit)

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

    async def work_off(self) -> None:
        """Let both operators work until nothing is due."""
        while any(await asyncio.gather(*(self.operate(operator, limit=5) for operator in range(2)))):
            pass

    async def pause(self, operator: int, *, limit: int = 1) -> int:
        """Let a worker claim jobs, and do nothing until it comes back; how many there were to claim."""
        world = self.operators[operator]
        claim = await self._claim(world, limit=limit)
        self.paused += [(world, job) for job in claim.jobs]
        return len(claim.jobs)

    async def come_back(self, which: int) -> None:
        """A worker that was paused, or thought dead, goes on with what it remembers."""
        world, job = self.paused.pop(which % len(self.paused))
        async with self.db.connection() as conn:
            now = await jobs.get(conn, job.job_id)
        assert now is not None
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

    # What stands in their way.

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

    async def clear_the_way(self) -> None:
        """Let all that stands in the way go."""
        self.give_back()
        await self.pin(on=False)

    async def settle(self) -> None:
        """Let all obstacles go away, work until nothing is due, and decide on what waits; until nothing waits."""
        await self.clear_the_way()
        for _ in range(50):
            await self.expire()
            await self.work_off()
            if not await self.reviewers.decide_on_all():
                return
        raise AssertionError("something waits for ever")
