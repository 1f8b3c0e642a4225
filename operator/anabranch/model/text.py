"""The grammar of names: keys and scopes.

Every door takes names from outside and every table is keyed by them, so what a name may be is said once, here. A name
is refused rather than mended: two spellings of one key would be two records, and a silent repair hides which of them
the caller meant.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import KEY_BYTES, SCOPE_BYTES

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SCOPE: Final = re.compile(r"[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*")


def check_key(key: object, *, field: str = "key") -> str:
    """Check a record's key: 1 to 512 bytes of UTF-8 in NFC, no control characters.

    Args:
        key: What the caller sent, of any type.
        field: What the error calls it, such as ``changes[3].key``.

    Returns:
        The key, unchanged.

    Raises:
        InvalidInputError: Naming the field, the limit, and what to do.
    """
    if not isinstance(key, str) or not key:
        raise InvalidInputError(
            f"{field} is not a text of 1 to {KEY_BYTES} bytes.", hint=f"Send {field} as a JSON string."
        )
    if key.isascii():
        size = len(key)
    else:
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            raise InvalidInputError(f"{field} has a lone surrogate.", hint="Send well-formed Unicode.") from None
        if not unicodedata.is_normalized("NFC", key):
            raise InvalidInputError(
                f"{field} {_shown(key)} is not in Unicode normalization form NFC.", hint="Normalize it to NFC first."
            )
    if size > KEY_BYTES:
        raise InvalidInputError(
            f"{field} {_shown(key)} has {size} bytes, the limit is {KEY_BYTES}.", hint="Shorten it."
        )
    if _CONTROL.search(key):
        raise InvalidInputError(f"{field} {_shown(key)} holds a control character.", hint="Remove it.")
    return key


def check_scope(scope: object, *, field: str = "scope") -> str:
    """Check a scope: ``/``-joined segments of ``[a-z0-9][a-z0-9._-]*``, at most 64 bytes, such as ``team/build``.

    Args:
        scope: What the caller sent, of any type.
        field: What the error calls it.

    Returns:
        The scope, unchanged.

    Raises:
        InvalidInputError: Naming the field, the limit, and what to do.
    """
    if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
        raise InvalidInputError(
            f"{field} {_shown(scope)} is no scope.",
            hint="Join lower-case segments by '/', each beginning with a letter or digit: shared, team/build.",
        )
    if len(scope) > SCOPE_BYTES:
        raise InvalidInputError(
            f"{field} {_shown(scope)} has {len(scope)} bytes, the limit is {SCOPE_BYTES}.", hint="Shorten the scope."
        )
    return scope


def _shown(value: object) -> str:
    """A value as an error shows it: escaped, and not longer than a line."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
