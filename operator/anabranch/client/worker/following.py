"""Follows the line's feed for a worker: what has come, and what it brings, into the file.

Events name records, they do not carry them. Each is read at the generation that the event speaks of; where that is
pruned by now, at the current one, which has it or something newer. An event that moves the whole line brings the
difference between the parent snapshot and the generation that it leads to; so does a feed that no longer reaches back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from anabranch.client.worker import layers, shared
from anabranch.client.worker.shared import Change, Incoming
from anabranch.model.errors import GoneError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.model.answers import DiffEntry
    from anabranch.model.objects import PublishedFact, SharedEvent

REBUILDS: Final = frozenset({"rollback", "resumed", "restored"})

_AT_ONCE: Final = 8
"""Records that are read at the same time."""

_CHUNK: Final = 256
"""Records of a rebuild that are held in memory."""


class Follower:
    """Follows for one worker.

    Args:
        file: The worker's.
        client: Of the API.
        namespace: Of the Baseline.
        name: Of the Baseline.
    """

    def __init__(self, file: WorkerFile, client: AnabranchClient, *, namespace: str, name: str) -> None:
        self._file = file
        self._client = client
        self._namespace = namespace
        self._name = name

    async def receive(self, *, apply: bool) -> tuple[int, int, bool]:
        """Receive a page of events.

        Args:
            apply: Whether to apply them, and what is held.

        Returns:
            How many came, how many were applied, and whether there may be more at once.

        Raises:
            AnabranchError: If the API cannot be reached, or does not let the agent follow.
        """
        place = await self.place()
        try:
            page = await self._client.events(self._namespace, self._name, **place, limit=_CHUNK)
        except GoneError as error:
            if error.code != "CursorExpired":
                raise
            return await self._start_over(error, apply=apply)
        came, applied = await self.take(page.events, cursor=page.cursor, apply=apply)
        return came, applied, len(page.events) == _CHUNK

    async def take(self, events: Sequence[SharedEvent], *, cursor: str, apply: bool) -> tuple[int, int]:
        """Take events that have come, those that came before left out.

        Args:
            events: In order.
            cursor: The place behind them.
            apply: Whether to apply them, and what is held.

        Returns:
            How many are new, and how many were applied.

        Raises:
            AnabranchError: If what they bring cannot be read.
        """
        received = (await self._file.read(layers.run))["received"]
        incoming = [await self._stage(event) for event in events if event.sequence > received]
        applied = await self._file.write(shared.receive, incoming, cursor=cursor, apply=apply)
        return len(incoming), applied

    async def place(self) -> dict[str, Any]:
        """Where to go on, as the API's calls take it: after a cursor, or behind a generation."""
        at = await self._file.read(layers.run)
        return {"generation": at["start"]} if at["cursor"] is None else {"after": at["cursor"]}

    async def stage_difference(self, sequence: int, *, base: int, to: int | str) -> None:
        """Stage, as what an event brings, how a generation differs from a snapshot.

        Args:
            sequence: Of the event, or a number that is none's.
            base: Generation of the snapshot.
            to: The other one.

        Raises:
            GoneError: If one of them is pruned.
        """
        await self._file.write(shared.begin, sequence)
        async for changes in self._difference(base, to):
            await self._file.write(shared.stage, sequence, changes)

    async def _stage(self, event: SharedEvent) -> Incoming:
        rebuilds = event.kind in REBUILDS
        if rebuilds:
            base = await self._base()
            try:
                await self.stage_difference(event.sequence, base=base, to=event.generation)
            except GoneError:
                await self.stage_difference(event.sequence, base=base, to="current")
        else:
            await self._file.write(shared.begin, event.sequence)
            if (change := await self._change(event)) is not None:
                await self._file.write(shared.stage, event.sequence, [change])
        return Incoming(sequence=event.sequence, event=event, generation=event.generation, rebuilds=rebuilds)

    async def _change(self, event: SharedEvent) -> Change | None:
        """What an event about one record brings; None: nothing, or nothing that the agent may see any more."""
        if event.kind == "superseded" or event.key is None or event.revision is None or event.scope is None:
            return None
        revision = int(event.revision)
        if event.kind == "tombstone":
            return Change(key=event.key, revision=revision, scope=event.scope, fact=None)
        fact = await self._record(event.key, event.generation)
        if fact is None or int(fact.revision) < revision:
            return None  # a later event says what became of it
        return _of_fact(fact)

    async def _start_over(self, expired: GoneError, *, apply: bool) -> tuple[int, int, bool]:
        """Put a snapshot in the place of what was missed."""
        generation, sequence = int(expired.extra["snapshot"]["generation"]), int(expired.extra["watermark"])
        await self.stage_difference(sequence, base=await self._base(), to=generation)
        incoming = Incoming(sequence=sequence, event=None, generation=generation, rebuilds=True)
        applied = await self._file.write(shared.receive, [incoming], cursor=expired.extra["cursor"], apply=apply)
        return 1, applied, True

    async def _base(self) -> int:
        row = await self._file.read(layers.run)
        return int(row["start"] if row["base"] is None else row["base"])

    async def _difference(self, base: int, to: int | str) -> AsyncIterator[list[Change]]:
        generation = (await self._client.manifest(self._namespace, self._name, to)).generation
        if generation == base:
            return
        entries: list[DiffEntry] = []
        found = self._client.diff(self._namespace, self._name, from_generation=base, to_generation=generation)
        async for entry in found:
            entries.append(entry)
            if len(entries) == _CHUNK:
                yield await self._contents(entries, generation)
                entries = []
        if entries:
            yield await self._contents(entries, generation)

    async def _contents(self, entries: Sequence[DiffEntry], generation: int) -> list[Change]:
        changes, live = [], []
        for entry in entries:
            if entry.after is None and entry.before is not None:
                changes.append(Change(key=entry.key, revision=0, scope=entry.before.scope, fact=None))
            elif entry.after is not None and entry.after.tombstone:
                after = entry.after
                changes.append(Change(key=entry.key, revision=int(after.revision), scope=after.scope, fact=None))
            else:
                live.append(entry.key)
        for start in range(0, len(live), _AT_ONCE):
            keys = live[start : start + _AT_ONCE]
            facts = await asyncio.gather(*(self._record(key, generation) for key in keys))
            changes += [_of_fact(fact) for fact in facts if fact is not None]
        return changes

    async def _record(self, key: str, generation: int) -> PublishedFact | None:
        """A record as of a generation, or of the current one where that is pruned; None: absent, or not to be seen."""
        try:
            try:
                return await self._client.record(self._namespace, self._name, key, ref=generation)
            except GoneError:
                return await self._client.record(self._namespace, self._name, key)
        except NotFoundError:
            return None


def _of_fact(fact: PublishedFact) -> Change:
    return Change(key=fact.key, revision=int(fact.revision), scope=fact.scope, fact=None if fact.tombstone else fact)
