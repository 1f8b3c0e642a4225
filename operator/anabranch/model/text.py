"""The grammar of names: keys, scopes and source locators.

Every door takes names from outside and every table is keyed by them, so what a name may be is said once, here. A name
is refused rather than mended: two spellings of one key would be two records, and a silent repair hides which of them
the caller meant.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import KEY_BYTES, LOCATOR_BYTES, SCOPE_BYTES

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
    return _check_name(key, field=field, limit=KEY_BYTES)


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


def check_locator(locator: object, *, field: str = "source_locator") -> str:
    """Check the outer form of a source locator: 1 to 4,096 bytes of UTF-8 in NFC, no control characters.

    Which kinds of locator a door takes, and whether one resolves, is that door's matter.

    Args:
        locator: What the caller sent, of any type.
        field: What the error calls it.

    Returns:
        The locator, unchanged.

    Raises:
        InvalidInputError: Naming the field, the limit, and what to do.
    """
    return _check_name(locator, field=field, limit=LOCATOR_BYTES)


def _check_name(name: object, *, field: str, limit: int) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{field} is not a text of 1 to {limit} bytes.", hint=f"Send {field} as a JSON string.")
    if name.isascii():
        size = len(name)
    else:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidInputError(f"{field} has a lone surrogate.", hint="Send well-formed Unicode.") from None
        if not unicodedata.is_normalized("NFC", name):
            raise InvalidInputError(
                f"{field} {_shown(name)} is not in Unicode normalization form NFC.", hint="Normalize it to NFC first."
            )
    if size > limit:
        raise InvalidInputError(f"{field} {_shown(name)} has {size} bytes, the limit is {limit}.", hint="Shorten it.")
    if _CONTROL.search(name):
        raise InvalidInputError(f"{field} {_shown(name)} holds a control character.", hint="Remove it.")
    return name


def _shown(value: object) -> str:
    """A value as an error shows it: escaped, and not longer than a line."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
