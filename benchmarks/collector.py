"""A collector of spans that keeps none, in a process of its own as a real one has: what it costs is not the API's.

python -m benchmarks.collector PORT
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import uvicorn
import uvloop

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope


async def collect(_scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Take a body whole, and answer as a collector does that kept all of it."""
    while (await receive()).get("more_body"):
        pass
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")], "trailers": False}
    )
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def serve(port: int) -> None:
    """Serve until a signal ends it."""
    config = uvicorn.Config(collect, port=port, lifespan="off", log_config=None, access_log=False)
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
