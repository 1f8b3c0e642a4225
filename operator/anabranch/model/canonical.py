"""Canonical JSON (RFC 8785) and the hashes over it.

Everything that is hashed, signed or compared goes through `canonical_bytes`, so two programs in two languages agree on
a hash without agreeing on a JSON writer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Final, NewType, NoReturn

import rfc8785

from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import CONTENT_DEPTH, MAX_SAFE_INTEGER

ContentHash = NewType("ContentHash", str)
"""``sha256:`` and 64 lower-case hex digits."""

PREFIX: Final = "sha256:"

_HASH: Final = re.compile("sha256:[0-9a-f]{64}")

_SEND_AS_STRING: Final = "In content, send it as a string; everything else that is counted here stays below."


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON strictly: no NaN or infinity, no duplicate member names, no lone surrogates, bounded depth.

    Raises:
        InvalidInputError: Naming what is wrong and where.
    """
    try:
        value = json.loads(raw, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        detail = f"The body is not JSON: {error}."
        raise InvalidInputError(detail, hint="Send one whole RFC 8259 JSON value in UTF-8.") from None
    except RecursionError:
        raise InvalidInputError(f"The body is nested deeper than {CONTENT_DEPTH}.", hint="Flatten the value.") from None
    except ValueError:  # Python reads no integer of so many digits
        raise InvalidInputError("The body has a number far beyond 2^53-1.", hint=_SEND_AS_STRING) from None
    check_json(value)
    return value


def parse_canonical(raw: bytes) -> tuple[Any, bytes]:
    """Parse JSON as strictly as `parse_json`, and give its RFC 8785 form, too.

    Most of what is hashed travels in that form already. Then the text itself proves what `parse_json` looks for member
    by member: written again it is the same, so no member was there twice, and every number and text is as it should be.

    Raises:
        InvalidInputError: Naming what is wrong and where.
    """
    try:
        value = json.loads(raw)
        if _is_plain(value) and _encode_plain(value).encode() == raw:
            return value, raw
    except (ValueError, RecursionError):
        pass  # the slower way says what is wrong
    value = parse_json(raw)
    return value, canonical_bytes(value)


def check_json(value: Any, *, path: str = "$", depth: int = 0) -> None:
    """Check that a JSON value can be hashed: safe integers, paired surrogates, depth of at most 64.

    Raises:
        InvalidInputError: Naming the JSON path of the offending value.
    """
    if depth > CONTENT_DEPTH:
        raise InvalidInputError(f"{_shown(path)} is nested deeper than {CONTENT_DEPTH}.", hint="Flatten the value.")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        _check_number(value, path)
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_name(name, path)
            check_json(member, path=f"{path}.{name}", depth=depth + 1)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            check_json(member, path=f"{path}[{index}]", depth=depth + 1)
    else:
        raise InvalidInputError(f"{path} is a {type(value).__name__}, which JSON lacks.", hint="Send a JSON value.")


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value.

    Raises:
        InvalidInputError: If the value has no canonical form.
    """
    try:
        # The standard library's C encoder writes the same bytes four times faster, wherever `_is_plain` holds.
        return _encode_plain(value).encode() if _is_plain(value) else rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        detail = f"The value has no canonical JSON form: {error}."
        raise InvalidInputError(detail, hint="Send a plain JSON value.") from None


def sha256(data: bytes) -> bytes:
    """The 32 bytes of SHA-256."""
    return hashlib.sha256(data).digest()


def hash_text(digest: bytes) -> ContentHash:
    """A 32-byte digest as it stands on the wire: ``sha256:<hex>``."""
    return ContentHash(PREFIX + digest.hex())


def content_hash(value: Any) -> ContentHash:
    """The wire form of the hash of a JSON value's canonical bytes."""
    return hash_text(sha256(canonical_bytes(value)))


def hash_bytes(text: str) -> bytes:
    """The 32 bytes of a wire-form hash.

    Raises:
        InvalidInputError: Unless the text is ``sha256:`` and 64 lower-case hex digits.
    """
    if not _HASH.fullmatch(text):
        raise InvalidInputError(f"{text[:80]!r} is no hash.", hint="Write sha256: and 64 lower-case hex digits.")
    return bytes.fromhex(text[len(PREFIX) :])


_encode_plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")).encode


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether sorted, compact `json` output is the RFC 8785 form, of a value that is not too deep.

    It is, unless there is a float (ECMAScript writes numbers otherwise) or a member name outside ASCII (RFC 8785 sorts
    by UTF-16 code units). Subclasses, and what RFC 8785 refuses, are left to the reference implementation too.
    """
    kind = type(value)
    if kind is int:
        return bool(-MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER)
    if kind is list or kind is tuple:
        members = value
    elif kind is dict:
        if not all(type(name) is str and name.isascii() for name in value):
            return False
        members = value.values()
    else:
        return kind is str or value is None or kind is bool
    return depth < CONTENT_DEPTH and all(type(member) is str or _is_plain(member, depth + 1) for member in members)


def _check_name(name: Any, path: str) -> None:
    if not isinstance(name, str):
        raise InvalidInputError(f"{path} has a member name that is not a string.", hint="Use string names.")
    _check_text(name, path)


def _check_number(number: float, path: str) -> None:
    if number != number or abs(number) == math.inf:  # noqa: PLR0124  (NaN differs from itself)
        raise InvalidInputError(f"{_shown(path)} is not a finite number.", hint="Send null or a string.")
    # RFC 8785 writes floats below 1e21 without an exponent: 1e20 could not be told from an integer, nor read back.
    if abs(number) > MAX_SAFE_INTEGER and (isinstance(number, int) or abs(number) < 1e21):
        raise InvalidInputError(f"{_shown(path)} is a number beyond 2^53-1.", hint=_SEND_AS_STRING)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{_shown(path)} has a lone surrogate.", hint="Send well-formed Unicode.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInputError(f"The body has {name}, which JSON lacks.", hint="Send null or a string in its place.")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidInputError(
            f"An object of the body has the member {_shown(ascii(twice))} twice.", hint="Send each member once."
        )
    return members


def _shown(path: str) -> str:
    """A place as an error shows it: not longer than a line."""
    return path if len(path) <= 100 else f"{path[:60]}...{path[-30:]}"
