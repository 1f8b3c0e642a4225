"""``anabranch job review`` on a terminal: one after the other is shown, and a key decides.

It shows what the review page shows, and decides by the same ways: by kubectl as the person, or by the API as a token's
owner. Each decision is made at once and carries what was on the screen; where something has changed meanwhile, nothing
is decided, and the candidate is shown again as it is now.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import click
from rich.console import Console

from anabranch.cli.desk import KubectlDesk
from anabranch.cli.output import hint
from anabranch.cli.screen import Case, Screen
from anabranch.domain.gate import REASONS
from anabranch.model.errors import ConflictError, ForbiddenError, NotFoundError
from anabranch.model.requests import DecisionRequest, GroupDecisionRequest
from anabranch.web.desk import Voice
from anabranch.web.heard import ReasonMissingError, check_heard, noted
from anabranch.web.voices import latest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from anabranch.cli.connection import Connection
    from anabranch.client import AnabranchClient
    from anabranch.model.objects import KnowledgeCandidate
    from anabranch.model.reviewing import CandidateGroup, ReviewEntry

_DONE: Final = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}

_EVIDENCE: Final = 2_048
"""Bytes of a piece of evidence that are shown."""


class Taker(Protocol):
    """Where decisions go."""

    async def decide(self, namespace: str, job: str, decision: DecisionRequest, *, heard: Iterable[Voice]) -> None:
        """Note a decision on a candidate, as `anabranch.web.desk.Desk` does."""

    async def decide_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        """Note a decision on a group, likewise."""


class _ByHttp:
    """Decides by the API, as the token's owner."""

    def __init__(self, client: AnabranchClient) -> None:
        self._client = client

    async def decide(self, namespace: str, job: str, decision: DecisionRequest, *, heard: Iterable[Voice]) -> None:
        check_heard(await noted(self._client, namespace, job, decision), set(heard), person="")
        await self._client.review(namespace, job, [decision])

    async def decide_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        await self._client.review(namespace, job, groups=[decision])


def go_through(connection: Connection, job: str, *, http: bool) -> None:
    """Go through what waits in a job with the person at the terminal.

    Args:
        connection: How the API and the cluster are reached.
        job: The job's name.
        http: Whether to decide by the API, not by kubectl.
    """
    console = Console(highlight=False, soft_wrap=False)

    async def run() -> dict[str, int]:
        async with _ways(connection, http=http) as (client, taker):
            return await Rounds(client, taker, connection.namespace, job, Screen(console)).go()

    counts = asyncio.run(run())
    told = ", ".join(f"{count} {_DONE[outcome]}" for outcome, count in counts.items() if count)
    click.echo(f"{told or 'Nothing decided'} in {job}." if counts else f"Nothing waits for a decision in {job}.")
    if counts:
        hint(f"What comes of it: anabranch job show {job} -n {connection.namespace}")


@asynccontextmanager
async def _ways(connection: Connection, *, http: bool) -> AsyncIterator[tuple[AnabranchClient, Taker]]:
    if http:
        async with connection.client() as client:
            yield client, _ByHttp(client)
        return
    desk = KubectlDesk(connection)
    try:
        async with desk.client() as client:
            yield client, desk
    finally:
        await desk.close()


class Rounds:
    """One person's way through a job.

    Args:
        client: Reads.
        taker: Takes decisions.
        namespace: Of the job.
        job: Its name.
        screen: Shows, and asks.
    """

    def __init__(self, client: AnabranchClient, taker: Taker, namespace: str, job: str, screen: Screen) -> None:
        self._client = client
        self._taker = taker
        self._place = (namespace, job)
        self._screen = screen
        self._counts = dict.fromkeys(_DONE, 0)
        self._seen: set[str] = set()
        self._singly: set[str] = set()

    async def go(self) -> dict[str, int]:
        """Show what waits until all was seen, or the person has enough.

        Returns:
            How many went which way; empty where nothing waits.
        """
        any_shown = False
        while (case := await self._next()) is not None:
            any_shown = True
            if not await self._settle(case):
                break
        return self._counts if any_shown else {}

    async def _next(self) -> Case | None:
        """What to show next, as it is now: the first that waits and was not seen."""
        found = {each.candidate_id: each async for each in self._client.candidates(*self._place)}
        waiting = [each for each in found.values() if each.state == "waiting"]
        groups = {group.group_id: group for group in await self._client.groups(*self._place)}
        said = await self._client.reviews(*self._place)
        left = [each for each in waiting if each.candidate_id not in self._seen]
        if not left:
            return None
        first = left[0]
        group = groups.get(first.group_id or "")
        if group is not None and (group.members == 1 or group.group_id in self._singly):
            group = None
        return Case(
            candidate=first,
            voices=_voices(said, first),
            place=len(waiting) - len(left) + 1,
            total=len(waiting),
            group=group,
            members=tuple(_members(waiting, group)),
        )

    async def _settle(self, case: Case) -> bool:
        """Have a case decided, or left; whether to go on."""
        self._screen.show(case)
        while True:
            key = self._screen.ask(case)
            if key == "q":
                return False
            if key == "s":
                self._done(case, "skip")
                return True
            if key == "o" and case.group is not None:
                self._singly.add(case.group.group_id)
                return True
            if key == "d":
                self._screen.details(case, await self._evidence(case.candidate))
                continue
            action = "accept" if key == "a" else "reject"
            reason = self._screen.reason(action, held=case.candidate.reason in REASONS)
            if reason is None:  # thought better of it
                continue
            try:
                await self._decide(case, action, reason)
            except (ConflictError, ForbiddenError, NotFoundError, ReasonMissingError) as error:
                self._screen.refused(error)
                if isinstance(error, ForbiddenError):  # it will not be taken from this person, however often
                    self._done(case, "skip")
            else:
                self._done(case, action)
                self._screen.decided(case, action)
            return True

    async def _decide(self, case: Case, action: str, reason: str) -> None:
        if case.group is not None:
            together = {"group_id": case.group.group_id, "digest": case.group.digest, "action": action}
            await self._taker.decide_group(
                *self._place, GroupDecisionRequest.model_validate({**together, "reason": reason})
            )
            return
        seen = {
            "candidate_id": case.candidate.candidate_id,
            "content_hash": case.candidate.content_hash,
            "base_revision": case.base_revision,
            "action": action,
            "reason": reason,
            "hold": case.candidate.hold,
        }
        heard = {Voice(voice.reviewer, voice.action) for voice in case.voices}
        await self._taker.decide(*self._place, DecisionRequest.model_validate(seen), heard=heard)

    def _done(self, case: Case, outcome: str) -> None:
        ids = {member.candidate_id for member in case.members} | {case.candidate.candidate_id}
        self._seen |= ids
        self._counts[outcome] += case.size

    async def _evidence(self, candidate: KnowledgeCandidate) -> dict[str, str]:
        """What the candidate's verified evidence says, the beginning of each, by locator."""
        found: dict[str, str] = {}
        for source in candidate.sources:
            if source.status == "verified" and source.locator.startswith("evidence:"):
                try:
                    body, _ = await self._client.cited_evidence(*self._place, source.locator)
                except NotFoundError:  # the run is over, and retention has removed it
                    continue
                found[source.locator] = body[:_EVIDENCE].decode("utf-8", errors="replace")
        return found


def _voices(said: Iterable[ReviewEntry], candidate: KnowledgeCandidate) -> tuple[ReviewEntry, ...]:
    return tuple(latest(entry for entry in said if entry.candidate_id == candidate.candidate_id))


def _members(waiting: Iterable[KnowledgeCandidate], group: CandidateGroup | None) -> list[KnowledgeCandidate]:
    return [] if group is None else [each for each in waiting if each.group_id == group.group_id]
