"""Readers of single records at an old generation of a line: many at once, each of whom waits for its own."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from benchmarks.stage import key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

READERS = 32
OLD = 1
"""The generation that they read."""


async def timed(read: Callable[[int, str], Awaitable[bool]], size: int, reads: int) -> float:
    """Reads a second by 32 readers, each waiting for its own."""
    chance = random.Random(size + reads)

    async def reader(number: int) -> None:
        for _ in range(reads):
            if not await read(number, key(chance.randrange(size))):
                raise LookupError("a record is missing")

    began = time.perf_counter()
    await asyncio.gather(*map(reader, range(READERS)))
    return READERS * reads / (time.perf_counter() - began)
