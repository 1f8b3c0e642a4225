"""HTTP/1.1 as uvicorn speaks it, with bounds on the head of a request: its size, its time, and what it may mean.

The parser gathers a head however long it is, before anybody can ask who sends it: without a bound, one connection and
no token would be enough to take the process's memory, and a few thousand that never end their heads to take every
connection. Bodies have bounds of their own, where they are read.
"""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from anabranch.api.framing import objection
from anabranch.api.parser import RequestParser
from anabranch.api.problems import HeadTooLargeError, MalformedRequestError, TooSlowError, response
from anabranch.model.errors import AnabranchError

HEAD_BYTES: Final = 64 << 10
"""Far more than a token (some 2 KiB) and the longest key in a path (1.5 KiB) take."""

HEAD_SECONDS: Final = 20.0
"""From the first byte of a head to its last."""

STREAMING: Final = "anabranch.streaming"
"""Extension of a request's scope, for answers without an end: `write` writes a piece at once, without a task, where the
client has taken those before it; `abort` ends the connection, also one whose client reads nothing; `watch` says whether
to end it when nobody has acknowledged for `UNHEARD_SECONDS` what was sent."""

IDLE_SECONDS: Final = 75
"""How long a connection may stay without a request. Longer than the idle time of usual load balancers, which else reuse
a connection at the moment that it is closed."""

_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""After so many seconds of silence a client is asked whether it is there; so often; before it is taken for gone."""

UNHEARD_SECONDS: Final = 30
"""How long a stream goes on whose client's machine acknowledges nothing: it was cut off or has crashed, and the kernel
by itself would send the same again for a quarter of an hour. Answers with an end have no such bound, since their client
may rest."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    parser: RequestParser

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser = RequestParser(self)
        # Else what comes behind a connection's last request takes the place of the answer to that.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._in_head = False
        self._head_bytes = 0
        self._objection: str | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Expect a request."""
        super().connection_made(transport)
        self._set(socket.SOL_SOCKET, "SO_KEEPALIVE", 1)
        for name, value in _PROBES.items():
            self._set(socket.IPPROTO_TCP, name, value)
        self._expect(IDLE_SECONDS, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._expect(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count bytes and seconds."""
        self._in_head, self._head_bytes = True, 0
        self._expect(HEAD_SECONDS, self._head_is_late)
        super().on_message_begin()
        self.scope["extensions"] = {
            STREAMING: {"write": self._write_piece, "abort": self.transport.abort, "watch": self._watch}
        }

    def on_headers_complete(self) -> None:
        """Count no more; begin to answer, unless it is not clear what the head means.

        Raises:
            HttpParserError: Then. uvicorn takes it for the parser's own.
        """
        self._in_head = False
        self._expect(None)
        self._objection = objection(self.parser.get_http_version(), self.headers, method=self.parser.get_method())
        if self._objection is not None:
            raise HttpParserError(self._objection)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
            self.parser.stay(self.headers, on_body=super().on_body, on_end=super().on_message_complete)

    def on_message_complete(self) -> None:
        """Expect no more of this request."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Expect the next request. What still comes of a body that nobody read does not put the end off."""
        idle = not (self.pipeline or self._in_head)
        super().on_response_complete()
        if idle and not self.transport.is_closing():
            self._expect(IDLE_SECONDS, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Take what arrived, and end the connection when it still belongs to a head that is too long.

        What came in one piece with something else is not counted, so the bound is exceeded by two reads at most.
        """
        was_in_head = self._in_head
        super().data_received(data)
        if not (was_in_head and self._in_head):
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(
                HeadTooLargeError(
                    f"The head of the request is larger than {HEAD_BYTES} bytes.", hint="Send fewer or shorter headers."
                )
            )

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (it says the same of everything)
        """Refuse what the parser does not understand, as a problem like all others."""
        self._refuse(
            MalformedRequestError(
                self._objection or "What came is no HTTP/1.1 request, or it does not say clearly where it ends.",
                hint="Send one Content-Length, or chunks; and TLS only where the API, or a proxy before it, speaks it.",
            )
        )

    def _write_piece(self, body: bytes) -> bool:
        """Write a piece of the chunked answer that has begun, or say that it has to wait its turn."""
        if self.flow.write_paused or self.transport.is_closing():
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    def _watch(self, on: bool) -> None:  # noqa: FBT001  (a switch)
        """Whether to end the connection when its client acknowledges nothing for a while."""
        self._set(socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNHEARD_SECONDS * 1_000 if on else 0)

    def _set(self, level: int, name: str, value: int) -> None:
        """Set an option of the connection, where it lives, it is TCP's, and the system knows the option."""
        own = None if self.transport.is_closing() else self.transport.get_extra_info("socket")
        if own is not None and own.family in {socket.AF_INET, socket.AF_INET6} and hasattr(socket, name):
            own.setsockopt(level, getattr(socket, name), value)

    def _head_is_late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(
                TooSlowError(
                    f"The head of the request did not come within {HEAD_SECONDS:.0f} s.", hint="Send it in one piece."
                )
            )

    def _refuse(self, error: AnabranchError) -> None:
        """End the connection, with an answer where one would not stand in the middle of another."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn's types say
        if cycle is not None and cycle.more_body and not (cycle.response_started or self.pipeline):
            # What is wrong is this request's body. Whoever waits for the rest of it is told that the client is gone.
            cycle.disconnected = True
            cycle.message_event.set()
            cycle = None
        if cycle is None or cycle.response_complete:
            answer = response(error, headers={"Connection": "close"})
            status = HTTPStatus(error.status)
            lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *map(b": ".join, answer.raw_headers)]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()

    def _expect(self, seconds: float | None, late: Callable[[], None] | None = None) -> None:
        """Do something unless the next step comes in time."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None or late is None else self.loop.call_later(seconds, late)
