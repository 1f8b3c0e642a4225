"""One line's live feed in this process: read once, however many follow, and handed to each of them as bytes.

What is read is made into bytes once; each follower gets those that its scopes show. A follower joins when it has read
as far as the others: between looking how far they are and joining nothing is awaited, so nothing is missed and nothing
comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from anabranch.feed.audience import Audience
from anabranch.feed.delivery import delivered, told
from anabranch.feed.ends import ending, unverifiable
from anabranch.feed.follower import Follower
from anabranch.feed.reel import Missed, Reel
from anabranch.feed.waking import POLL_SECONDS
from anabranch.identity.permissions import absent
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.store import lines
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence

    from anabranch.domain.cursor import Sealer
    from anabranch.feed.audience import Readable
    from anabranch.feed.cursor import Position
    from anabranch.feed.follower import Frame
    from anabranch.feed.reel import Wire
    from anabranch.feed.waking import Waking
    from anabranch.store.database import Database

TICK_SECONDS: Final = 3.0
"""How often hidden events move the cursors of those who do not see them, and what has to be asked again is."""

BEAT_SECONDS: Final = 15.0
_SETTLE_SECONDS: Final = 0.25
_LEARN_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


class Channel:
    """The followers of a line.

    Args:
        line: Its id.
        db: The store.
        sealer: Makes the cursor that leads back who is lost.
        waking: Says when to look.
        wire: Makes bytes of events.
        closed: Called when the last follower has left, or all were let go.
    """

    def __init__(  # noqa: PLR0913  (all but the line by keyword)
        self,
        line: str,
        *,
        db: Database,
        sealer: Sealer,
        waking: Waking,
        wire: Wire,
        closed: Callable[[Channel], None],
    ) -> None:
        self.line = line
        self._db = db
        self._waking = waking
        self._wire = wire
        self._reel = Reel(line, db=db, sealer=sealer, wire=wire)
        self._closed = closed
        self._clock = asyncio.get_running_loop().time
        self._audiences: dict[Hashable, Audience[Follower]] = {}
        self._live: set[Follower] = set()
        self._at: Position | None = None
        self._task: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._ticked_at = self._clock()

    def __len__(self) -> int:
        """How many follow."""
        return sum(len(audience.followers) for audience in self._audiences.values())

    def count(self, who: str) -> int:
        """How many follow by a name."""
        return sum(len(audience.followers) for audience in self._audiences.values() if audience.who == who)

    def follower(
        self,
        key: Hashable,
        readable: Readable,
        *,
        who: str,
        start: Position | None,
        identify: Callable[[], Awaitable[None]],
    ) -> Follower:
        """A new follower, which has read nothing yet.

        Args:
            key: The same for all who may see the same.
            readable: Asks what that is.
            who: Their name.
            start: Where it is; None: at the beginning of what is kept.
            identify: Looks at its token again.
        """
        audience = self._audiences.get(key)
        if audience is None or audience.is_over:
            audience = self._audiences[key] = Audience[Follower](key, readable, who=who)
        follower = Follower(self, audience, start=start, identify=identify)
        audience.followers.add(follower)
        return follower

    async def missed(self, start: Position | None, *, audience: Audience[Follower]) -> Missed:
        """What comes after a place, as much as is read at once.

        Args:
            start: The place; None: the beginning of what is kept.
            audience: Who asks.

        Raises:
            CursorExpiredError: If the feed does not reach back to it.
            AnabranchError: If the audience may not follow, or nobody can say.
        """
        found = self._reel.remembered(start, at=self._at) or await self._reel.read(start)
        scopes = {frame.scope for frame in found.frames if frame.scope is not None}
        if not audience.known:  # ask about all at once: what comes later then need not wait for an answer
            async with self._db.connection() as conn:
                scopes.update(await lines.scopes(conn, self.line))
        await audience.learn(scopes)
        shown = tuple(frame for frame in found.frames if audience.may_see(frame.scope))
        told(self.line, [frame.traceparent for frame in shown])
        return Missed(frames=shown, end=found.end, watermark=found.watermark, is_last=found.is_last)

    def join(self, follower: Follower, end: Position) -> bool:
        """Let a follower have from now on what is read for all, if it has read as far as that.

        Args:
            follower: One of this line's.
            end: How far it has read.

        Raises:
            UnavailableError: If the line was restored from a backup, and the others have not been told yet.
        """
        if self._at is None:
            self._at = end
            self._task = tracing.apart(self._run(), name=f"feed {self.line}")
            self._task.add_done_callback(self._ended)
        elif end.epoch != self._at.epoch:
            raise UnavailableError("The line was restored from a backup just now.", hint="Try again in a moment.")
        elif end.sequence < self._at.sequence:
            return False
        follower.live = True
        self._live.add(follower)
        return True

    def leave(self, follower: Follower) -> None:
        """Forget a follower."""
        audience = follower.audience
        audience.followers.discard(follower)
        self._live.discard(follower)
        if not audience.followers:
            audience.close()
            if self._audiences.get(audience.key) is audience:
                del self._audiences[audience.key]
        if not self._audiences:
            if self._task is not None:
                self._task.cancel()
            self._closed(self)

    def bookmark(self, position: Position) -> bytes:
        """The cursor of a place, as a follower is given it."""
        return self._wire.bookmark(position)

    async def _run(self) -> None:
        with self._waking.subscribed(self.line) as grown:
            while True:
                grown.clear()
                if self._waking.ending:
                    raise ending()
                if await self._look():
                    continue
                await self._tick()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await grown.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Nobody looks any more: let everybody go."""
        self._closed(self)
        if task.cancelled():
            return
        error = task.exception()
        if not isinstance(error, AnabranchError):
            _log.error("The feed of line %s cannot be followed for now.", self.line, exc_info=error)
            error = UnavailableError("The feed cannot be followed for now.", hint="Go on after the last cursor.")
        for audience in list(self._audiences.values()):
            audience.end(error)

    async def _look(self) -> bool:
        """Hand out the next events; whether there may be more.

        Raises:
            AnabranchError: If there is no going on from here.
        """
        at = self._here
        try:
            found = await self._reel.read(at)
        except UnavailableError as error:
            _log.warning("The feed of line %s was not read, trying again: %s", self.line, error)
            return False
        if not found.frames:
            return False
        await self._teach({frame.scope for frame in found.frames if frame.scope is not None})
        # From here on nothing is awaited: whoever joins has read up to before these, or to behind some of them.
        with delivered(self.line, found.frames, followers=len(self._live)):
            self._hand_out(found.frames)
        self._at = found.end
        self._reel.keep(found.frames)
        if not found.is_last:
            await self._settled()
        return not found.is_last

    def _hand_out(self, frames: Sequence[Frame]) -> None:
        made: dict[frozenset[str], tuple[Sequence[Frame], bytes]] = {}
        for audience in self._audiences.values():
            if (shown := made.get(audience.readable)) is None:
                seen = [frame for frame in frames if audience.may_see(frame.scope)]
                shown = made[audience.readable] = (seen, b"".join(frame.body for frame in seen))
            if shown[0]:
                for follower in audience.followers:
                    if follower.live:
                        follower.push(*shown)

    async def _teach(self, scopes: Collection[str]) -> None:
        """Let all who get what is read know which of these scopes they may read, or let them go if they cannot."""
        while strangers := [
            audience
            for audience in self._audiences.values()
            if not (audience.is_over or audience.known.issuperset(scopes)) and audience.is_live
        ]:
            await asyncio.gather(*(_learn(audience, scopes) for audience in strangers))

    async def _settled(self) -> None:
        """Give those who read a moment to take what they were given, before more is read."""
        until = self._clock() + _SETTLE_SECONDS
        # Not by an event of each follower: they would have to tell of every piece, for the sake of the rare long look.
        while self._clock() < until and not all(follower.is_idle for follower in self._live):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _tick(self) -> None:
        """What is due every few seconds.

        Raises:
            NotFoundError: If the Baseline is no more.
        """
        now = self._clock()
        if now - self._ticked_at < TICK_SECONDS:
            return
        self._ticked_at = now
        with contextlib.suppress(UnavailableError):
            async with self._db.connection() as conn:
                row = (await lines.get(conn, self.line)).line
            if row.deleted_at is not None:
                raise absent("baseline", namespace=row.namespace, name=row.name)
        here = self._here
        bookmark = self._wire.bookmark(here)
        for follower in self._live:
            if not follower.is_idle:
                continue
            if follower.marked < here.sequence:
                follower.mark(here.sequence, bookmark)
            elif now - follower.wrote_at >= BEAT_SECONDS:
                follower.beat(self._wire.beat)
        for audience in self._audiences.values():
            for follower in audience.followers:
                if follower.due(now):
                    task = tracing.apart(_identify(follower), name="identity of a follower")
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)

    @property
    def _here(self) -> Position:
        """How far was read for all."""
        if self._at is None:
            raise RuntimeError("nobody has joined")
        return self._at


async def _learn(audience: Audience[Follower], scopes: Collection[str]) -> None:
    try:
        async with asyncio.timeout(_LEARN_SECONDS):
            await audience.learn(scopes)
    except (TimeoutError, UnavailableError):
        audience.end(unverifiable())
    except AnabranchError as error:
        audience.end(error)


async def _identify(follower: Follower) -> None:
    try:
        await follower.identify()
    except UnavailableError:
        return  # whether grants can be asked decides
    except AnabranchError as error:
        follower.end(error)
