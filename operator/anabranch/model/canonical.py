"""Canonical JSON (RFC 8785) and the hashes over it.

Everything that is hashed, signed or compared goes through `canonical_bytes`, so two programs in two languages agree on
a hash without agreeing on a JSON writer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
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
        text = raw if isinstance(raw, str) else raw.decode()  # `json` by itself would take UTF-16 and UTF-32, too
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
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


def check_json(value: Any, *, path: str = "$") -> None:
    """Check that a JSON value can be hashed: safe integers, paired surrogates, depth of at most 64.

    Raises:
        InvalidInputError: Naming the JSON path of the offending value.
    """
    if not _is_sound(value) and (fault := _find_fault(value)) is not None:
        place = path + "".join(reversed(fault.place))
        raise InvalidInputError(f"{_shown(place)} {fault.what}", hint=fault.hint)


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


def plain_bytes(value: Any) -> bytes:
    """The RFC 8785 form of what `parse_canonical` found in that form, or of a part of it, without looking at it again.

    It found that each part is written the same by the quick encoder, so the caller who knows this need not ask twice.
    """
    return _encode_plain(value).encode()


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


# Anybody may send a million empty lists as one content, and a call for each of them would take a second: so the next
# two go through a value level by level, and not by recursion. They are one walk written twice: each value of each batch
# goes through both, and a walk that called a check for each value would take that call's time again for every one.


def _is_plain(value: Any) -> bool:
    """Whether sorted, compact `json` output is the RFC 8785 form, of a value that is not too deep.

    It is, unless there is a float (ECMAScript writes numbers otherwise) or a member name outside ASCII (RFC 8785 sorts
    by UTF-16 code units). Subclasses, and what RFC 8785 refuses, are left to the reference implementation too.
    """
    level = [value]
    for _ in range(CONTENT_DEPTH + 1):
        below: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is dict:
                if not all(type(name) is str and name.isascii() for name in each):
                    return False
                below += each.values()
            elif kind is list or kind is tuple:
                below += each
            elif kind is int:
                if not -MAX_SAFE_INTEGER <= each <= MAX_SAFE_INTEGER:
                    return False
            elif kind is not str and each is not None and kind is not bool:
                return False
        if not below:
            return True
        level = below
    return False


def _is_sound(value: Any) -> bool:  # noqa: C901, PLR0911, PLR0912  (a case for each type)
    """Whether `_find_fault` surely finds none. Of subclasses nothing is sure."""
    level = [value]
    for _ in range(CONTENT_DEPTH + 1):
        below: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is str:
                if not (each.isascii() or _is_text(each)):
                    return False
            elif kind is dict:
                if not all(type(name) is str and (name.isascii() or _is_text(name)) for name in each):
                    return False
                below += each.values()
            elif kind is list or kind is tuple:
                below += each
            elif kind is int:
                if not -MAX_SAFE_INTEGER <= each <= MAX_SAFE_INTEGER:
                    return False
            elif kind is float:
                if _fault_of_number(each) is not None:
                    return False
            elif each is not None and kind is not bool:
                return False
        if not below:
            return True
        level = below
    return False


@dataclass(slots=True)
class _Fault:
    """What is wrong inside a value.

    Attributes:
        what: To be read behind its place.
        hint: What to do.
        place: The steps of its path, innermost first: put together only for a fault, on the way back from it, since a
            long name would else be copied for each of the values below it.
    """

    what: str
    hint: str
    place: list[str] = field(default_factory=list)


def _find_fault(value: Any, depth: int = 0) -> _Fault | None:  # noqa: C901, PLR0911  (a case for each type)
    """The first fault inside a value, in the order of its text."""
    if depth > CONTENT_DEPTH:
        return _Fault(f"is nested deeper than {CONTENT_DEPTH}.", "Flatten the value.")
    if isinstance(value, str):
        return _fault_of_text(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _fault_of_number(value)
    if isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(name, str):
                return _Fault("has a member name that is not a string.", "Use string names.")
            if (fault := _fault_of_text(name)) is not None:
                return fault
            if (fault := _find_fault(member, depth + 1)) is not None:
                fault.place.append(f".{name}")
                return fault
        return None
    if isinstance(value, list | tuple):
        for index, member in enumerate(value):
            if (fault := _find_fault(member, depth + 1)) is not None:
                fault.place.append(f"[{index}]")
                return fault
        return None
    return _Fault(f"is a {type(value).__name__}, which JSON lacks.", "Send a JSON value.")


def _fault_of_number(number: float) -> _Fault | None:
    if number != number or abs(number) == math.inf:  # noqa: PLR0124  (NaN differs from itself)
        return _Fault("is not a finite number.", "Send null or a string.")
    # RFC 8785 writes floats below 1e21 without an exponent: 1e20 could not be told from an integer, nor read back.
    if abs(number) > MAX_SAFE_INTEGER and (isinstance(number, int) or abs(number) < 1e21):
        return _Fault("is a number beyond 2^53-1.", _SEND_AS_STRING)
    return None


def _fault_of_text(text: str) -> _Fault | None:
    return None if _is_text(text) else _Fault("has a lone surrogate.", "Send well-formed Unicode.")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
