"""The followers of a line that share an identity: what they may see is asked once for all of them, again and again.

A stream outlives the answer that began it. So every three seconds the API server is asked anew, past what is
remembered, and what was granted longer than five seconds ago is not acted on: events wait until an answer is there. A
grant that is gone ends the streams.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from anabranch.feed.ends import unverifiable
from anabranch.model.errors import AnabranchError, UnavailableError
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable
    from typing import TypeAlias

    Readable: TypeAlias = Callable[[list[str]], Awaitable[list[str]]]

ASK_SECONDS: Final = 3.0
SURE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


class Member(Protocol):
    """One of those who share an identity.

    Attributes:
        live: Whether it is given what is read for all.
    """

    live: bool

    def end(self, error: AnabranchError | None) -> None:
        """End its stream."""

    def wake(self) -> None:
        """Let it look again."""


F = TypeVar("F", bound=Member)


class Audience(Generic[F]):
    """Followers that may see the same.

    Args:
        key: The same for all of them, and for nobody else.
        readable: Says which of some scopes they may read, of this very moment; raises when they may not follow.
        who: Their name, where places are counted by it.

    Attributes:
        key: Likewise.
        who: Likewise.
        followers: Those of this moment.
        is_over: Whether they may not follow any more.
        known: Scopes that were asked about.
        readable: Those of them that may be read.
    """

    def __init__(self, key: Hashable, readable: Readable, *, who: str = "") -> None:
        self.key = key
        self.who = who
        self._ask = readable
        self._clock = asyncio.get_running_loop().time
        self._sure_until = 0.0
        self._asking = asyncio.Lock()
        self._guard: asyncio.Task[None] | None = None
        self.followers: set[F] = set()
        self.is_over = False
        self.known: frozenset[str] = frozenset()
        self.readable: frozenset[str] = frozenset()

    def is_sure(self) -> bool:
        """Whether what they may see was asked just now."""
        return self._clock() < self._sure_until

    @property
    def is_live(self) -> bool:
        """Whether any of them is given what is read for all."""
        return any(follower.live for follower in self.followers)

    def may_see(self, scope: str | None) -> bool:
        """Whether they may see what has this scope, if it was asked about."""
        return scope is None or scope in self.readable

    async def learn(self, scopes: Collection[str]) -> None:
        """Ask about scopes, unless it is known which of them they may read.

        Raises:
            ForbiddenError: If they may not follow any more.
            NotFoundError: Likewise, and they may not know that there is something to follow.
            UnavailableError: If the API server cannot be asked.
        """
        async with self._asking:
            if not (self.is_sure() and self.known.issuperset(scopes)):
                await self._renew(self.known.union(scopes))
        if self._guard is None:
            self._guard = tracing.apart(self._watch(), name="grants of followers")
            self._guard.add_done_callback(self._given_up)

    def end(self, error: AnabranchError) -> None:
        """End the streams of all."""
        self.is_over = True
        for follower in list(self.followers):
            follower.end(error)

    def close(self) -> None:
        """Ask no more: nobody is left."""
        if self._guard is not None:
            self._guard.cancel()

    async def _watch(self) -> None:
        pause = ASK_SECONDS * random.random()  # noqa: S311  (who came together is not to be asked about together)
        while True:
            await asyncio.sleep(pause)
            try:
                async with self._asking:
                    await self._renew(self.known)
            except UnavailableError:
                if not self.is_sure():
                    self.end(unverifiable())
                    return
                pause = _AGAIN_SECONDS
            except AnabranchError as error:
                self.end(error)
                return
            else:
                pause = ASK_SECONDS

    async def _renew(self, scopes: frozenset[str]) -> None:
        asked_at = self._clock()
        self.readable = frozenset(await self._ask(sorted(scopes)))
        self.known = scopes
        was_sure, self._sure_until = self.is_sure(), asked_at + SURE_SECONDS
        if not was_sure:
            for follower in self.followers:
                follower.wake()

    def _given_up(self, guard: asyncio.Task[None]) -> None:
        """Whatever ended the questions, nobody goes on without them."""
        if guard.cancelled():
            return
        if (error := guard.exception()) is not None:
            _log.error("Followers cannot be asked about any more.", exc_info=error)
        self.end(unverifiable())
