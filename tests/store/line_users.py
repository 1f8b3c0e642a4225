"""Those who use a line at the same time, as the services do: each waits for the others where these do, and tries again.

What they did is noted, for the log alone cannot tell: which changes a generation made, what a restore went back to.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.store import branching, building
from tests.store.retaining import LONG, promising

from anabranch.baselines import pinning, retention
from anabranch.domain.retention import droppable, oldest_counted
from anabranch.model.crd import Pin
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.store import database, events, lines, manifests, pruning, publish, records, restoring, tombstones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anabranch.store.database import Database

    Changes = Mapping[str, tuple[str, Any]]
    """Scope and content by key; None deletes."""


@dataclass
class LineUsers:
    """Users of one line, and what they did.

    Attributes:
        published: By the generation that they made: the changes and the run.
        restored: By the generation that they made: what they went back to, and the restore id.
        purged: By the generation that they made: the keys, and how far the feed was.
        parents: Of the runs that were forked.
        ended: Runs that are over.
        refused: Generations that somebody was told are gone,
        unknown: and those that somebody was told never were.
        interrupt: What happens in the middle of the next prune.
    """

    db: Database
    line: str
    published: dict[int, tuple[Changes, str]] = field(default_factory=dict)
    restored: dict[int, tuple[int, str]] = field(default_factory=dict)
    purged: dict[int, tuple[list[str], int]] = field(default_factory=dict)
    parents: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    interrupt: Callable[[], Awaitable[None]] | None = None

    async def publish(self, changes: Changes, run: str) -> None:
        """Publish, unless the line is paused."""
        versions = [building.version(key, what, scope=scope, run=run) for key, (scope, what) in changes.items()]
        while True:
            try:
                async with self.db.connection() as conn:
                    head = await lines.head(conn, self.line)
                    prepared = await publish.prepare(conn, head=head, versions=versions)
                async with self.db.transaction() as conn:
                    head = await lines.lock_head(conn, self.line)
                    if head.paused:
                        return
                    manifest = await publish.write_generation(
                        conn,
                        head=head,
                        prepared=prepared,
                        events=[building.event(version) for version in versions],
                        origin={"kind": "publication"},
                    )
            except (publish.HeadMovedError, publish.RestoreUnderWayError):
                await asyncio.sleep(random.random() / 200)
            else:
                self.published[manifest.generation] = (changes, run)
                return

    async def pin(self, generation: int | None) -> None:
        pin = None if generation is None else Pin(generation=generation)
        for told in await pinning.follow_pin(self.db, line=self.line, pin=pin):
            assert generation is not None
            (self.refused if told.reason == "PinTargetPruned" else self.unknown).add(generation)

    async def restore(self, generation: int, restore_id: str) -> None:
        try:
            row = await restoring.restore(self.db, line=self.line, generation=generation, restore_id=restore_id)
        except GoneError:
            self.refused.add(generation)
        except NotFoundError:
            self.unknown.add(generation)
        else:
            self.restored.setdefault(row.generation, (row.from_generation, row.restore_id))

    async def fork(self, generation: int | None, name: str) -> None:
        try:
            async with self.db.transaction() as conn:
                branch = await branching.fork(conn, self.line, name=name, generation=generation)
        except GoneError:
            self.refused.add(generation or 0)
        except NotFoundError:
            self.unknown.add(generation or 0)
        else:
            assert generation in (None, branch.parent_generation)
            self.parents[branch.branch_id] = branch.parent_generation

    async def end(self, branch_id: str) -> None:
        async with self.db.connection() as conn:
            await conn.execute(
                "UPDATE branches SET phase = 'Completed' WHERE line = $1 AND branch_id = $2", self.line, branch_id
            )
        self.ended.add(branch_id)

    async def prune(self, keep: int) -> None:
        """Remove all but so many generations, and those on which somebody stands; slowly at first."""
        policy = promising(generations=keep, events=LONG, completed_runs=LONG, transitions=LONG)
        async with self.db.connection() as conn:
            head = await lines.head(conn, self.line)
            now = await database.now(conn)
            found = await pruning.standings(conn, line=self.line, below=oldest_counted(head, policy), limit=100)
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            await interrupt()
        else:
            await asyncio.sleep(random.random() / 50)  # meanwhile others come to stand on what is chosen
        async with self.db.transaction() as conn:
            chosen = droppable(found, places=head, policy=policy, now=now)
            await pruning.drop(conn, line=self.line, generations=chosen)
        while await retention.retain(self.db, line=self.line, policy=policy):
            pass

    async def purge(self) -> None:
        """Take out the tombstones of which nothing else is left."""
        try:
            async with self.db.connection() as conn:
                now = await database.now(conn)
                planned = await tombstones.plan(conn, line=self.line, overdue=now, expired=now)
            if planned is not None:
                async with self.db.transaction() as conn:
                    manifest = await tombstones.purge(conn, planned=planned)
                if manifest is not None:
                    self.purged[manifest.generation] = (list(planned.keys), manifest.feed_watermark)
        except (GoneError, publish.HeadMovedError, publish.RestoreUnderWayError):
            pass  # another turn of retention does it

    async def read(self, generation: int, expected: dict[str, Any] | None) -> None:
        """Read a generation whole, if need be in pages: it is there as it ever was, or gone, and nothing between."""
        found: dict[str, Any] = {}
        after = ""
        try:
            async with self.db.connection() as conn:
                while True:
                    page = await records.page(
                        conn, line=self.line, generation=generation, after_key=after, limit=20, scopes=None
                    )
                    found.update({row.key: row.body for row in page.records})
                    if len(page.records) < 20:
                        break
                    after = page.records[-1].key
        except GoneError:
            self.refused.add(generation)
        except NotFoundError:
            self.unknown.add(generation)
        else:
            assert expected is None or found == expected, f"generation {generation} is not what it was"


@dataclass
class Follower:
    """Somebody who keeps a copy of what is current, by the feed."""

    db: Database
    line: str
    cursor: int = -1
    copy: dict[str, bytes] = field(default_factory=dict)

    async def look(self, limit: int) -> bool:
        """Apply the next events; whether there may be more."""
        async with self.db.connection() as conn:
            page = await events.after(
                conn, line=self.line, after_sequence=max(self.cursor, 0), limit=limit, scopes=None
            )
        if self.cursor < page.floor:  # a new one, or one for whom the feed does not reach back far enough
            await self._rebuild(forget=True)
            return True
        for event in page.events:
            assert event.sequence == self.cursor + 1
            if event.key is None:
                await self._rebuild(forget=False)
            elif event.kind == "tombstone":
                self.copy.pop(event.key, None)
            else:
                self.copy[event.key] = event.content_hash or b""
            self.cursor = event.sequence
        return len(page.events) == limit

    async def _rebuild(self, *, forget: bool) -> None:
        """Read what is current; also go on from there, if all before is forgotten."""
        async with self.db.transaction(readonly=True, isolation="repeatable_read") as conn:
            head = await lines.head(conn, self.line)
            await manifests.resolve(conn, line=self.line, ref="current")
            page = await records.page(conn, line=self.line, limit=1_000, scopes=None)
        self.copy = {row.key: row.content_hash for row in page.records}
        if forget:
            self.cursor = head.event_sequence
