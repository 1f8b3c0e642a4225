"""What goes on in a task is told in its own trace."""

from __future__ import annotations

import asyncio

from anabranch.telemetry import tracing

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


async def test_a_task_that_outlives_a_request_is_no_part_of_it():
    async def told():
        await asyncio.sleep(0)
        return tracing.handed_on()

    tracing.request(CALLER)
    assert await asyncio.create_task(told()) == CALLER
    assert await tracing.apart(told(), name="feed") is None
    assert tracing.handed_on() == CALLER
