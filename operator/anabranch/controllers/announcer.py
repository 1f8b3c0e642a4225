"""Kubernetes Events for what happened, told in the background.

An Event must never hold up or fail the status that it accompanies, so it is queued and sent after it. A process that
dies with Events in its queue tells them never, and two processes that see the same transition tell it once (its name is
made from what it tells): at most once, nearly always once. Conditions in `status` are what to rely on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.kube.errors import ObjectNotFoundError
from anabranch.kube.events import emit
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient
    from anabranch.kube.events import ObjectRef, Occurrence

_log = structlog.get_logger(__name__)

_QUEUED: Final = 5_000
_PARALLEL: Final = 4


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
        """Wait until the queue is empty, at most so long."""
        try:
            await asyncio.wait_for(self._queue.join(), seconds)
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
