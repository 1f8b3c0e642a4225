"""Synchronous code that waits: what it waits for, raises and returns passes through whole."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from anabranch.store import greenlets


async def later(value):
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


async def test_it_waits_as_often_as_it_likes_and_its_result_is_the_caller_s():
    def total(count):
        return sum(greenlets.wait(later(number)) for number in range(count))

    assert await greenlets.run(total, 5) == 10
    assert await asyncio.gather(*(greenlets.run(total, count) for count in range(4))) == [0, 0, 1, 3]


async def test_what_it_waits_for_may_fail_and_it_may_handle_that():
    def handling():
        try:
            greenlets.wait(later(ValueError("no")))
        except ValueError as error:
            return greenlets.wait(later(f"handled {error}"))

    assert await greenlets.run(handling) == "handled no"


async def test_what_it_raises_the_caller_sees():
    def failing():
        greenlets.wait(later(None))
        raise KeyError("key")

    with pytest.raises(KeyError, match="key"):
        await greenlets.run(failing)


async def test_a_cancellation_ends_it_where_it_waits():
    ended = []

    def waiting():
        try:
            greenlets.wait(asyncio.Event().wait())
        finally:
            ended.append("cleaned up")

    task = asyncio.create_task(greenlets.run(waiting))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended == ["cleaned up"]


async def test_it_sees_the_caller_s_context_and_runs_in_the_caller_s_task():
    name = ContextVar("name")
    name.set("caller")
    task = asyncio.current_task()

    assert await greenlets.run(lambda: (name.get(), asyncio.current_task())) == ("caller", task)


def test_waiting_anywhere_else_is_refused():
    with pytest.raises(RuntimeError, match="outside"):
        greenlets.wait(None)
