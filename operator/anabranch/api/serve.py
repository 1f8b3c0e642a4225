"""Runs the API in a process: opens its parts, serves until it is told to end, and lets go in order.

When the process is told to end, followers that wait for events are answered at once, so a rolling upgrade does not hang
on their polls; requests under way are finished.
"""

import asyncio
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from anabranch.api.app import create_app
from anabranch.api.parts import Parts, opened
from anabranch.api.protocol import IDLE_SECONDS, Protocol
from anabranch.api.settings import Settings

GRACE_SECONDS: Final = 10


class Server(uvicorn.Server):
    """A server that lets followers go when it ends.

    Args:
        config: Of uvicorn.
        parts: Of the application.
    """

    def __init__(self, config: uvicorn.Config, parts: Parts) -> None:
        super().__init__(config)
        self._parts = parts
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: on a signal."""
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._parts.waking.end)


async def serve(settings: Settings) -> None:
    """Serve until a signal ends it.

    Raises:
        UnavailableError: If Postgres cannot be reached at the start.
        InvalidInputError: If a setting does not do.
    """
    async with opened(settings) as parts:
        config = uvicorn.Config(
            create_app(parts),
            host=settings.host,
            port=settings.port,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        await Server(config, parts).serve()


def run(settings: Settings) -> None:
    """Serve, in a loop of its own."""
    uvloop.run(serve(settings))
