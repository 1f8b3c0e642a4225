"""A bell that wakes loops: rung often, heard once. Nothing rests on it, since every loop also looks by the clock."""

from __future__ import annotations

import asyncio
import contextlib


class Bell:
    """Wakes whoever waits; a ring while nobody waits is heard by the next one who does."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the loop."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, at most so long."""
        # Not by wait_for: up to Python 3.11 it swallows a cancellation that comes at the same moment as the ring.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
