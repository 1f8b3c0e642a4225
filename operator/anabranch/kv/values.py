"""A value in its two forms: the bytes that a client wrote, and the JSON that the overlay has of them.

Clients get back the very bytes. The overlay, its view and the findings that an agent makes of it deal in JSON: a value
that is JSON is itself there, other text is a string, and all else an object that says that it is base64.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from anabranch.kv.envelopes import envelope_of
from anabranch.model.canonical import canonical_bytes, parse_json, sha256
from anabranch.model.errors import InvalidInputError, TooLargeError
from anabranch.model.limits import CONTENT_BYTES, KV_MEMORY_KEY_BYTES
from anabranch.model.text import check_key
from anabranch.store.kv import Labels, Value

if TYPE_CHECKING:
    from anabranch.model.kv import Memory
    from anabranch.store.kv_namespaces import Place

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
BYTES: Final = "application/octet-stream"

_RESERVED: Final = "__"


def check_record_key(place: Place, key: str) -> None:
    """Check a key.

    Raises:
        InvalidInputError: If it is none of the overlay's together with its namespace, or a reserved one.
    """
    check_key(place.private_key(key))
    if not key or key.startswith(_RESERVED):
        raise InvalidInputError(
            f"A key is not empty, and does not begin with {_RESERVED!r}.", hint="Give it another name."
        )


def check_memory_key(place: Place, key: str) -> None:
    """Check the key of a structured memory; errors as `check_record_key` has them."""
    check_record_key(place, key)
    if len(key.encode()) > KV_MEMORY_KEY_BYTES:
        raise InvalidInputError(
            f"The key of a structured memory has {KV_MEMORY_KEY_BYTES} bytes at most.", hint="Shorten it."
        )


def read(raw: bytes) -> Value:
    """The value that some bytes are.

    Raises:
        TooLargeError: If one of its forms is larger than 1 MiB.
        InvalidInputError: If it marks itself as a structured memory, and is none.
    """
    content, media_type = _content(raw)
    body = canonical_bytes(content)
    if max(len(raw), len(body)) > CONTENT_BYTES:
        raise TooLargeError(
            f"The value has {len(raw)} bytes, and {len(body)} as the JSON of the private overlay; the limit is "
            f"{CONTENT_BYTES}.",
            hint="Split it into several records, or upload it as evidence.",
            limit=CONTENT_BYTES,
        )
    memory = envelope_of(content)
    return Value(
        raw=raw,
        body=body,
        content_hash=sha256(body),
        media_type=media_type,
        labels=None if memory is None else labels_of(memory),
    )


def labels_of(memory: Memory) -> Labels:
    """By what a structured memory is found."""
    return Labels(topic=memory.topic, tags=memory.tags, occurred_at_ms=memory.occurred_at_ms, text=memory.content)


def _content(raw: bytes) -> tuple[Any, str]:
    """The JSON that the overlay has of some bytes, and their media type."""
    try:
        return parse_json(raw), JSON
    except InvalidInputError:
        pass  # no JSON, or none that can be hashed, such as one with integers beyond 2^53-1: then it is a text
    try:
        return raw.decode(), TEXT
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": base64.b64encode(raw).decode()}, BYTES
