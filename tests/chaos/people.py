"""Everybody else in a town: who decides, pins and restores, who reads and follows, and who tries to see too much."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from tests.chaos.agents import PAUSE
from tests.chaos.town import BASELINES, CONTENDED

from anabranch.model.errors import GoneError, UnavailableError
from anabranch.model.requests import DecisionRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from tests.chaos.town import Town

    from anabranch.client import AnabranchClient
    from anabranch.client.follow import Followed
    from anabranch.model.objects import BaselineManifest, ConsolidationJob, KnowledgeCandidate, SharedEvent


class Person:
    """Somebody with a token, and habits of their own."""

    def __init__(self, town: Town, name: str) -> None:
        self.town = town
        self.name = name
        self.history = town.history
        self.client: AnabranchClient = town.client(name)
        self.chance = town.chance(name)

    async def rest(self, longest: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, longest))


class Reviewer(Person):
    """Decides on what waits, over HTTP; somebody else may decide on the same at the same time."""

    async def work(self) -> None:
        while not self.town.ending.is_set():
            await self.decide(sometimes=True)
            await self.rest(0.6)

    async def decide(self, *, sometimes: bool = False) -> int:
        """Decide on what waits, on all of it or on some; how many decisions were acknowledged."""
        done = 0
        listed = self.history.ask(self.name, "jobs", self._waiting())
        for job in (await listed).value or ():
            if sometimes and self.chance.random() < 0.4:
                continue
            shown = await self.history.ask(self.name, "candidates", self._candidates(job.job_id), job=job.job_id)
            for candidate in shown.value or ():
                if candidate.state == "waiting":
                    done += await self._decide(job, candidate)
        return done

    async def _decide(self, job: ConsolidationJob, candidate: KnowledgeCandidate) -> bool:
        action = "accept" if self.chance.random() < 0.7 else "reject"
        base = candidate.canonical.revision if candidate.canonical is not None else "0"
        decision = DecisionRequest(
            candidate_id=candidate.candidate_id,
            content_hash=candidate.content_hash or "",
            base_revision=base,
            action=action,
        )
        ended = await self.history.ask(
            self.name,
            "decide",
            self.client.review(self.town.namespace, job.job_id, [decision]),
            job=job.job_id,
            candidate=candidate.candidate_id,
            action=action,
        )
        return ended.ok

    async def _waiting(self) -> list[ConsolidationJob]:
        return [job async for job in self.client.jobs(self.town.namespace, state="awaiting_review")]

    async def _candidates(self, job: str) -> list[KnowledgeCandidate]:
        return [candidate async for candidate in self.client.candidates(self.town.namespace, job)]


class ReviewerByResource(Reviewer):
    """Decides by writing into the job's resource, as `kubectl patch` and the review page do."""

    async def _decide(self, job: ConsolidationJob, candidate: KnowledgeCandidate) -> bool:
        decision = {
            "candidateId": candidate.candidate_id,
            "contentHash": candidate.content_hash,
            "baseRevision": candidate.canonical.revision if candidate.canonical is not None else "0",
            "action": "accept" if self.chance.random() < 0.7 else "reject",
        }
        reviews = [{"reviewer": self.town.user(self.name), "decisions": [decision]}]
        done = await self.town.patch("consolidationjobs", job.name, {"reviews": reviews}, person=self.name)
        if done:
            self.history.see(self.name, "applied", job=job.job_id, candidate=candidate.candidate_id)
        return done


class Publisher(Person):
    """Rolls back for a moment, and restores, as a commit to a repository of Baselines does."""

    async def work(self) -> None:
        number = 0
        while not self.town.ending.is_set():
            await self.rest(6)
            number += 1
            baseline = self.chance.choice([*BASELINES])
            generation = self.chance.choice(sorted(self.town.generations[baseline])[-8:])
            if self.chance.random() < 0.6:
                self.history.see(self.name, "pin", baseline=baseline, to=generation)
                await self.town.patch("baselines", baseline, {"pin": {"generation": generation}, "restore": None})
                await self.rest(1.5)
                await self.town.patch("baselines", baseline, {"pin": None})
            else:
                self.history.see(self.name, "restore", baseline=baseline, to=generation)
                restore = {"generation": generation, "id": f"restore-{number}"}
                await self.town.patch("baselines", baseline, {"pin": None, "restore": restore})
        await self.settle()

    async def settle(self) -> None:
        for baseline in BASELINES:
            while not await self.town.patch("baselines", baseline, {"pin": None}):  # noqa: ASYNC110  (nobody tells when to retry)
                await asyncio.sleep(PAUSE)


class Reader(Person):
    """Reads generations whole, new ones and old ones, again and again."""

    async def work(self) -> None:
        while not self.town.ending.is_set():
            baseline = self.chance.choice([*BASELINES])
            known = sorted(self.town.generations[baseline])
            ref = self.chance.choice(["current", known[-1], self.chance.choice(known)])
            if (manifest := await self.manifest(baseline, ref)) is not None:
                self.town.generations[baseline].add(manifest.generation)
                await self.records(baseline, manifest.generation)
                key = self.chance.choice(CONTENDED)
                await self.history.ask(
                    self.name,
                    "record",
                    self.client.record(self.town.namespace, baseline, key, ref=manifest.generation),
                    lambda record: {"revision": record.revision, "hash": record.content_hash},
                    baseline=baseline,
                    generation=manifest.generation,
                    key=key,
                )
            await self.rest(0.4)

    async def manifest(self, baseline: str, ref: str | int) -> BaselineManifest | None:
        ended = await self.history.ask(
            self.name,
            "manifest",
            self.client.manifest(self.town.namespace, baseline, ref),
            lambda manifest: {"generation": manifest.generation, "hash": manifest.manifest_hash},
            baseline=baseline,
            ref=ref,
        )
        return ended.value

    async def records(
        self, baseline: str, generation: int, *, scopes: list[str] | None = None
    ) -> dict[str, str] | None:
        async def whole() -> dict[str, str]:
            pages = self.client.records(self.town.namespace, baseline, generation)
            return {record.key: record.content_hash async for record in pages}

        ended = await self.history.ask(
            self.name,
            "records",
            whole(),
            lambda records: {"records": records},
            baseline=baseline,
            generation=generation,
            scopes=scopes,
        )
        return ended.value


class Follower(Reader):
    """Follows one Baseline, by streams or polls, and keeps what it says; goes on from its place after each break.

    Args:
        town: Where.
        name: Its account.
        baseline: What it follows.
        poll: Whether by polls; None: now by polls, now by streams.
        scopes: What it may read; None: everything.
    """

    def __init__(
        self, town: Town, name: str, *, baseline: str, poll: bool | None, scopes: list[str] | None = None
    ) -> None:
        super().__init__(town, name)
        self.baseline = baseline
        self.poll = poll
        self.scopes = scopes
        self.overlay: dict[str, str] | None = None
        self.cursor: str | None = None
        self.sequence = 0
        self._stream = 0

    async def work(self) -> None:
        """Follow for ever; it is cancelled at the end."""
        while True:
            self._stream += 1
            try:
                await self._begin()
                await self._follow(self.chance.uniform(0.5, 20))
            except GoneError:
                self.overlay = None
            except UnavailableError:
                await asyncio.sleep(PAUSE)

    async def _begin(self) -> None:
        """Read a snapshot, unless there is one."""
        while self.overlay is None:
            if (manifest := await self.manifest(self.baseline, "current")) is not None:
                self.overlay = await self.records(self.baseline, manifest.generation, scopes=self.scopes)
                self.cursor, self._from = None, manifest.generation
            await self.rest(PAUSE)

    async def _follow(self, seconds: float) -> None:
        """Take over what comes, for a while; whoever begins anew then says where they were."""
        place: dict[str, Any] = {"after": self.cursor} if self.cursor else {"generation": self._from}
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        pending: list[SharedEvent] = []
        async with contextlib.aclosing(self._items(place)) as items:
            while clock() < until:
                try:
                    async with asyncio.timeout_at(until):
                        item = await anext(items)
                except (TimeoutError, StopAsyncIteration):
                    return
                if item.event is not None:
                    pending.append(item.event)
                if item.cursor is not None:
                    await self._take(pending, item.cursor)
                    pending = []

    def _items(self, place: dict[str, Any]) -> AsyncGenerator[Followed]:
        poll = self.chance.random() < 0.5 if self.poll is None else self.poll
        return self.client.follow(self.town.namespace, self.baseline, poll=poll, patience=3, **place)

    async def _take(self, events: list[SharedEvent], cursor: str) -> None:
        """Apply events and note the place, both or none."""
        assert self.overlay is not None
        overlay = dict(self.overlay)
        for event in events:
            self.history.see(
                self.name,
                "event",
                baseline=self.baseline,
                follower=self.name,
                stream=self._stream,
                sequence=event.sequence,
                event=event.event_id,
                kind=event.kind,
                key=event.key,
                generation=event.generation,
                partial=self.scopes,
            )
            if event.kind in ("rollback", "resumed", "restored"):
                overlay = dict(await self._snapshot(event.generation))  # what was read stays as it was
            elif event.kind == "tombstone":
                overlay.pop(event.key or "", None)
            elif event.kind == "published" and event.key and event.content_hash:
                overlay[event.key] = event.content_hash
            self.sequence = event.sequence
        self.overlay, self.cursor = overlay, cursor

    async def _snapshot(self, generation: int) -> dict[str, str]:
        while True:
            if (records := await self.records(self.baseline, generation, scopes=self.scopes)) is not None:
                return records
            await asyncio.sleep(PAUSE)

    async def settle(self, watermark: int) -> None:
        """Take over what is left, by polls, and say what that makes."""
        await self._begin()
        self._stream += 1
        while True:
            place: dict[str, Any] = {"after": self.cursor} if self.cursor else {"generation": self._from}
            page = await self.history.ask(
                self.name, "poll", self.client.events(self.town.namespace, self.baseline, **place)
            )
            if page.value is None:
                if isinstance(page.error, GoneError):
                    self.overlay = None
                    await self._begin()
                await asyncio.sleep(PAUSE)
                continue
            await self._take([*page.value.events], page.value.cursor)
            if not page.value.events and page.value.watermark >= watermark:
                break
        self.history.see(
            self.name,
            "overlay",
            baseline=self.baseline,
            scopes=self.scopes,
            sequence=page.value.watermark,
            records=self.overlay,
        )


class Spy(Person):
    """Asks for what is others' own, under names that are right."""

    async def work(self) -> None:
        while not self.town.ending.is_set():
            if self.town.branches:
                owner, branch = self.chance.choice(self.town.branches)
                place = (self.town.namespace, branch.branch_id)

                async def listed(place: tuple[str, str] = place) -> list[Any]:
                    return [record async for record in self.client.private_records(*place)]

                ways: dict[str, Callable[[], Any]] = {
                    "record": lambda place=place: self.client.get_private(*place, "note/0"),
                    "records": listed,
                    "view": lambda place=place: self.client.view(*place, "note/0"),
                    "evidence": lambda place=place: self.client.get_evidence(*place, f"sha256:{'0' * 64}"),
                    "batch": lambda place=place: self.client.batch(*place, 1),
                    "search": lambda place=place: self.client.search_branch(*place, "secret"),
                }
                where = self.chance.choice(sorted(ways))
                await self.history.ask(
                    self.name, "spy", ways[where](), owner=owner, branch=branch.branch_id, where=where
                )
            await self.rest(0.5)
