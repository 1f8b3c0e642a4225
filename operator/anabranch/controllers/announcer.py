"""Kubernetes Events for what happened, told in the background.

An Event must never hold up or fail the status that it accompanies, so it is queued and sent after it, and no faster
than kubelets send theirs; while many statuses are being written, slower still, since each Event costs the API server
what a status costs it: what tells of a thousand forks must not delay the next ones. A process that dies with Events
in its queue tells them never, and two processes that see the same transition tell it once (its name is made from what
it tells): at most once, nearly always once. Conditions in `status` are what to rely on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.kube.errors import ObjectNotFoundError
from anabranch.kube.events import emit
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient
    from anabranch.kube.events import ObjectRef, Occurrence

_log = structlog.get_logger(__name__)

_QUEUED: Final = 20_000
_PARALLEL: Final = 4
_A_SECOND: Final = 50
_A_SECOND_ASIDE: Final = 5


class Announcer:
    """Sends Events from a bounded queue; what does not fit is logged and dropped.

    Args:
        kube: To the API server.
        instance: This process, as the Events name it.
    """

    def __init__(self, kube: KubeClient, *, instance: str) -> None:
        self._kube = kube
        self._instance = instance
        self._queue: asyncio.Queue[tuple[ObjectRef, Occurrence]] = asyncio.Queue(_QUEUED)
        self._hurry = asyncio.Event()
        self._aside_until = 0.0

    def step_aside(self, seconds: float) -> None:
        """Leave the API server to more urgent writes for so long: Events go on, but few."""
        self._aside_until = asyncio.get_running_loop().time() + seconds

    def tell(self, about: ObjectRef, occurrence: Occurrence) -> None:
        """Send an Event soon."""
        try:
            self._queue.put_nowait((about, occurrence))
        except asyncio.QueueFull:
            _log.warning("event dropped", object=f"{about.namespace}/{about.name}", reason=occurrence.reason)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_PARALLEL):
                group.create_task(self._send())

    async def drain(self, seconds: float) -> None:
        """Send what is queued as fast as it goes, and wait for that, at most so long."""
        self._hurry.set()
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            _log.warning("events left untold", count=self._queue.qsize())

    async def _send(self) -> None:
        while True:
            about, occurrence = await self._queue.get()
            try:
                await emit(self._kube, about, occurrence, instance=self._instance)
            except ObjectNotFoundError:
                pass  # its namespace is going away, and the Event would go with it
            except AnabranchError as error:
                _log.warning("event not sent", reason=occurrence.reason, error=str(error))
            finally:
                self._queue.task_done()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PARALLEL / self._a_second()):
                    await self._hurry.wait()

    def _a_second(self) -> int:
        aside = asyncio.get_running_loop().time() < self._aside_until
        return _A_SECOND_ASIDE if aside else _A_SECOND
