"""A bounded poll of a line's feed: what is there, or what comes within a moment.

Nothing is kept between two polls: a cursor says where its holder is. What a follower may see is asked again with each
look, so a revoked grant ends delivery within seconds even while a poll waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from anabranch.feed.cursor import Position, seal
from anabranch.feed.delivery import told
from anabranch.feed.expiry import expired, reaches
from anabranch.feed.waking import POLL_SECONDS
from anabranch.model import answers
from anabranch.model.canonical import hash_text
from anabranch.model.objects import SharedEvent
from anabranch.store import events, lines, manifests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from anabranch.domain.cursor import Sealer
    from anabranch.feed.waking import Waking
    from anabranch.store.database import Database

    Readable: TypeAlias = Callable[[list[str]], Awaitable[list[str]]]


_EVENT_FIELDS: Final = tuple(SharedEvent.model_fields)


class Feed:
    """Reads feeds on behalf of followers.

    Args:
        db: The store.
        sealer: Makes cursors.
        waking: Says when to look.
    """

    def __init__(self, db: Database, sealer: Sealer, waking: Waking) -> None:
        self._db = db
        self._sealer = sealer
        self._waking = waking

    async def poll(
        self, line: str, *, start: Position | None, limit: int, wait: float, readable: Readable
    ) -> answers.EventPage:
        """The events after a place; if there is none to be seen, those that come within a while.

        Args:
            line: The line.
            start: Where the follower is; None: at the beginning of what is kept.
            limit: How many events at most.
            wait: Seconds to wait for a first one.
            readable: Says which of some scopes the follower may read now; raises when it may not follow any more.

        Raises:
            CursorExpiredError: If events after that place were pruned, or given other numbers by a restore from backup.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        with self._waking.subscribed(line) as grown:
            while True:
                grown.clear()
                page = await self._look(line, start=start, limit=limit, readable=readable)
                left = deadline - clock()
                if page.events or left <= 0 or self._waking.ending:
                    return self._wire(line, page)
                # What was hidden is behind the follower; but should the grant come, it is told of what comes then.
                start = Position(page.epoch, page.next_sequence)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_SECONDS)):
                        await grown.wait()

    async def start_after(self, line: str, generation: int | str) -> Position:
        """The place in the feed behind everything that a manifest includes.

        Raises:
            NotFoundError: If there never was such a manifest.
            GoneError: If it was pruned.
        """
        async with self._db.connection() as conn:
            manifest = await manifests.resolve(conn, line=line, ref=generation)
            return Position((await lines.head(conn, line)).epoch, manifest.feed_watermark)

    async def _look(self, line: str, *, start: Position | None, limit: int, readable: Readable) -> events.EventPage:
        async with self._db.connection() as conn:
            asked = await lines.scopes(conn, line)
        while True:
            scopes = await readable(asked)
            async with self._db.connection() as conn:
                page = await events.after(
                    conn, line=line, after_sequence=start.sequence if start else 0, limit=limit, scopes=scopes
                )
                if start is not None and not reaches(page, start):
                    raise await expired(conn, self._sealer, line)
                known = await lines.scopes(conn, line)
            # An event in a scope that was not asked about would be passed over unseen, for good.
            if set(known) <= set(asked):
                return page
            asked = known

    def _wire(self, line: str, page: events.EventPage) -> answers.EventPage:
        told(line, [row.traceparent for row in page.events])
        return answers.EventPage(
            events=tuple(shared_event(row) for row in page.events),
            cursor=seal(self._sealer, line, Position(page.epoch, page.next_sequence)),
            watermark=page.watermark,
            floor=page.floor,
        )


def shared_event(row: events.EventRow) -> SharedEvent:
    """An event as it goes over the wire."""
    values: dict[str, Any] = {name: getattr(row, name) for name in _EVENT_FIELDS}
    values["revision"] = None if row.revision is None else str(row.revision)
    values["content_hash"] = None if row.content_hash is None else hash_text(row.content_hash)
    return SharedEvent.model_construct(**values)
