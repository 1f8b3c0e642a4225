"""Many questions of the same moment, asked of Postgres as one.

A process that starts meets thousands of objects, and each of them raises the same question. Whoever asks waits for a
moment, in which others join in; one query then answers all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

Q = TypeVar("Q")
A = TypeVar("A")

GATHER_SECONDS: Final = 0.02
"""How long the first of a handful waits for more."""


class Bulk(Generic[Q, A]):
    """Asks for many at once.

    Args:
        answer: What is known of some of these questions; the others have no answer.
        name: Of what is asked, for its task.
    """

    def __init__(self, answer: Callable[[Sequence[Q]], Awaitable[Mapping[Q, A]]], *, name: str) -> None:
        self._answer = answer
        self._name = name
        self._gathered: dict[Q, asyncio.Future[A | None]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def ask(self, question: Q) -> A | None:
        """The answer; None: there is none.

        Raises:
            AnabranchError: Whatever asking for all of them fails with.
        """
        if not self._gathered:
            task = asyncio.create_task(self._ask(), name=self._name)
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        if question not in self._gathered:
            self._gathered[question] = asyncio.get_running_loop().create_future()
        return await self._gathered[question]

    async def _ask(self) -> None:
        """Wait for more, then ask for all of them."""
        await asyncio.sleep(GATHER_SECONDS)
        asked, self._gathered = self._gathered, {}
        try:
            answers = await self._answer(list(asked))
        except Exception as error:  # noqa: BLE001  (whoever waits for the answer takes it, whatever it is)
            for waiting in asked.values():
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for question, waiting in asked.items():
            if not waiting.done():
                waiting.set_result(answers.get(question))
