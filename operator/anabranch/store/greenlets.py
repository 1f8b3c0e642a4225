"""Lets synchronous code wait for the database, so that one function serves both: its caller's thread stays free.

The trie's code is a generator that asks for records as it goes and knows nothing of a database. Run in a greenlet, it
is set aside whenever it waits, and goes on when its answer is there. SQLAlchemy does the same inside, but its import
would cost every process most of a second.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
T = TypeVar("T")


async def run(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a synchronous function that may call `wait`; what it raises, this raises.

    A cancellation is raised in the function, where it waits.
    """
    work = greenlet(function)
    work.gr_context = getcurrent().gr_context
    step: Any = work.switch(*arguments, **named)
    while not work.dead:
        try:
            answer = await step
        except BaseException:  # noqa: BLE001  (it is the function's to handle: a cancellation, too)
            step = work.throw(*sys.exc_info())
        else:
            step = work.switch(answer)
    result: T = step
    return result


def wait(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, for a function that `run` runs."""
    work = getcurrent().parent
    if work is None:
        raise RuntimeError("wait() outside of a function that run() runs")
    answer: T = work.switch(awaitable)
    return answer
