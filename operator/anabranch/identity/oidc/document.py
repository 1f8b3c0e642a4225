"""A document of somebody else's that is needed all the time, and fetched seldom.

Whoever can send a token can make the API want a newer one. So it is fetched once at a time, with a pause between two
attempts, and what was fetched before serves for as long as its owner does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from anabranch.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

FRESH_SECONDS: Final = 600.0
"""A key that the issuer has withdrawn is believed for so long, unless it does not answer."""

STALE_SECONDS: Final = 86_400.0
"""For how long a document serves whose owner does not answer."""

PAUSE_SECONDS: Final = 10.0
"""Between two attempts, whoever asks for them."""

SOON_SECONDS: Final = 2.0
"""The same, while there is nothing yet that could serve."""

PATIENCE_SECONDS: Final = 2.0
"""How long somebody waits for a newer one who could do with the old."""


class Document(Generic[T]):
    """A document, as its owner last gave it.

    Args:
        fetch: Asks the owner; raises `UnavailableError` where there is no answer that makes sense.
        clock: Seconds, monotonic.
    """

    def __init__(self, fetch: Callable[[], Awaitable[T]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: tuple[T, float] | None = None
        self._tried_at = -PAUSE_SECONDS
        self._error: UnavailableError | None = None
        self._flight: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The document, of at most ten minutes ago if its owner answers.

        Raises:
            UnavailableError: If there is none, or only one of more than a day ago.
        """
        if self._kept is None or self._age > STALE_SECONDS:
            return await self._newer()
        value, _ = self._kept
        if self._age < FRESH_SECONDS or not self._may_try:
            return value
        with contextlib.suppress(UnavailableError, TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._newer()
        return value

    async def again(self) -> T:
        """The document, asked for anew unless that was tried just now.

        Raises:
            UnavailableError: As `get`.
        """
        return await (self._newer() if self._may_try else self.get())

    @property
    def _age(self) -> float:
        return self._clock() - self._kept[1] if self._kept is not None else STALE_SECONDS

    @property
    def _may_try(self) -> bool:
        pause = PAUSE_SECONDS if self._kept is not None else SOON_SECONDS
        return self._flight is not None or self._clock() - self._tried_at >= pause

    async def _newer(self) -> T:
        """What a flight brings: the one that is under way, or a new one."""
        if self._flight is None:
            if self._error is not None and not self._may_try:
                raise self._error
            self._tried_at = self._clock()
            self._flight = asyncio.create_task(self._fly())
            self._flight.add_done_callback(self._landed)
        return await asyncio.shield(self._flight)  # who hangs up must not take it away from the others

    async def _fly(self) -> T:
        asked_at = self._clock()
        try:
            value = await self._fetch()
        except UnavailableError as error:
            self._error = error
            raise
        self._error = None
        self._kept = (value, asked_at)
        return value

    def _landed(self, flight: asyncio.Task[T]) -> None:
        self._flight = None
        if not flight.cancelled():
            flight.exception()  # everybody may have hung up: then nobody else looks at it
