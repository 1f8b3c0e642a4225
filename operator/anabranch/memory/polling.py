"""A bounded poll of an agent's events: those that wait are claimed, or those that come within a moment.

Whether the agent may still have them is asked again every few seconds while there is nothing to claim: a grant that is
taken back ends a poll that waits as it ends a stream. And nothing is claimed for a caller that has gone: it would be
out of everybody's reach until its deadline, and a caller that gives up and asks again would use up its attempts unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final

from anabranch.memory import delivery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from anabranch.feed.waking import Waking
    from anabranch.model.agent_events import AgentEvent
    from anabranch.model.memory import AgentKey
    from anabranch.store.database import Database

LOOK_SECONDS: Final = 3.0
"""From one look to the next, where nothing is heard: what was sent back comes again by itself, and a notification may
be lost."""


async def poll(  # noqa: PLR0913  (all but the parts and the agent by keyword)
    db: Database,
    waking: Waking,
    who: AgentKey,
    *,
    limit: int,
    visibility: timedelta,
    wait: float,
    still: Callable[[], Awaitable[object]],
    gone: Callable[[], Awaitable[bool]],
) -> list[AgentEvent]:
    """Claim the events that wait; if there are none, those that come within a while.

    Args:
        db: The store.
        waking: Says when to look.
        who: Whose events.
        limit: How many at most.
        visibility: How long they are the caller's to acknowledge.
        wait: Seconds to wait for a first one.
        still: Asks whether the caller may have them, of this very moment; raises when not.
        gone: Whether the caller has hung up.

    Raises:
        AnabranchError: What `still` raises.
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait
    asked_at = -math.inf  # what let the request in may be remembered for as long as it may count
    with waking.hearing(who.topic) as came:
        while True:
            came.clear()
            if await gone():
                return []
            events = await delivery.claim(db, who, limit=limit, visibility=visibility)
            left = deadline - clock()
            if events or left <= 0 or waking.ending:
                return events
            if clock() - asked_at >= LOOK_SECONDS:
                await still()
                asked_at = clock()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await came.wait()
