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
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
        self._rung.clear()
