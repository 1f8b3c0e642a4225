"""Runs the API in a process: opens its parts, serves until it is told to end, and lets go in order.

When the process is told to end, it says first that it is not ready, and goes on answering for as long as balancers take
to hear of that. Followers that wait for events are answered at once, so a rolling upgrade does not hang on their polls;
requests under way are finished.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from anabranch.api.app import create_app
from anabranch.api.certificate import Certificate
from anabranch.api.direct import Direct
from anabranch.api.heads import Heads
from anabranch.api.measured import Measured
from anabranch.api.parts import Parts, opened
from anabranch.api.protocol import IDLE_SECONDS, Protocol
from anabranch.api.room import ROOM_VALUES, Room, Roomy
from anabranch.api.routes.health import Inner
from anabranch.api.settings import Settings
from anabranch.runtime import settle
from anabranch.store import migrate
from anabranch.telemetry import common
from anabranch.telemetry.exporting import exported
from anabranch.telemetry.listener import listening
from anabranch.telemetry.of_api import API

GRACE_SECONDS: Final = 10


class Server(uvicorn.Server):
    """A server that is unready before it ends, and lets followers go.

    Args:
        config: Of uvicorn.
        parts: Of the application.
        drain: Seconds that it goes on answering after it was told to end.
    """

    def __init__(self, config: uvicorn.Config, parts: Parts, *, drain: float) -> None:
        super().__init__(config)
        self._parts = parts
        self._drain = drain
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: on a signal. A second one ends it without draining.

        uvicorn's own way would end the process by the signal that it has served, as if it had been killed by it.
        """
        del sig, frame
        if self._parts.stores.ending:
            self.should_exit = True
        else:
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self._parts.stores.end()
        self._loop.call_later(self._drain, setattr, self, "should_exit", True)


async def serve(settings: Settings) -> None:
    """Serve until a signal ends it.

    Raises:
        UnavailableError: If Postgres cannot be reached at the start.
        InvalidInputError: If a setting does not do.
    """
    async with exported("anabranch-api"), opened(settings) as parts:
        config = uvicorn.Config(
            Measured(Heads(Roomy(Direct(create_app(parts), parts), Room(), Room(ROOM_VALUES)))),
            host=settings.host,
            port=settings.port,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # nobody's address is looked at
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        common.describe(schema=migrate.head())
        inner = listening(API, Inner(parts), host=settings.health_host, port=settings.health_port)
        async with _encrypted(config, settings), inner:
            settle()
            await Server(config, parts, drain=settings.drain).serve()


@contextlib.asynccontextmanager
async def _encrypted(config: uvicorn.Config, settings: Settings) -> AsyncIterator[None]:
    """Serve by TLS, where a certificate is set, and follow its files."""
    if settings.tls is None:
        yield
        return
    certificate = Certificate(*settings.tls)
    config.load()
    config.ssl = certificate.context  # a context of our own, since uvicorn's reads the files once
    following = asyncio.create_task(certificate.follow(), name="certificate")
    try:
        yield
    finally:
        following.cancel()


def run(settings: Settings) -> None:
    """Serve, in a loop of its own."""
    uvloop.run(serve(settings))
