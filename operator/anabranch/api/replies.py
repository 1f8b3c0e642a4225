"""Answers, and what may be kept of them: private to their caller, and for ever only where nothing can change them."""

import hashlib
from collections.abc import Mapping
from typing import Final

from fastapi import Request, Response
from pydantic import BaseModel

FOREVER: Final = "private, max-age=31536000, immutable"
"""What a generation, a digest or an id names never changes."""

ASK_AGAIN: Final = "private, no-cache"
"""May be kept, and must be asked about each time: names that move, and what depends on the caller's scopes."""

_KEEP_NOT: Final = "no-store"


def reply(model: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that nobody keeps."""
    return _json(model.model_dump_json(), status, {"Cache-Control": _KEEP_NOT, **(headers or {})})


def reply_json(body: bytes, *, headers: Mapping[str, str] | None = None) -> Response:
    """Likewise, of an answer that is JSON already."""
    return _json(body, 200, {"Cache-Control": _KEEP_NOT, **(headers or {})})


def kept(request: Request, model: BaseModel, *, caching: str) -> Response:
    """An answer with a tag over its bytes, or 304 where the caller has these very bytes."""
    return kept_json(request, model.model_dump_json().encode(), caching=caching)


def kept_json(request: Request, body: bytes, *, caching: str) -> Response:
    """Likewise, of an answer that is JSON already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"Cache-Control": caching, "ETag": tag, "Vary": "Authorization"}
    if is_held(request, tag):
        return Response(status_code=304, headers=headers)
    return _json(body, 200, headers)


def is_held(request: Request, tag: str) -> bool:
    """Whether the caller of a read has an answer by its tag, or (``*``) any answer, so that 304 will do.

    Weak tags compare as strong ones do, since answers are compared by their bytes.
    """
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or tag in {one.strip().removeprefix("W/") for one in given.split(",")}


def _json(body: str | bytes, status: int, headers: dict[str, str]) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers=headers)
