"""A worker that stays in step: rounds for as long as the agent works, and the feed as it comes in between.

An API that cannot be reached, or a token that has run out, ends a round and not the run: the next one comes after a
pause that grows. What comes to wait is sent at once; what is accepted arrives by the stream; and in between the agent's
lease is renewed, and looked at whether its grants still stand.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

from anabranch.client.worker import state
from anabranch.client.worker.passing import passes
from anabranch.client.worker.rounds import Rounds, baseline_of
from anabranch.client.worker.values import Follow
from anabranch.domain.backoff import delay
from anabranch.model.errors import AnabranchError, GoneError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from anabranch.client.agent_events import OnEvent
    from anabranch.model.objects import BranchManifest, SharedEvent

_LOOK_SECONDS: Final = 60.0
"""From one look at the branch, the terms and the grants of scopes to the next."""

_GOODBYE_SECONDS: Final = 2.0
_OFF_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Running(Rounds):
    """Rounds without an end."""

    on_event: OnEvent | None = None
    """Deals with an event of the agent; None: its events are left where they are."""

    async def run(self) -> None:
        """Stay in step until the run is completed (see `Worker.run`)."""
        if self.on_event is None:
            await self._stay()
            return
        # Apart from the rounds: what breaks one of them must not break off an event that is being dealt with.
        await _first_of(self._stay(), self._attend(self.on_event))

    async def _stay(self) -> None:
        failures = 0
        while True:
            try:
                await self.sync()
                failures = 0
                await self._keep_up()
            except AnabranchError as error:
                if not passes(error):
                    raise
                self.trouble = error
                failures += 1
                chance = random.random()  # noqa: S311  (it spreads retries, it keeps no secret)
                await asyncio.sleep(delay(failures, chance=chance, base=_FIRST_PAUSE, limit=_LONGEST_PAUSE))
            else:
                return

    async def leave(self) -> None:
        """Say that the agent goes away, if the API can be reached now: its peers need not wait for its lease to end."""
        branch = await self._file.read(state.branch)
        if branch is not None and branch.phase != "Completed":
            with contextlib.suppress(AnabranchError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._client.presence(self._namespace, branch.branch_id, state="stale")

    async def _keep_up(self) -> None:
        """Send what comes to wait and receive what is accepted, until the run is completed or something fails."""
        await _first_of(self._go_on_sending(), self._go_on_receiving(), self._tend())

    async def _attend(self, handle: OnEvent) -> None:
        """Deal with the events of the agent's instance, once it is known which that is."""
        while (branch := await self._file.read(state.branch)) is None:  # noqa: ASYNC110  (the file tells nobody)
            await asyncio.sleep(_OFF_SECONDS)
        await self._client.handle_events(self._namespace, branch.agent_id, handle, instance=branch.agent_instance)

    async def _go_on_sending(self) -> None:
        while True:
            branch = await self._file.read(state.branch)
            if branch is None or branch.phase == "Completed":
                return
            await self.work.wait()
            await self._send(branch)

    async def _go_on_receiving(self) -> None:
        while True:
            branch = await self._file.read(state.branch)
            if branch is None or self._followed(branch) is Follow.OFF:
                await asyncio.sleep(_OFF_SECONDS)
                continue
            try:
                async with self._granted():
                    await self._stream(branch)
            except GoneError as error:
                if error.code != "CursorExpired":
                    raise
                await self._receive(branch)

    async def _stream(self, branch: BranchManifest) -> None:
        """Take what the feed brings, until the worker's place in it is moved by something else, or it stops following.

        Raises:
            GoneError: With code ``CursorExpired``: a snapshot is needed.
        """
        namespace, name = baseline_of(branch)
        follower = self._follower(branch)
        place = await follower.place()
        events: list[SharedEvent] = []
        async with contextlib.aclosing(self._client.follow(namespace, name, **place)) as items:
            async for item in items:
                if item.event is not None:
                    events.append(item.event)
                if item.cursor is None:
                    continue
                async with self._receiving:
                    follow = self._followed(branch)
                    if follow is Follow.OFF or await follower.place() != place:
                        return
                    await follower.take(events, cursor=item.cursor, apply=follow is Follow.APPLY)
                place, events = {"after": item.cursor}, []

    async def _tend(self) -> None:
        """Say again and again that the agent is there, and look at what it may do."""
        clock = asyncio.get_running_loop().time
        looked_at = clock()
        while True:
            branch = await self._file.read(state.branch)
            if branch is None:
                return
            await asyncio.sleep(min(branch.lease_seconds / 3, _LOOK_SECONDS))
            if clock() - looked_at >= _LOOK_SECONDS:
                branch = await self._known()
                await self._look(branch)
                looked_at = clock()
            await self._tell(branch)


async def _first_of(*each: Coroutine[Any, Any, None]) -> None:
    """Do several things until one of them is done or fails; then let go of the others."""
    tasks = [asyncio.create_task(one) for one in each]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
