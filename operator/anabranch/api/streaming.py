"""A stream as an answer: what its source gives is sent as fast as its client reads, until either ends it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from fastapi import Response

from anabranch.api import frames
from anabranch.api.measured import SENT
from anabranch.api.protocol import STREAMING

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Receive, Scope, Send

    from anabranch.model.errors import AnabranchError

MEDIA_TYPE: Final = "text/event-stream"

PARTING_SECONDS: Final = 2.0
"""How long a client that does not read has time to hear that its stream is over, before its connection is ended."""


class Source(Protocol):
    """What a stream sends.

    Attributes:
        error: Why it ended; None while it goes on, or if its client left.
        on_end: Called once when it ends.
        write: Given to it: sends a piece at once, if the client has taken all before it, and says whether it did.
    """

    error: AnabranchError | None
    on_end: Callable[[], None] | None
    write: Callable[[bytes], bool] | None

    async def take(self) -> bytes | None:
        """What to send next, once there is something; None: it is over."""

    def end(self, error: AnabranchError | None) -> None:
        """End it."""

    def close(self) -> None:
        """Forget it."""


class EventStream(Response):
    """The answer that streams from a source.

    Args:
        source: Which has begun; it is closed at the end.
    """

    media_type = MEDIA_TYPE

    def __init__(self, source: Source) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._source = source

    async def drop(self) -> None:
        """Let the source go."""
        self._source.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""
        source = self._source
        leaving = asyncio.create_task(_left(receive, source))
        connection = _Connection(scope)
        source.on_end = connection.part
        try:
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": self.raw_headers})
            await send(_piece(frames.opening()))
            source.write = connection.write
            while (body := await source.take()) is not None:
                await send(_piece(body))
            last = b"" if source.error is None else frames.end(source.error)
            await send({**_piece(last), "more_body": False})
        finally:
            leaving.cancel()
            source.close()
            connection.over()


class _Connection:
    """The connection below a stream, where it is one of our protocol."""

    def __init__(self, scope: Scope) -> None:
        found = scope.get("extensions", {}).get(STREAMING, {})
        self._scope = scope
        self._write: Callable[[bytes], bool] | None = found.get("write")
        self._abort: Callable[[], None] | None = found.get("abort")
        self._watch: Callable[[bool], None] | None = found.get("watch")
        if self._watch is not None:
            self._watch(True)
        self._timer: asyncio.TimerHandle | None = None

    def write(self, body: bytes) -> bool:
        """Write a piece at once, if the client has taken those before it."""
        if self._write is None or not self._write(body):
            return False
        self._scope[SENT] = self._scope.get(SENT, 0) + len(body)
        return True

    def part(self) -> None:
        """Give a client that does not take its leave some time, then end its connection."""
        if self._abort is not None:
            self._timer = asyncio.get_running_loop().call_later(PARTING_SECONDS, self._abort)

    def over(self) -> None:
        """It has gone: the connection may serve its next request."""
        if self._watch is not None:
            self._watch(False)
        if self._timer is not None:
            self._timer.cancel()


async def _left(receive: Receive, source: Source) -> None:
    """End a source when its client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    source.end(None)


def _piece(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}
