"""Streaming standbys: what never changes is read there, so that many readers do not cost the primary anything.

A standby is behind, by nothing or by hours; it may have been promoted, or follow another primary than ours. So nothing
is ever believed of it but one thing: the content of a manifest that the primary has named, by an id that no other
history has. A manifest never changes, so whoever has it has all of it. A standby that lacks it, that is away, is slow,
or fails in whatever way, is passed over, and the primary answers: the same, a little later.

One that failed is left alone until a probe in the background finds it well, so that no reader waits for it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, TypeVar

import asyncpg

from anabranch.model.errors import AnabranchError
from anabranch.store import manifests, pools
from anabranch.telemetry.of_api import STANDBY_READS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from anabranch.store.database import Connection, Database

_T = TypeVar("_T")

_CONNECTIONS: Final = 10
_CONNECT_SECONDS: Final = 2.0
_TURN_SECONDS: Final = 0.2
"""How long a read waits for a connection. Who finds none free takes one of the primary's."""

READ_SECONDS: Final = 5.0
"""How long a read may take before the primary is asked instead."""

_LET_GO_SECONDS: Final = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0

_CONFLICTS: Final = (asyncpg.SerializationError, asyncpg.QueryCanceledError)
"""What a healthy standby ends a read with that keeps it from following the primary, or takes too long."""

_log = logging.getLogger(__name__)


class PassedOverError(Exception):
    """No standby gives the answer; the primary does."""


class Standbys:
    """The standbys of a primary, behind one address.

    Args:
        pool: Of connections to any of them.
    """

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool
        self._pause = _FIRST_PAUSE
        self._probing: asyncio.Task[None] | None = None
        self._leave_alone(at_once=True)

    @classmethod
    async def open(cls, dsn: str, *, application_name: str) -> Standbys:
        """Begin to look for them; it does not matter whether they are there.

        Args:
            dsn: ``postgresql://user:password@host:port/database``; several hosts are tried in turn.
            application_name: What ``pg_stat_activity`` shows.
        """
        pool = await pools.create(
            dsn,
            application_name=f"{application_name} reads",
            min_size=0,
            max_size=_CONNECTIONS,
            connect_seconds=_CONNECT_SECONDS,
            settings={"default_transaction_read_only": "on", "statement_timeout": f"{READ_SECONDS:.0f}s"},
        )
        return cls(pool)

    @property
    def left_alone(self) -> bool:
        """Whether they failed, or were not reached yet."""
        return self._probing is not None

    async def close(self) -> None:
        """Close every connection, without waiting for a server that does not answer."""
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
        self._pool.terminate()

    async def read(
        self,
        line: str,
        baseline_ids: Collection[str],
        work: Callable[[Connection], Awaitable[_T]],
        enough: Callable[[_T], bool],
    ) -> _T:
        """Read manifests on one of them.

        Args:
            line: The line.
            baseline_ids: The manifests', each once, as the primary named them.
            work: Reads nothing else. What it raises of ours is for the primary to say.
            enough: Whether the answer will do.

        Raises:
            PassedOverError: If it cannot be done, or would not be right.
        """
        if self.left_alone:
            raise _passed_over("away")
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                conn = await self._pool.acquire()
        except TimeoutError:
            # Full, or slow to connect: the probe will tell which.
            if self._pool.get_idle_size() == 0 and self._pool.get_size() < _CONNECTIONS:
                self._leave_alone()
            raise _passed_over("busy") from None
        except pools.FAILURES as error:
            raise self._failed(error) from error
        try:
            async with asyncio.timeout(READ_SECONDS):
                if not await manifests.has(conn, line=line, baseline_ids=baseline_ids):
                    raise _passed_over("behind")
                answer = await work(conn)
                if not enough(answer):
                    raise _passed_over("behind")
        except AnabranchError as error:
            raise _passed_over("behind") from error
        except _CONFLICTS as error:
            raise _passed_over("conflict") from error
        except pools.FAILURES as error:
            conn.terminate()  # it is not worth waiting for
            raise self._failed(error) from error
        finally:
            await self._pool.release(conn, timeout=_LET_GO_SECONDS)
        self._pause = _FIRST_PAUSE
        STANDBY_READS.labels("standby").inc()
        return answer

    def _failed(self, error: Exception) -> PassedOverError:
        if not self.left_alone:
            _log.warning("The standbys are left alone for a while: %s", str(error) or type(error).__name__)
        self._leave_alone()
        return _passed_over("failed")

    def _leave_alone(self, *, at_once: bool = False) -> None:
        if self.left_alone:
            return
        self._probing = asyncio.get_running_loop().create_task(self._probe(0.0 if at_once else self._pause))

    async def _probe(self, pause: float) -> None:
        """Wait until one of them answers."""
        while True:
            await asyncio.sleep(pause)
            # Only a read that succeeds makes the pauses short again: one may answer a probe, and fail at each read.
            self._pause = pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * pause))
            with contextlib.suppress(*pools.FAILURES):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    conn = await self._pool.acquire()
                    try:
                        await conn.fetchval("SELECT 1")
                    except BaseException:
                        conn.terminate()
                        raise
                    finally:
                        await self._pool.release(conn, timeout=_LET_GO_SECONDS)
                self._probing = None
                return


async def read(
    db: Database,
    *,
    line: str,
    baseline_ids: Collection[str],
    work: Callable[[Connection], Awaitable[_T]],
    enough: Callable[[_T], bool] = lambda _: True,
) -> _T:
    """Read manifests, on a standby if there is one that has them, else on the primary.

    Args:
        db: The store.
        line: The line.
        baseline_ids: The manifests', each once, as the primary named them, now or a few seconds ago.
        work: Reads them, and nothing that changes. It may run twice.
        enough: Whether a standby's answer will do. What the primary says always does.

    Raises:
        UnavailableError: If the primary is needed, and cannot be reached.
    """
    if db.standbys is not None:
        with contextlib.suppress(PassedOverError):
            return await db.standbys.read(line, baseline_ids, work, enough)
    async with db.connection() as conn:
        return await work(conn)


def _passed_over(why: str) -> PassedOverError:
    STANDBY_READS.labels(why).inc()
    return PassedOverError(why)
