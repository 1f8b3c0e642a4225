"""The wake queue: nothing in Kubernetes wakes an object when only Postgres changes, so Postgres does.

Jobs with work to do, leases that ran out, batches that have no job yet, jobs that have no resource yet, and objects
that wait for another are all rows with a time in them. Each kind of row has a *look*: a function that takes some of
what is due, does it, and tells whether there may be more. A look runs when the bell rings and at least once a second,
so nothing rests on a notification. Looks take rows in ways that exclude each other in Postgres: any number of processes
may run them.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from anabranch.controllers.bell import Bell
from anabranch.domain import backoff
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.025
"""Between the beginnings of two looks: in a storm of rings a look is still made once, for all that came meanwhile."""

_LONGEST_PAUSE_SECONDS: Final = 10.0


class Look(Protocol):
    """Takes what is due of one kind, and does it."""

    @property
    def name(self) -> str:
        """For the log."""

    @property
    def look(self) -> Callable[[], Awaitable[bool]]:
        """Does some of what is due; answers whether to look again at once."""


@dataclass(frozen=True)
class Chore:
    """A look that is one function, which says whether there may be more."""

    name: str
    look: Callable[[], Awaitable[bool]]


class Able:
    """A look that is left to other processes while this one cannot do what it is for.

    What is found is taken for a while: who takes it and fails keeps it from those who could have done it.

    Args:
        look: What to look for.
        able: Whether this process can do it now.
    """

    def __init__(self, look: Look, able: Callable[[], bool]) -> None:
        self.name = look.name
        self._look = look
        self._able = able

    async def look(self) -> bool:
        """Look if it may."""
        return self._able() and await self._look.look()


class Seldom:
    """A look that rests after it has found no more, whoever rings meanwhile: for what can wait for its next turn.

    Args:
        name: For the log.
        look: As of a `Chore`.
        rest_seconds: For how long.
    """

    def __init__(self, name: str, look: Callable[[], Awaitable[bool]], *, rest_seconds: float) -> None:
        self.name = name
        self._look = look
        self._rest_seconds = rest_seconds
        self._rest_until = 0.0

    async def look(self) -> bool:
        """Look unless it rests."""
        now = asyncio.get_running_loop().time
        if now() < self._rest_until:
            return False
        more = await self._look()
        if not more:
            self._rest_until = now() + self._rest_seconds
        return more


class WakeQueue:
    """Runs looks until cancelled.

    Args:
        looks: What to run; each in a loop of its own, so that a slow one holds up no other.
    """

    def __init__(self, looks: Sequence[Look]) -> None:
        self._looks = [(look, Bell()) for look in looks]

    def ring(self) -> None:
        """Make every look happen now."""
        for _, bell in self._looks:
            bell.ring()

    async def run(self) -> None:
        """Look, and look again."""
        async with asyncio.TaskGroup() as group:
            for look, bell in self._looks:
                group.create_task(_keep_looking(look, bell), name=f"look for {look.name}")


async def listen(db: Database, *, dsn: str | None, ring: Callable[[], None]) -> None:
    """Ring at every notification of any process, until cancelled.

    Whatever is notified, a batch, a review, a publication, leaves something to do or to show, so topics are not told
    apart here.

    Args:
        db: The database.
        dsn: A direct way to it, where `db` goes through a transaction pooler.
        ring: What to call.
    """
    async with db.listen(dsn=dsn) as topics:
        async for _ in topics:
            ring()


async def _keep_looking(look: Look, bell: Bell) -> None:
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        try:
            again = await look.look()
        except AnabranchError as error:
            failures += 1
            _log.warning("look failed", look=look.name, error=str(error))
        except Exception:  # noqa: BLE001  (one look that fails must not end the others)
            failures += 1
            _log.exception("look failed", look=look.name)
        else:
            failures = 0
            if not again:
                await bell.wait(POLL_SECONDS)
                await asyncio.sleep(max(0.0, began + REST_SECONDS - loop.time()))
            continue
        await asyncio.sleep(backoff.delay(failures, chance=random.random(), limit=_LONGEST_PAUSE_SECONDS))  # noqa: S311  (jitter)
