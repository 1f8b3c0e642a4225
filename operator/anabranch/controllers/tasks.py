"""Tasks that run beside each other: begun and ended with a block, watched together, told by signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator


@contextlib.contextmanager
def signals(stop: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set an event, where this loop runs in the main thread."""
    loop = asyncio.get_running_loop()
    # In another thread, as tests have it, whoever runs the loop there has the event.
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def background(coroutine: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run something while the block runs."""
    task = asyncio.create_task(coroutine, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def first(*waits: Coroutine[Any, Any, Any], tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until one of the waits is over; a task that ends before that raises what ended it.

    Raises:
        Exception: Of the task that ended.
        RuntimeError: If a task ended without one, though none is meant to.
    """
    own = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait({*own, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done.difference(own):
            task.result()
            raise RuntimeError(f"{task.get_name()} ended by itself")
    finally:
        for wait in own:
            wait.cancel()
        await asyncio.gather(*own, return_exceptions=True)
