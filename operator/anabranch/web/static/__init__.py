"""The files that pages load: one style, one script that does without, one mark."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

_KINDS: Final = {"pages.css": "text/css", "pages.js": "text/javascript", "mark.svg": "image/svg+xml"}
_FILES: Final = {name: resources.files(__name__).joinpath(name).read_bytes() for name in _KINDS}

VERSION: Final = hashlib.sha256(b"".join(_FILES.values())).hexdigest()[:12]
"""Of all files: it is in their addresses, so that a browser keeps them and never mixes those of two releases."""


async def _serve(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _FILES or request.path_params["version"] != VERSION:
        return Response("There is no such file.\n", status_code=404, media_type="text/plain")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_FILES[name], media_type=_KINDS[name], headers=headers)


ROUTE: Final = Route("/static/{version}/{name}", _serve, methods=["GET"])
