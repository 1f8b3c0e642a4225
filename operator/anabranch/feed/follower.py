"""One follower of a stream: first what it missed, read for it alone, then what is read for all of its line.

What waits for it is bounded in events and in bytes. A follower that does not keep up is let go and replays from its
cursor, at its own pace: it costs the others neither memory nor time. What waits is shared with the other followers of
the line, so a queue costs little more than its length.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.feed.ends import GrantsChangedError, SlowConsumerError
from anabranch.model.errors import AnabranchError
from anabranch.model.limits import FOLLOWER_BYTES, FOLLOWER_EVENTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anabranch.feed.audience import Audience
    from anabranch.feed.channel import Channel
    from anabranch.feed.cursor import Position

IDENTIFY_SECONDS: Final = 60.0
"""At most so long after it was looked at last, a follower's token is looked at again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An event as it goes over the wire, made once for all followers.

    Attributes:
        sequence: Of the event.
        scope: Whose readers get it; None for all.
        body: The bytes.
        traceparent: Of the publication that it tells of.
    """

    sequence: int
    scope: str | None
    body: bytes
    traceparent: str | None = None


class Follower:
    """One stream.

    Attributes:
        channel: The line that it follows.
        audience: Those who may see the same.
        told: Sequence up to which it was given everything that it may see.
        marked: Sequence of the last cursor that it was given.
        live: Whether it gets what is read for all; else it reads for itself.
        lag: Events that it was behind when it began.
        error: Why it ended; None while it goes on, or if it left by itself.
        on_end: Called once when it ends.
        write: Sends something at once, if the client has taken all before it, and says whether it did; None: nothing is
            sent but what is taken. To wake a task for each of a thousand followers takes longer than all the rest.
        wrote_at: When it was given something last.
    """

    __slots__ = (
        "_bytes",
        "_clock",
        "_events",
        "_identify",
        "_identify_at",
        "_is_over",
        "_queue",
        "_start",
        "_waits",
        "_wake",
        "audience",
        "channel",
        "error",
        "lag",
        "live",
        "marked",
        "on_end",
        "told",
        "write",
        "wrote_at",
    )

    def __init__(
        self,
        channel: Channel,
        audience: Audience[Follower],
        *,
        start: Position | None,
        identify: Callable[[], Awaitable[None]],
    ) -> None:
        self.channel = channel
        self.audience = audience
        self.told = start.sequence if start else 0
        self.marked = -1
        self.live = False
        self.lag = 0
        self.error: AnabranchError | None = None
        self.on_end: Callable[[], None] | None = None
        self.write: Callable[[bytes], bool] | None = None
        self._clock = asyncio.get_running_loop().time
        self.wrote_at = self._clock()
        self._start = start
        self._identify = identify
        self._identify_at = self.wrote_at + _some(IDENTIFY_SECONDS)
        self._is_over = False
        self._waits = False  # for something to take
        self._wake = asyncio.Event()
        self._queue: deque[tuple[bytes, int, frozenset[str]]] = deque()  # bytes, events, scopes that they may be of
        self._events = 0
        self._bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for it."""
        return not self._queue

    async def begin(self) -> None:
        """Read the first of what it missed.

        Raises:
            CursorExpiredError: If the feed does not reach back to where it is.
            AnabranchError: If it may not follow, or nobody can say.
        """
        await self._replay()

    async def take(self) -> bytes | None:
        """What to send next, once there is something; None: it is over, and `error` says why.

        Nothing is given while it is unsure whether the follower may still see it.
        """
        while not self._is_over:
            if self._queue and self.audience.is_sure():
                body, events, shows = self._queue.popleft()
                if not shows <= self.audience.readable:
                    self.end(
                        GrantsChangedError(
                            "You may not read all scopes any more that you could read.",
                            hint="Go on after the last cursor: what you may see still comes from there.",
                        )
                    )
                    return None
                self._events -= events
                self._bytes -= len(body)
                return body
            if self.live or self._queue:
                self._wake.clear()
                self._waits = True
                await self._wake.wait()
                self._waits = False
                continue
            try:
                await self._replay()
            except AnabranchError as error:
                self.end(error)
        return None

    def push(self, frames: Sequence[Frame], body: bytes) -> None:
        """Give it events that were read for all.

        Args:
            frames: Those that it may see, in order.
            body: All of them.
        """
        if self.told >= frames[0].sequence:  # it has read ahead of the others
            frames = [frame for frame in frames if frame.sequence > self.told]
            body = b"".join(frame.body for frame in frames)
        if not frames:
            return
        self.told = self.marked = frames[-1].sequence
        if self._sent(body):
            return
        full = self._events + len(frames) > FOLLOWER_EVENTS or self._bytes + len(body) > FOLLOWER_BYTES
        if full and self._queue:  # who has nothing waiting takes one look's events, however long their keys are
            self.end(
                SlowConsumerError(
                    f"More than {FOLLOWER_EVENTS} events or {FOLLOWER_BYTES} bytes wait for you.",
                    hint="Go on after the last cursor: what you missed comes as fast as you read it.",
                )
            )
            return
        self._put(body, len(frames), shows=self.audience.readable)

    def mark(self, sequence: int, body: bytes) -> None:
        """Give it a cursor that is newer than its last one, and nothing to see."""
        self.told = self.marked = sequence
        self._put(body, 1)

    def beat(self, body: bytes) -> None:
        """Give it something that says only that the stream lives."""
        self._put(body, 0)

    def end(self, error: AnabranchError | None) -> None:
        """End it; what still waits for it is forgotten."""
        if self._is_over:
            return
        self._is_over = True
        self.error = error
        self._queue.clear()
        self._wake.set()
        if self.on_end is not None:
            self.on_end()

    def wake(self) -> None:
        """Let it look again."""
        self._wake.set()

    def close(self) -> None:
        """Forget it: it gets nothing any more."""
        self.end(None)
        self.channel.leave(self)

    def due(self, now: float) -> bool:
        """Whether its token is to be looked at again; then not again for a while."""
        if now < self._identify_at:
            return False
        self._identify_at = now + _some(IDENTIFY_SECONDS)
        return True

    async def identify(self) -> None:
        """Look at its token again.

        Raises:
            UnauthenticatedError: If it is not good any more.
            UnavailableError: If nobody says.
        """
        await self._identify()

    async def _replay(self) -> None:
        """Read the next events that it missed; once there are none it is live.

        Raises:
            CursorExpiredError: If they are not kept.
        """
        page = await self.channel.missed(self._start, audience=self.audience)
        if self._is_over:
            return
        self.lag = max(self.lag, page.watermark - self.told)
        self._start, self.told = page.end, page.end.sequence
        if page.frames:
            self.marked = page.frames[-1].sequence
        body = b"".join(frame.body for frame in page.frames)
        if page.is_last and self.channel.join(self, page.end):
            # It says that nothing is missing now, and gives a cursor to whoever has none yet.
            self.marked = self.told
            body += self.channel.bookmark(page.end)
        if body:
            self._put(body, len(page.frames), shows=self.audience.readable)

    def _sent(self, body: bytes) -> bool:
        """Whether something could be sent past the queue: if nothing is in it, and what was taken of it is sent."""
        if self.write is None or not self._waits or self._queue or self._is_over:
            return False
        if not (self.audience.is_sure() and self.write(body)):
            return False
        self.wrote_at = self._clock()
        return True

    def _put(self, body: bytes, events: int, *, shows: frozenset[str] = frozenset()) -> None:
        """Let something wait for it, which may be of these scopes."""
        if self._is_over:
            return
        self._queue.append((body, events, shows))
        self._events += events
        self._bytes += len(body)
        self.wrote_at = self._clock()
        self._wake.set()


def _some(seconds: float) -> float:
    """Most of some seconds, so that those who came together are not looked at together for ever."""
    return seconds * random.uniform(0.7, 1.0)  # noqa: S311  (it spreads questions, it keeps no secret)
