"""Cursors: places in a list or a feed, sealed so that nobody but this installation can make one, or read one.

A cursor is opaque to clients and costs the server nothing to keep: it carries its place. It is encrypted, since a place
may be the name of something that its holder may not see, and bound to what it is for, so that one list's cursor is
refused by every other. The same place gives the same cursor (AES-SIV, RFC 5297), and so the same answer the same tag.
Two keys may be in use at once: the first seals, all of them open, so keys can be exchanged while followers hold old
cursors.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_BYTES: Final = 16
"""Shortest key that is accepted."""

_MAX_TEXT: Final = 2_048
_DERIVATION: Final = b"anabranch.cursor.v1\x00"


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
        self._ciphers = tuple(AESSIV(hashlib.sha512(_DERIVATION + key).digest()) for key in keys)

    def seal(self, purpose: str, place: Sequence[Any]) -> str:
        """A cursor.

        Args:
            purpose: What it is a place in, with all that must be the same when it is used: the list, its filters.
            place: JSON values.
        """
        body = json.dumps(place, ensure_ascii=False, separators=(",", ":")).encode()
        sealed = self._ciphers[0].encrypt(body, [purpose.encode()])
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, purpose: str, cursor: str) -> list[Any]:
        """The place that a cursor was sealed with.

        Args:
            purpose: As it was sealed for.
            cursor: The text.

        Raises:
            InvalidCursorError: If it was not sealed here for this purpose.
        """
        sealed = _decoded(cursor) if len(cursor) <= _MAX_TEXT else b""
        for cipher in self._ciphers:
            try:
                place: list[Any] = json.loads(cipher.decrypt(sealed, [purpose.encode()]))
            except InvalidTag:
                continue
            return place
        raise InvalidCursorError(
            "The cursor is not one of this list.", hint="Begin without a cursor, with the same filters."
        )


def _decoded(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""
