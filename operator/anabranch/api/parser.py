"""The parser of one connection's requests, to which a wish for another protocol is no more than a header.

Java's HttpClient and curl ask for HTTP/2 with each request over plain HTTP (`Upgrade: h2c`), also with one that has a
body. RFC 9110, section 7.8, lets a server go on in HTTP/1.1. The library's parser does not: it ends with such a head,
and takes what follows for the other protocol. So a second one reads the body, told where it ends by the very header
that the first one has checked. What comes behind that body is read by nobody: a proxy on the way may believe that the
connection speaks the other protocol by now, and whoever sent it has got past that proxy then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Piece: TypeAlias = bytes | bytearray | memoryview | array[int]

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class RequestParser(HttpRequestParser):
    """The library's, with `stay`."""

    _last: _Last | None = None

    def stay(
        self, headers: Sequence[tuple[bytes, bytes]], *, on_body: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        """Read the body of a request that asks for another protocol. To be called when its head is complete.

        Args:
            headers: Its own, with names in lower case.
            on_body: Is given each piece.
            on_end: Is told the end, instead of `on_message_complete`, which the library calls at once.
        """
        self._last = _Last(on_body, on_end)
        framing = [name + b": " + value for name, value in headers if name in _FRAMING]
        self._last.feed(b"\r\n".join([b"PUT / HTTP/1.1", *framing, b"", b""]))

    def feed_data(self, data: Piece) -> None:
        """Parse what arrived.

        Raises:
            HttpParserError: If it is no HTTP/1.1.
            HttpParserUpgrade: If another protocol is asked for, and `stay` was not called.
        """
        if (last := self._last) is None:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as end:
                if (last := self._last) is None:
                    raise
                data = data[end.args[0] :]
            else:
                return
        last.feed(data)


class _Last:
    """Reads the body of a connection's last request."""

    def __init__(self, on_body: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_body, self._on_end = on_body, on_end
        self._ended = False
        self._parser = HttpRequestParser(self)

    def feed(self, data: Piece) -> None:
        try:
            if not self._ended:
                self._parser.feed_data(data)
        except HttpParserError:  # what comes behind the body is nobody's
            if not self._ended:
                raise

    def on_body(self, body: bytes) -> None:
        if not self._ended:
            self._on_body(body)

    def on_message_complete(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end()
