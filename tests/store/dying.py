"""A database that fails its user at a step of the test's choice."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anabranch.store.database import Connection, Database

_T = TypeVar("_T")


class KilledError(BaseException):
    """What stands for kill -9."""


class DyingDatabase:
    """A database whose user is killed at its n-th use: before what it did is durable, or just after.

    Args:
        db: The database.
        at: The use at which it happens, from 1.
        before: Whether that use comes to nothing.
        error: What is raised. A `KilledError` is for good; another one stands for an outage, and is raised once.
    """

    def __init__(self, db: Database, *, at: int, before: bool, error: Exception | None = None) -> None:
        self._db = db
        self._left = at
        self._before = before
        self._error = error or KilledError()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        dies = self._dies()
        if dies and self._before:
            raise self._error
        async with self._db.connection() as conn:
            yield conn
        if dies:
            raise self._error

    @contextlib.asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[Connection]:
        dies = self._dies()
        async with self._db.transaction(**options) as conn:
            yield conn
            if dies and self._before:
                raise self._error  # everything was said, and nothing is committed
        if dies:
            raise self._error

    async def run(self, work: Callable[[Connection], Awaitable[_T]], **options: Any) -> _T:
        async with self.transaction(**options) as conn:
            return await work(conn)

    def notify(self, topic: str) -> None:
        self._db.notify(topic)

    def _dies(self) -> bool:
        self._left -= 1
        if self._left < 0 and isinstance(self._error, KilledError):
            raise self._error
        return self._left == 0
