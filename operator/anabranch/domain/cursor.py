"""Cursors: places in a list or a feed, sealed so that nobody but this installation can make one.

A cursor is opaque to clients and costs the server nothing to keep: it carries its place, and a keyed hash over it. What
a cursor is for is part of that hash, so one list's cursor is refused by every other. Two keys may be in use at once:
the first seals, all of them open, so keys can be exchanged while followers hold old cursors.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_BYTES: Final = 16
"""Shortest key that is accepted."""

_MAC_BYTES: Final = 16
_MAX_TEXT: Final = 2_048


class InvalidCursorError(InvalidInputError):
    """The text is no cursor for this list, or was sealed with a key that is no longer in use."""

    code: ClassVar[str] = "InvalidCursor"


class Sealer:
    """Seals and opens cursors.

    Args:
        keys: Secrets; the first one seals.

    Raises:
        InvalidInputError: If there is no key, or one is shorter than 16 bytes.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise InvalidInputError(
                f"Cursors need one or two keys of at least {KEY_BYTES} bytes each.",
                hint="Set ANABRANCH_CURSOR_KEYS to random texts, separated by commas; the first one signs.",
            )
        self._keys = tuple(keys)

    def seal(self, purpose: str, place: Sequence[Any]) -> str:
        """A cursor.

        Args:
            purpose: What it is a place in, with all that must be the same when it is used: the list, its filters.
            place: JSON values.
        """
        body = json.dumps(place, ensure_ascii=False, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_mac(self._keys[0], purpose, body) + body).rstrip(b"=").decode()

    def open(self, purpose: str, cursor: str) -> list[Any]:
        """The place that a cursor was sealed with.

        Args:
            purpose: As it was sealed for.
            cursor: The text.

        Raises:
            InvalidCursorError: If it was not sealed here for this purpose.
        """
        sealed = b""
        if len(cursor) <= _MAX_TEXT:
            try:
                sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            except (binascii.Error, ValueError):
                sealed = b""
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, purpose, body)) for key in self._keys):
            raise InvalidCursorError(
                "The cursor is not one of this list.", hint="Begin without a cursor, with the same filters."
            )
        place: list[Any] = json.loads(body)
        return place


def _mac(key: bytes, purpose: str, body: bytes) -> bytes:
    message = len(purpose.encode()).to_bytes(4, "big") + purpose.encode() + body
    return hmac.digest(key, message, hashlib.sha256)[:_MAC_BYTES]
