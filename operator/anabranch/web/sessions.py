"""Who has logged in, kept in their browser: sealed, so that any replica opens it and nobody else reads or makes one.

Nothing of it is kept on the server. So what it holds is small, its life is bounded, and it is worth nothing any more
once the settings that gave its claims a meaning are others.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from typing import TYPE_CHECKING, Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from anabranch.model.errors import InvalidInputError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KEY_BYTES: Final = 32
"""Shortest key that is accepted."""

COOKIE_BYTES: Final = 3_900
"""Browsers keep 4,096 bytes of a cookie, with its name and what is said of it."""


class Sealing:
    """Seals values for a browser to keep.

    Args:
        keys: Secrets; the first one seals, all open.
        purpose: What it is for: what was sealed for another purpose does not open.
        seconds: For which what was sealed is good.
        now: Seconds since the epoch.

    Raises:
        InvalidInputError: If there is no key, or one is too short.
    """

    def __init__(
        self, keys: Sequence[bytes], purpose: str, *, seconds: float, now: Callable[[], float] = time.time
    ) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise InvalidInputError(
                f"Sessions need one or two keys of at least {KEY_BYTES} bytes each.",
                hint="Set ANABRANCH_SESSION_KEYS to random texts, separated by commas; the first one seals.",
            )
        self._cipher = MultiFernet([Fernet(_derived(key, purpose)) for key in keys])
        self._seconds = seconds
        self._now = now

    def seal(self, value: Mapping[str, Any]) -> str:
        """A value as a cookie's text.

        Raises:
            TooLargeError: If no browser would keep it.
        """
        body = json.dumps({**value, "until": self._now() + self._seconds}, separators=(",", ":")).encode()
        sealed = self._cipher.encrypt(zlib.compress(body)).decode().rstrip("=")  # which would be put in quotes
        if len(sealed) > COOKIE_BYTES:
            raise TooLargeError(
                f"A session would have {len(sealed)} bytes, and browsers keep {COOKIE_BYTES}.",
                hint="You are in many groups: let the issuer put only those into tokens that matter here.",
                limit=COOKIE_BYTES,
            )
        return sealed

    def open(self, text: str) -> Mapping[str, Any] | None:
        """What was sealed; None: nothing that is good now, and ours."""
        if not text or len(text) > COOKIE_BYTES:
            return None
        try:
            body = zlib.decompress(self._cipher.decrypt(text.encode() + b"=" * (-len(text) % 4)))
        except InvalidToken:
            return None
        value: dict[str, Any] = json.loads(body)
        return value if value.pop("until") > self._now() else None


def _derived(key: bytes, purpose: str) -> bytes:
    made = HKDF(SHA256(), length=32, salt=None, info=f"anabranch session v1 {purpose}".encode()).derive(key)
    return base64.urlsafe_b64encode(made)
