"""Room for large bodies: so many bytes of them at once in a process, and so many values; first come first served.

A body is kept whole until it is checked and parsed, and costs some times its size meanwhile: a few times, if it is
texts, and fifty times, if it is nothing but empty lists. A fleet that comes back from an outage sends many at the same
time, each of them within its limit; without a bound on all of them the process would end for want of memory. Who finds
no room is not read any further, which the sender's connection tells it to wait; after a while the request is refused,
and nothing was taken of it.
"""

import asyncio
from collections import deque
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.model.errors import UnavailableError

SMALL_BYTES: Final = 256 << 10
"""Up to here a body needs no room: its connection costs as much."""

ROOM_BYTES: Final = 64 << 20
"""For two of the largest requests, or eight of the largest batches."""

SMALL_VALUES: Final = 32 << 10
"""Likewise for the values of a body."""

ROOM_VALUES: Final = 4 << 20
"""For those of some hundred thousand changes. One costs seventy bytes, all of them some three hundred megabytes."""

PATIENCE_SECONDS: Final = 30.0

_HELD: Final = "anabranch.room"


class Room:
    """Bytes, or values, that may be held at once.

    Args:
        size: How many.
        patience: Seconds that a request waits for its share.
    """

    def __init__(self, size: int = ROOM_BYTES, *, patience: float = PATIENCE_SECONDS) -> None:
        self._free = self._size = size
        self._patience = patience
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> int:
        """Take so many bytes, all there are at most, when those who came before have theirs; give back what this gives.

        Raises:
            UnavailableError: If there is no room for too long.
        """
        size = min(size, self._size)
        if not self._waiting and size <= self._free:
            self._free -= size
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give(size)  # it came at the same moment
            else:
                turn.cancel()
                self._let_in()  # whoever is behind may need less
            if isinstance(error, TimeoutError):
                raise UnavailableError(
                    f"There was no room for the body for {self._patience:.0f} s: others send much at the same time.",
                    hint="Send it again in a moment; nothing of it was taken.",
                ) from None
            raise
        return size

    def give(self, size: int) -> None:
        """Give back what was taken."""
        self._free += size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()


class Roomy:
    """An ASGI application around another one, whose requests give back what room they took when they are answered.

    Args:
        app: The other one.
        room: That the bytes of its requests share.
        values: Likewise, their values.
    """

    def __init__(self, app: ASGIApp, room: Room, values: Room) -> None:
        self._app = app
        self._room = room
        self._values = values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        held: list[tuple[Room, int]] = []
        scope[_HELD] = (self._room, self._values, held)
        try:
            await self._app(scope, receive, send)
        finally:
            for room, size in held:
                room.give(size)


async def hold(scope: Scope, size: int) -> None:
    """Take room for a request's body until it is answered.

    Raises:
        UnavailableError: If there is none for too long.
    """
    if size > SMALL_BYTES and _HELD in scope:
        room, _, held = scope[_HELD]
        held.append((room, await room.take(size)))


async def hold_values(scope: Scope, body: bytes) -> None:
    """Take room for what a body becomes when it is parsed, until it is answered; once for a request that has its bytes.

    Values are counted by the marks that JSON has before or behind each of them, which may stand in texts, too.

    Raises:
        UnavailableError: If there is none for too long.
    """
    if len(body) <= SMALL_VALUES or _HELD not in scope:
        return
    count = body.count(b",") + body.count(b"[") + body.count(b"{")
    if count > SMALL_VALUES:
        _, values, held = scope[_HELD]
        held.append((values, await values.take(count)))
