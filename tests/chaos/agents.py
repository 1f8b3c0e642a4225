"""Agents: each does one run after the other, and sends what it has found in any order, twice or too late."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.town import BASELINES, CONTENDED, HIDDEN, SHARED

from anabranch.model.canonical import content_hash
from anabranch.model.objects import BranchManifest, FindingBatch, RunCompletion, batch_hash
from anabranch.model.requests import BranchRequest

if TYPE_CHECKING:
    import random

    from tests.chaos.history import Ended, History
    from tests.chaos.town import Town

    from anabranch.client import AnabranchClient
    from anabranch.model.objects import Publication, Receipt

PAUSE = 0.25
"""Seconds between two attempts of somebody who insists."""


@dataclass
class Run:
    """A run, as its agent knows it.

    Attributes:
        branch: Its branch.
        evidence: What its findings cite.
        outbox: Its batches; the first one is number 1.
        acknowledged: Numbers of those that it has a receipt for.
        private: By key: revision and value as written or read last; None: it does not know.
        completed: Whether its completion was acknowledged.
    """

    branch: BranchManifest
    evidence: str
    outbox: list[FindingBatch] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    private: dict[str, int | None] = field(default_factory=dict)
    completed: bool = False


class Agent:
    """One ServiceAccount that works."""

    def __init__(self, town: Town, name: str) -> None:
        self.town = town
        self.name = name
        self.history: History = town.history
        self.client: AnabranchClient = town.client(name)
        self.chance: random.Random = town.chance(name)
        self.runs: list[Run] = []
        self._written = 0

    async def work(self) -> None:
        """Do runs until the town ends."""
        while not self.town.ending.is_set():
            if (run := await self._fork()) is None:
                await asyncio.sleep(PAUSE)
                continue
            self.runs.append(run)
            deeds = (self._find, self._send, self._forge, self._ask, self._write, self._read, self._look)
            for _ in range(self.chance.randint(6, 16)):
                if self.town.ending.is_set():
                    return
                (deed,) = self.chance.choices(deeds, weights=(6, 3, 1, 2, 3, 2, 1))
                await deed(run)
                await asyncio.sleep(self.chance.uniform(0, 0.1))
            if self.chance.random() < 0.7:
                await self.complete(run)

    async def settle(self) -> None:
        """Send what was not acknowledged yet, and end every run."""
        for run in self.runs:
            while not run.completed:
                await self.complete(run)
                await asyncio.sleep(0 if run.completed else PAUSE)
            for sequence in range(1, len(run.outbox) + 1):
                await self._outcome(run, sequence)

    # A run.

    async def _fork(self) -> Run | None:
        baseline = self.chance.choice([*BASELINES])
        request = BranchRequest(name=f"{self.name}-{len(self.runs)}", baseline=baseline, lease_seconds=300)
        for _ in range(120):
            made = await self.history.ask(
                self.name,
                "fork",
                self.client.create_branch(self.town.namespace, request),
                lambda branch: {"branch": getattr(branch, "branch_id", None)},
                name=request.name,
            )
            if isinstance(made.value, BranchManifest) and made.value.phase == "Active":
                self.town.branches.append((self.name, made.value))
                break
            if self.town.ending.is_set():
                return None
            await asyncio.sleep(PAUSE)
        else:
            return None
        branch = made.value
        while not self.town.ending.is_set():
            put = self.client.put_evidence(self.town.namespace, branch.branch_id, f"seen by {branch.name}".encode())
            cited = await self.history.ask(self.name, "evidence", put, branch=branch.branch_id)
            if cited.value is not None:
                return Run(branch, cited.value)
            await asyncio.sleep(PAUSE)
        return None

    async def _find(self, run: Run) -> None:
        """Compose a batch, and send it, unless it is to come later."""
        if run.completed:
            return
        number = len(run.outbox) + 1
        changes, bases = [], []
        keys: set[str] = set()
        for place in range(self.chance.randint(1, 3)):
            change, base = await self._change(run, number, place)
            if change["key"] not in keys:
                keys.add(change["key"])
                changes.append(change)
                bases.append(base)
        run.outbox.append(_batch(run, number, changes, bases))
        if self.chance.random() < 0.85:
            await self.submit(run, number)

    async def _change(self, run: Run, number: int, place: int) -> tuple[dict[str, Any], str]:
        content = {"by": self.name, "run": run.branch.name, "batch": number, "place": place}
        change: dict[str, Any] = {"op": "put", "content": content, "scope": SHARED, "visibility": "shareable"}
        draw = self.chance.random()
        if draw < 0.45:
            return change | {"key": f"found/{run.branch.name}/{number}-{place}"}, "0"
        if draw < 0.6:
            return change | {"key": f"hidden/{run.branch.name}/{number}-{place}", "scope": HIDDEN}, "0"
        if draw < 0.7:
            kept = {"content": {**content, "text": f"secret of {self.name}"}, "visibility": "private"}
            return change | {"key": f"own/{run.branch.name}/{number}-{place}"} | kept, "0"
        key = self.chance.choice(CONTENDED)
        newest = self.client.record(self.town.namespace, _baseline(run), key)
        now = await self.history.ask(self.name, "newest", newest, branch=run.branch.branch_id)
        # Who does not know the newest revision knows the first one, and will be told that there is a conflict.
        base = now.value.revision if now.value is not None and self.chance.random() < 0.7 else "1"
        if draw > 0.95:
            return {"op": "tombstone", "key": key, "scope": SHARED, "visibility": "shareable"}, base
        return change | {"key": key}, base

    async def _send(self, run: Run) -> None:
        """Send a batch, perhaps again."""
        if run.outbox:
            await self.submit(run, self.chance.randint(1, len(run.outbox)))

    async def submit(self, run: Run, number: int, batch: FindingBatch | None = None) -> Ended[Receipt | Publication]:
        sent = batch or run.outbox[number - 1]
        ended = await self.history.ask(
            self.name,
            "submit",
            self.client.submit(self.town.namespace, sent),
            lambda ack: {"ack": ack.ack, "receipt": ack.receipt_id, "answered": ack.content_hash},
            branch=run.branch.branch_id,
            sequence=number,
            digest=sent.content_hash,
        )
        if ended.ok and batch is None:
            run.acknowledged.add(number)
        return ended

    async def _forge(self, run: Run) -> None:
        """Send something else under a number that is taken."""
        if run.acknowledged:
            number = self.chance.choice(sorted(run.acknowledged))
            change = {"op": "put", "key": "forged", "content": number, "scope": SHARED, "visibility": "shareable"}
            await self.submit(run, number, _batch(run, number, [change], ["0"]))

    async def _ask(self, run: Run) -> None:
        if run.acknowledged:
            await self._outcome(run, self.chance.choice(sorted(run.acknowledged)))

    async def _outcome(self, run: Run, number: int) -> None:
        await self.history.ask(
            self.name,
            "outcome",
            self.client.batch(self.town.namespace, run.branch.branch_id, number),
            lambda ack: {
                "ack": ack.ack,
                "receipt": ack.receipt_id,
                "job": getattr(ack, "job_id", None),
                "generation": getattr(ack, "generation", None),
            },
            branch=run.branch.branch_id,
            sequence=number,
        )

    async def complete(self, run: Run) -> None:
        """Have every batch acknowledged, then say that this was all."""
        for number in range(1, len(run.outbox) + 1):
            while number not in run.acknowledged:
                ended = await self.submit(run, number)
                if not ended.ok:
                    if self.town.ending.is_set() and ended.phase != "unknown":
                        break
                    await asyncio.sleep(PAUSE)
        branch = run.branch
        completion = RunCompletion(
            run_id=branch.run_id,
            branch_id=branch.branch_id,
            agent_id=branch.agent_id,
            baseline_id=branch.parent_snapshot_id,
            last_submitted_sequence=len(run.outbox),
            delta_hash=content_hash([]),
        )
        ended = await self.history.ask(
            self.name,
            "complete",
            self.client.complete(self.town.namespace, branch.branch_id, completion),
            branch=branch.branch_id,
            last=len(run.outbox),
        )
        run.completed = run.completed or ended.ok

    # Its private overlay.

    async def _write(self, run: Run) -> None:
        """Write over what it knows; who does not know how the last attempt ended looks first."""
        if run.completed:
            return
        key = f"note/{self.chance.randrange(3)}"
        if run.private.setdefault(key, 0) is None:
            await self._read_key(run, key)
        over = run.private[key]
        if over is None:
            return
        self._written += 1
        value = f"secret of {self.name} {self._written}"
        condition: dict[str, Any] = {"if_match": str(over)} if over else {"if_none_match": True}
        ended = await self.history.ask(
            self.name,
            "put_private",
            self.client.put_private(self.town.namespace, run.branch.branch_id, key, value, **condition),
            lambda record: {"revision": int(record.revision)},
            branch=run.branch.branch_id,
            key=key,
            value=value,
            over=over,
        )
        run.private[key] = int(ended.value.revision) if ended.value is not None else None

    async def _read(self, run: Run) -> None:
        if run.private:
            await self._read_key(run, self.chance.choice(sorted(run.private)))

    async def _read_key(self, run: Run, key: str) -> None:
        ended = await self.history.ask(
            self.name,
            "get_private",
            self.client.get_private(self.town.namespace, run.branch.branch_id, key),
            lambda record: {"revision": int(record.revision), "value": record.content},
            branch=run.branch.branch_id,
            key=key,
        )
        if ended.value is not None:
            run.private[key] = int(ended.value.revision)
        elif ended.phase == "refused" and ended.error is not None and ended.error.status == 404:
            run.private[key] = 0

    async def _look(self, run: Run) -> None:
        """Read a record as the branch sees it: its parent never moves under it."""
        key = self.chance.choice(CONTENDED)
        await self.history.ask(
            self.name,
            "record",
            self.client.view(self.town.namespace, run.branch.branch_id, key, layer="base"),
            lambda record: {"revision": record.revision, "hash": record.content_hash},
            baseline=_baseline(run),
            generation=run.branch.parent.generation,
            key=key,
        )


def _baseline(run: Run) -> str:
    return run.branch.baseline.rpartition("/")[2]


def _batch(run: Run, number: int, changes: list[dict[str, Any]], bases: list[str]) -> FindingBatch:
    unsigned = {
        "branch_id": run.branch.branch_id,
        "sequence": number,
        "changes": changes,
        "source_locators": [[run.evidence]] * len(changes),
        "base_revisions": bases,
    }
    return FindingBatch.model_validate({**unsigned, "content_hash": batch_hash(unsigned)})
