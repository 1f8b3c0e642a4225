"""Bodies: read with a limit, checked against their digest, parsed strictly.

FastAPI would read a body whole before any limit is known and parse it leniently (the last of two members of one name
wins, NaN is a number). So bodies are read here: counted while they arrive, refused at the limit, and then parsed as
everything that is hashed must be.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from typing import Any, Final, Generic, TypeVar

import http_sf
from fastapi import Request
from pydantic import BaseModel, ValidationError

from anabranch.api import room
from anabranch.api.problems import MEND, TooSlowError
from anabranch.api.routing import may_fail
from anabranch.model import misfits
from anabranch.model.breadth import SMALL_BYTES, check_breadth
from anabranch.model.canonical import parse_json
from anabranch.model.errors import DigestMismatchError, InvalidInputError, TooLargeError
from anabranch.model.limits import CONTENT_BYTES, IN_LOOP_BYTES

M = TypeVar("M", bound=BaseModel)

ENVELOPE_BYTES: Final = 64 << 10
"""What a request may need beside its content: names, hashes, white space."""

PAUSE_SECONDS: Final = 30.0
"""How long a body may pause, and for how long it may come at any rate."""

LEAST_RATE: Final = 16 << 10
"""Bytes a second that a body must come at from then on: less would let a few callers hold every connection."""

LEAST_RATE_WITH_ROOM: Final = 256 << 10
"""Likewise for a body that holds room, which others wait for."""

_DIGESTS: Final = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


class RawBody:
    """Reads a body of at most so many bytes.

    Args:
        limit: Bytes.
        what: What the error calls it: ``batch``.
        media_type: What the document says of it.
        schema: Its JSON Schema in the document.
        hint: What to do with one that is too large.
    """

    def __init__(
        self,
        *,
        limit: int,
        what: str,
        media_type: str = "application/json",
        schema: dict[str, Any] | None = None,
        hint: str = "Send less at once.",
    ) -> None:
        self._limit = limit
        self._what = what
        self._media_type = media_type
        self._schema = schema if schema is not None else {"type": "string", "format": "binary"}
        self._hint = hint

    async def __call__(self, request: Request) -> bytes:
        """Read it, when there is room for it.

        Raises:
            UnavailableError: If there is none for too long.
        """
        size = _announced(request)
        size = self._limit if size is None else size
        large = room.SMALL_BYTES < size <= self._limit
        if large:
            await room.hold(request.scope, size)
        rate = LEAST_RATE_WITH_ROOM if large else LEAST_RATE
        body = b"".join([chunk async for chunk in self.chunks(request, least_rate=rate)])
        await room.hold_values(request.scope, body)
        return body

    def document(self, operation: dict[str, Any]) -> None:
        """Describe the body, and what is answered to one that is not as it must be."""
        content = {self._media_type: {"schema": self._schema}}
        operation["requestBody"] = {"required": True, "content": content}
        may_fail(operation, DigestMismatchError, TooSlowError, TooLargeError)
        operation.setdefault("parameters", []).append(
            {
                "name": "Content-Digest",
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "RFC 9530: the body is refused when it has another digest (sha-256, sha-512)",
            }
        )

    async def chunks(self, request: Request, *, least_rate: int = LEAST_RATE) -> AsyncIterator[bytes]:
        """The body as it arrives; its end is reached only if it had the digest that its header names.

        Raises:
            TooLargeError: As soon as it is known.
            TooSlowError: If it pauses for too long, or comes at less than the least rate.
            DigestMismatchError: At the end.
            InvalidInputError: If the header or the encoding is not understood.
        """
        _check_encoding(request)
        expected = _expected(request)
        if (_announced(request) or 0) > self._limit:
            raise self._too_large()
        hashed = {name: _DIGESTS[name]() for name in expected}
        size = 0
        async for chunk in _in_time(request, least_rate):
            size += len(chunk)
            if size > self._limit:
                raise self._too_large()
            for digest in hashed.values():
                digest.update(chunk)
            yield chunk
        for name, digest in hashed.items():
            if digest.digest() != expected[name]:
                raise DigestMismatchError(
                    f"The body that arrived does not have the {name} digest of its Content-Digest.",
                    hint="It was torn or altered on the way: send it again.",
                )

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            f"The {self._what} is larger than {self._limit} bytes.", hint=self._hint, limit=self._limit
        )


class JsonBody(RawBody, Generic[M]):
    """Reads a JSON body as a model.

    Args:
        model: What it must be.
        limit: Bytes.
    """

    def __init__(self, model: type[M], *, limit: int = CONTENT_BYTES + ENVELOPE_BYTES) -> None:
        schema = {"$ref": f"#/components/schemas/{model.__name__}"}
        super().__init__(limit=limit, what="body", schema=schema)
        self.model = model

    async def __call__(self, request: Request) -> M:  # type: ignore[override]
        """Read and parse it."""
        body = await super().__call__(request)
        if len(body) <= IN_LOOP_BYTES:
            return fit(self.model, body)[0]
        return (await asyncio.to_thread(fit, self.model, body))[0]


def fit(model: type[M], body: bytes) -> tuple[M, Any]:
    """A JSON body as a model, and as the value that it is.

    Raises:
        InvalidInputError: If it is no JSON, or naming each field that does not fit; nothing is converted to fit.
    """
    value = parse_json(body)
    if len(body) > SMALL_BYTES:
        check_breadth(model, value, within="body")
    try:
        return model.model_validate_json(body, strict=True), value
    except ValidationError as error:
        raise misfits.refusal(error, within="body", hint=MEND) from None


def _announced(request: Request) -> int | None:
    """The size that a body's header tells; a request without one may come in pieces."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isascii() and announced.isdigit() else None


async def _in_time(request: Request, least_rate: int) -> AsyncIterator[bytes]:
    """The pieces of a body, as long as they come fast enough. Only waiting counts, not what is done with a piece."""
    stream = request.stream()
    size, waited = 0, 0.0
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(PAUSE_SECONDS, PAUSE_SECONDS + size / least_rate - waited)):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise TooSlowError(
                f"The body paused for more than {PAUSE_SECONDS:.0f} s, or came at less than {least_rate} bytes a "
                f"second: {size} bytes arrived.",
                hint="Send it again, from nearer by or in smaller parts.",
            ) from None
        if chunk is None:
            return
        waited += time.monotonic() - began
        size += len(chunk)
        yield chunk


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise InvalidInputError(f"The content encoding {encoding[:40]!r} is not taken.", hint="Send the body as it is.")


def _expected(request: Request) -> dict[str, bytes]:
    """The digests of a Content-Digest header that can be checked."""
    field = request.headers.get("content-digest")
    if field is None:
        return {}
    try:
        members: Any = http_sf.parse(field.encode("latin-1"), tltype="dictionary")
    except (http_sf.StructuredFieldError, ValueError):
        members = {}
    known = {name: member[0] for name, member in members.items() if name in _DIGESTS and isinstance(member[0], bytes)}
    if not known:
        raise InvalidInputError(
            "The Content-Digest header holds no sha-256 or sha-512 digest.",
            hint="Write it as RFC 9530 does: Content-Digest: sha-256=:<base64>:",
        )
    return known
