"""An episode: a town at work, so many faults, then peace; and what is wrong with all that was said and kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.chaos import judging, ledger
from tests.chaos.agents import Agent
from tests.chaos.faults import FAULTS
from tests.chaos.history import History
from tests.chaos.people import Follower, Publisher, Reader, Reviewer, ReviewerByResource, Spy
from tests.chaos.town import CALM, SHARED, STRICT, Town

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.chaos.fault import Fault
    from tests.chaos.stage import Stage

AGENTS: Final = 5
AT_ONCE: Final = 6
"""Faults that may be under way at a time; most are over at once."""

PACE: Final = (0.05, 0.4)
"""Seconds between one fault and the next: slow enough that there is something to hit."""

BUSY_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 150.0
"""For how long everything may take to come to rest after the last fault."""

AGENT_GRANTS: Final = ("anabranch-agent", "tombstone scopes")
FEW_GRANTS: Final = ("get baselines", "get baselines/records", "watch baselines/events", f"read scopes={SHARED}")


@dataclass
class Report:
    """What came of an episode.

    Attributes:
        seed: That it began with.
        faults: How many of each kind.
        entries: Of the history, by kind.
        wrong: Violations, by rule.
        seconds: How long it took.
    """

    seed: str
    faults: Counter[str] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        faults = ", ".join(f"{times} {name}" for name, times in self.faults.most_common())
        calls = ", ".join(f"{times} {name}" for name, times in self.entries.most_common())
        verdict = judging.verdict(self.wrong)
        return (
            f"seed {self.seed}: {self.faults.total()} faults in {self.seconds:.0f} s\n"
            f"  faults: {faults}\n  history: {calls}\n  verdict: {verdict}"
        )


class Episode:
    """One of them; `run` does it.

    Args:
        stage: Where; it may have seen others.
        seed: Of all that is drawn.
        folder: Takes the history.
        faults: The kinds to draw from.
        patience: Seconds in which everything must come to rest after the last fault.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        seed: str,
        folder: Path,
        faults: Sequence[Fault] = FAULTS,
        patience: float = SETTLE_SECONDS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.stage = stage
        self.history = History(folder / f"history-{seed}.jsonl")
        self.town = Town(stage, self.history, seed)
        self.report = Report(seed)
        self._faults = faults
        self._patience = patience
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(self, many: int, *, batches: int = AGENTS) -> Report:
        """Inject so many faults, and judge.

        Args:
            many: Faults.
            batches: So many are to be acknowledged before the first fault, unless that takes too long.
        """
        began = time.monotonic()
        await asyncio.to_thread(self.town.found)
        people = {f"agent-{number}": AGENT_GRANTS for number in range(AGENTS)}
        people |= dict.fromkeys(("ada", "bob"), ("anabranch-reviewer",))
        people |= dict.fromkeys(("reader", "stream", "polls"), ("anabranch-viewer",))
        people |= {"few": FEW_GRANTS, "publisher": ("anabranch-viewer",), "spy": AGENT_GRANTS}
        await self.town.admit(people)
        self.agents = [Agent(self.town, f"agent-{number}") for number in range(AGENTS)]
        self.reviewer = Reviewer(self.town, "ada")
        self.publisher = Publisher(self.town, "publisher")
        self.followers = [
            Follower(self.town, "stream", baseline=CALM, poll=False),
            Follower(self.town, "polls", baseline=STRICT, poll=True),
            Follower(self.town, "few", baseline=CALM, poll=None, scopes=[SHARED]),
        ]
        others = [ReviewerByResource(self.town, "bob"), Reader(self.town, "reader"), Spy(self.town, "spy")]
        workers = [*self.agents, self.reviewer, self.publisher, *others]
        working = [asyncio.create_task(each.work()) for each in workers]
        following = [asyncio.create_task(each.work()) for each in self.followers]
        try:
            await self._busy(batches)
            await self._strike(many)
            await self.stage.heal()
            self.town.ending.set()
            leftover: list[str] = []
            try:
                async with asyncio.timeout(self._patience):
                    await asyncio.gather(*working)
                    await self._settle(following, leftover)
            except TimeoutError:
                leftover.append(f"it did not come to rest within {self._patience:.0f} s: {await self._waiting()}")
            await self._judge(leftover)
        finally:
            for task in [*working, *following]:
                task.cancel()
            await asyncio.gather(*working, *following, return_exceptions=True)
            await self.town.close()
            self.history.close()
        self.report.seconds = time.monotonic() - began
        return self.report

    # Faults.

    async def _busy(self, batches: int) -> None:
        """Wait until there is something to disturb."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BUSY_SECONDS):
                while len(self.history.of("submit", "ok")) < batches:  # noqa: ASYNC110  (a history tells nobody)
                    await asyncio.sleep(0.1)

    async def _strike(self, many: int) -> None:
        """Inject faults, several at a time, until so many have struck."""
        chance = random.Random(f"{self.report.seed}/faults")
        weights = [fault.weight for fault in self._faults]
        under_way: set[asyncio.Task[None]] = set()
        drawn = 0
        try:
            while self.report.faults.total() < many:
                while len(under_way) < min(AT_ONCE, many - self.report.faults.total()):
                    (fault,) = chance.choices(self._faults, weights)
                    drawn += 1
                    own = random.Random(f"{self.report.seed}/fault/{drawn}")
                    under_way.add(asyncio.create_task(self._inject(fault, own)))
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                await asyncio.sleep(chance.uniform(*PACE))
            await asyncio.gather(*under_way)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _inject(self, fault: Fault, chance: random.Random) -> None:
        lock = self._locks.setdefault(fault.alone, asyncio.Lock()) if fault.alone else None
        if lock is not None and lock.locked():
            await asyncio.sleep(0.02)
            return
        async with lock or contextlib.nullcontext():
            self.history.see("chaos", "fault begins", kind=fault.name)
            try:
                what = await fault.inject(self.stage, chance)
            except Exception as error:
                error.add_note(f"It happened to the fault `{fault.name}` of seed {self.report.seed}.")
                raise
            if what is not None:
                self.report.faults[fault.name] += 1
            self.history.see("chaos", "fault", kind=fault.name, did=what)

    # Peace.

    async def _settle(self, following: Sequence[asyncio.Task[None]], leftover: list[str]) -> None:
        """Let everybody finish, decide on what waits until nothing does, and let followers come to the end."""
        await asyncio.gather(*(agent.settle() for agent in self.agents), self.publisher.settle())
        quiet = 0
        while quiet < 3:
            decided = await self.reviewer.decide()
            quiet = quiet + 1 if not decided and not await self._waiting() else 0
            await asyncio.sleep(0.2)
        await asyncio.gather(*(agent.settle() for agent in self.agents))
        for task in following:
            if task.done():
                leftover.append(f"a follower gave up: {task.exception()!r}")
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        async with self.stage.admin() as conn:
            marks = {
                row["name"]: row["event_sequence"]
                for row in await conn.fetch(
                    "SELECT l.name, h.event_sequence FROM lines AS l JOIN line_heads AS h USING (line)"
                    " WHERE namespace = $1",
                    self.town.namespace,
                )
            }
        await asyncio.gather(*(follower.settle(marks[follower.baseline]) for follower in self.followers))

    async def _waiting(self) -> list[str]:
        """What is not at its end, in words."""
        async with self.stage.admin() as conn:
            found = await conn.fetch(WAITING, self.town.namespace)
        return [row["what"] for row in found]

    async def _judge(self, leftover: list[str]) -> None:
        found = json.loads(await asyncio.to_thread(self.town.kubectl, "get", "baselines", "--output=json"))["items"]
        statuses = {each["metadata"]["name"]: each.get("status", {}) for each in found}
        async with self.stage.admin() as conn:
            kept = await ledger.read(conn, namespace=self.town.namespace, statuses=statuses, leftover=leftover)
        self.report.wrong = judging.judge(self.history, kept)
        self.report.entries = Counter(entry.what for entry in self.history.entries if entry.phase in ("ok", "seen"))


WAITING: Final = """
    SELECT 'batch ' || b.sequence || ' of ' || b.branch_id || ' has no job' AS what
    FROM batches AS b JOIN lines AS l USING (line) WHERE l.namespace = $1 AND b.job_id IS NULL
    UNION ALL
    SELECT 'job ' || j.job_id || ' is ' || j.state || ' (' || j.reason || ', attempt ' || j.attempt || ', '
           || coalesce(j.last_error, 'no error') || ')'
    FROM jobs AS j JOIN lines AS l USING (line) WHERE l.namespace = $1 AND j.finished_at IS NULL
    UNION ALL
    SELECT 'agents are not told of ' || o.kind FROM agent_outbox AS o JOIN lines AS l USING (line)
    WHERE l.namespace = $1
    UNION ALL
    SELECT l.name || ' is still shown as it was' FROM lines AS l WHERE l.namespace = $1 AND l.version <> l.projected
    UNION ALL
    SELECT 'run ' || c.branch_id || ' was completed, and is open' FROM completions AS c JOIN lines AS l USING (line)
    WHERE l.namespace = $1 AND c.closed_at IS NULL
"""
