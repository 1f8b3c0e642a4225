"""Server-sent events, as they arrive in pieces: parsed as the HTML standard says, within bounds.

An event is dispatched by its empty line alone, so what a broken connection cut off in the middle is never seen, and the
cursor behind it never noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENT_BYTES: Final = 1 << 20
"""Far more than any event of a feed takes; a stream that never ends a line must not take the memory."""

_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")  # whether a CR at the end is half of a CRLF is not known yet


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream.

    Attributes:
        event: Its name; empty: it has none.
        data: Its data, with lines ended by LF; empty: it has none.
        last_id: The last id that came, with this event or before it; None: none did.
    """

    event: str
    data: str
    last_id: str | None


class Parser:
    """Takes pieces of a stream, and gives the events that they complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._size = 0
        self._id: str | None = None
        self._has_fields = False

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The events that a piece completes, those without data too.

        Raises:
            UnavailableError: If an event is longer than any of a feed.
        """
        *lines, self._rest = _LINE_END.split(self._rest + piece)
        for line in lines:
            if line:
                self._take(line)
            elif self._has_fields:
                yield Message(self._event, "\n".join(self._data), self._id)
                self._event, self._data, self._size, self._has_fields = "", [], 0, False
        if self._size + len(self._rest) > EVENT_BYTES:
            raise UnavailableError(f"An event of the stream is longer than {EVENT_BYTES} bytes.", hint="Poll instead.")

    def _take(self, line: bytes) -> None:
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
                self._size += len(line)
            case "id" if "\0" not in value:
                self._id = value
            case _:
                return  # a comment, or a field that is for others
        self._has_fields = True
