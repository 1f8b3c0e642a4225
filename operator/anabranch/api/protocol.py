"""HTTP/1.1 as uvicorn speaks it, with a bound on the head of a request.

The parser gathers a head however long it is, before anybody can ask who sends it: without a bound, one connection and
no token would be enough to take the process's memory. Bodies have bounds of their own, where they are read.
"""

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from anabranch.api.problems import HeadTooLargeError, response

HEAD_BYTES: Final = 64 << 10
"""Far more than a token (some 2 KiB) and the longest key in a path (1.5 KiB) take."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more."""
        self._in_head = False
        super().on_headers_complete()

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
            self._refuse()

    def _refuse(self) -> None:
        answer = response(
            HeadTooLargeError(
                f"The head of the request is larger than {HEAD_BYTES} bytes.", hint="Send fewer or shorter headers."
            ),
            headers={"Connection": "close"},
        )
        lines = [b"HTTP/1.1 431 Request Header Fields Too Large", *(b": ".join(pair) for pair in answer.raw_headers)]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
