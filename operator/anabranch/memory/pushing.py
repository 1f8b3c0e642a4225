"""Streams of agents' events: claimed as there is room for them, and pushed.

A stream claims what it sends, by the statement by which a poll does: so it shares an instance's events with every other
stream and poll of it, and what breaks off comes again. Only so many are out at a time, unacknowledged. Thousands that
wait would else all be claimed at once, and pass their deadlines before the agent came to them.

Nothing is claimed for a client that does not read, nor while it is unsure whether the agent may still have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from anabranch.feed.audience import Audience
from anabranch.feed.ends import FollowersError, ending
from anabranch.memory import delivery, queue
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from datetime import timedelta
    from uuid import UUID

    from anabranch.feed.waking import Waking
    from anabranch.model.agent_events import AgentEvent
    from anabranch.model.memory import AgentKey
    from anabranch.store.database import Database

STREAMS: Final = 4_000
"""Most streams of a process."""

STREAMS_OF_ONE: Final = 16
"""Most streams of one instance in a process: none of them takes another agent's place."""

LOOK_SECONDS: Final = 5.0
"""From one look to the next, where nothing is heard: what was sent back comes again by itself, and a notification may
be lost."""

BEAT_SECONDS: Final = 15.0
IDENTIFY_SECONDS: Final = 60.0
"""At most so long after it was looked at last, a stream's token is looked at again."""

_BEAT: Final = b":\n\n"

_log = logging.getLogger(__name__)


class Push:
    """One stream of an instance's events.

    Attributes:
        live: It is always given what comes.
        error: Why it ended; None while it goes on, or if its client left.
        on_end: Called once when it ends.
        write: Not used: what is claimed is sent only when the client has taken what came before.
    """

    live = True

    def __init__(  # noqa: PLR0913  (all but the agent by keyword)
        self,
        who: AgentKey,
        *,
        db: Database,
        waking: Waking,
        audience: Audience[Push],
        identify: Callable[[], Awaitable[None]],
        window: int,
        visibility: timedelta,
        frame: Callable[[AgentEvent], bytes],
        left: Callable[[Push], None],
    ) -> None:
        self.who = who
        self.audience = audience
        self.error: AnabranchError | None = None
        self.on_end: Callable[[], None] | None = None
        self.write: Callable[[bytes], bool] | None = None
        self._db = db
        self._waking = waking
        self._identify = identify
        self._window = window
        self._visibility = visibility
        self._frame = frame
        self._left = left
        self._clock = asyncio.get_running_loop().time
        self._wrote_at = self._clock()
        self._is_over = False
        self._out: dict[str, UUID] = {}  # claim ids by event id: of what was sent and may not be acknowledged yet
        self._held = b""  # claimed, and not yet sure that it may be sent
        self._exits = contextlib.ExitStack()
        self._wake = self._exits.enter_context(waking.hearing(who.topic))
        self._watch: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Make sure that the agent may have its events.

        Raises:
            AnabranchError: If it may not, or nobody can say.
        """
        await self.audience.learn(())
        self._watch = tracing.apart(self._watch_token(), name="token of an agent")

    async def take(self) -> bytes | None:
        """What to send next, once there is something; None: it is over, and `error` says why."""
        while not self._is_over:
            self._wake.clear()
            if self._waking.ending:
                self.end(ending())
            elif not self.audience.is_sure():
                await self._wake.wait()  # it is told when that is known again, and ended when it is not
            elif self._held or (await self._claim() and self.audience.is_sure()):
                body, self._held = self._held, b""
                return self._written(body)
            elif self._clock() - self._wrote_at >= BEAT_SECONDS:
                return self._written(_BEAT)
            elif not self._held:
                await self._pause()
        return None

    def end(self, error: AnabranchError | None) -> None:
        """End it; what it has claimed and not sent comes again when its time is up."""
        if self._is_over:
            return
        self._is_over = True
        self.error = error
        self._wake.set()
        if self.on_end is not None:
            self.on_end()

    def wake(self) -> None:
        """Let it look again."""
        self._wake.set()

    def close(self) -> None:
        """Forget it."""
        self.end(None)
        self._exits.close()
        if self._watch is not None:
            self._watch.cancel()
        self._left(self)

    async def _claim(self) -> bytes:
        """Claim as many as there is room for, as bytes to send."""
        try:
            if (room := await self._room()) > 0 and not self._is_over:
                claimed = await delivery.claim(self._db, self.who, limit=room, visibility=self._visibility)
                self._out |= {event.id: event.claimid for event in claimed}
                self._held = b"".join(map(self._frame, claimed))
        except UnavailableError as error:
            _log.warning("Events of %s were not read, trying again: %s", self.who, error)
        return self._held

    async def _room(self) -> int:
        """How many may be claimed now."""
        if len(self._out) >= self._window:
            still_out = await queue.out(self._db, self.who, claims=self._out)
            self._out = {event: claim for event, claim in self._out.items() if event in still_out}
        return self._window - len(self._out)

    async def _pause(self) -> None:
        """Wait until there may be something to do."""
        beat_in = self._wrote_at + BEAT_SECONDS - self._clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(LOOK_SECONDS, max(0.0, beat_in))):
                await self._wake.wait()

    def _written(self, body: bytes) -> bytes:
        self._wrote_at = self._clock()
        return body

    async def _watch_token(self) -> None:
        """Look at the token again and again, for as long as the stream lasts."""
        while True:
            pause = IDENTIFY_SECONDS * random.uniform(0.7, 1.0)  # noqa: S311  (it spreads questions, it keeps no secret)
            await asyncio.sleep(pause)
            try:
                await self._identify()
            except UnavailableError:
                continue  # whether grants can be asked decides
            except AnabranchError as error:
                self.end(error)
                return


class Pushes:
    """All streams of agents' events of a process.

    Args:
        db: The store.
        waking: Says when to look.
    """

    def __init__(self, db: Database, waking: Waking) -> None:
        self._db = db
        self._waking = waking
        self._audiences: dict[Hashable, Audience[Push]] = {}
        self._of: Counter[AgentKey] = Counter()

    def __len__(self) -> int:
        """How many there are."""
        return self._of.total()

    def push(  # noqa: PLR0913  (all but the agent by keyword)
        self,
        who: AgentKey,
        *,
        key: Hashable,
        still: Callable[[], Awaitable[object]],
        identify: Callable[[], Awaitable[None]],
        window: int,
        visibility: timedelta,
        frame: Callable[[AgentEvent], bytes],
    ) -> Push:
        """A new stream, which has sent nothing yet, and must be closed.

        Args:
            who: Whose events.
            key: The same for all streams that the same grants decide over.
            still: Asks whether the agent may have its events, of this very moment; raises when not.
            identify: Looks at the stream's token again; raises when it is not good any more.
            window: How many events may be out, sent and not acknowledged.
            visibility: How long each is the stream's to acknowledge.
            frame: Makes bytes of an event.

        Raises:
            FollowersError: If there are as many streams as may be.
            EndingError: If the process is about to end.
        """
        if self._waking.ending:
            raise ending()
        if len(self) >= STREAMS or self._of[who] >= STREAMS_OF_ONE:
            raise FollowersError(
                f"{STREAMS} streams of agents' events are open here already, or {STREAMS_OF_ONE} of this instance.",
                hint="Close those that are not read, or poll.",
            )
        audience = self._audiences.get(key)
        if audience is None or audience.is_over:

            async def readable(_: list[str]) -> list[str]:
                await still()
                return []

            audience = self._audiences[key] = Audience[Push](key, readable)
        push = Push(
            who,
            db=self._db,
            waking=self._waking,
            audience=audience,
            identify=identify,
            window=window,
            visibility=visibility,
            frame=frame,
            left=self._leave,
        )
        audience.followers.add(push)
        self._of[who] += 1
        return push

    def _leave(self, push: Push) -> None:
        audience = push.audience
        if push not in audience.followers:
            return
        audience.followers.discard(push)
        self._of[push.who] -= 1
        if not self._of[push.who]:
            del self._of[push.who]
        if not audience.followers:
            audience.close()
            if self._audiences.get(audience.key) is audience:
                del self._audiences[audience.key]
