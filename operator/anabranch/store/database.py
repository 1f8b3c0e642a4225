"""The way to Postgres: a pool, short transactions, and what to do when the server is away or refuses.

Services hold a `Database` and take a connection for one statement or one transaction at a time. Whatever goes wrong
below comes out as an `UnavailableError` that says what to do, but for a lost race (serialization failure, deadlock),
which `Database.run` tries again. Transactions are kept to milliseconds: no caller waits for a network or a model inside
one, and the server ends a statement or a transaction that stays longer than it should.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, TypeVar

import asyncpg

from anabranch.model.errors import UnavailableError
from anabranch.store import pools
from anabranch.store.durability import RefusedError, UnsettledError
from anabranch.store.gate import Gate
from anabranch.store.notices import Listener, Notifier
from anabranch.store.standbys import Standbys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
"""What every function of the store takes first: a connection, inside a transaction where the function says so."""


Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]

_T = TypeVar("_T")

_CONNECT_SECONDS: Final = 10.0
_ACQUIRE_SECONDS: Final = 30.0
_RELEASE_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 3.0
_LET_GO_SECONDS: Final = 1.0
_ATTEMPTS: Final = 8

LOST_RACES: Final = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""What a transaction ends with that lost a race for the same rows: nothing of it was written; it may be repeated."""

_UNREACHABLE: Final[tuple[type[Exception], ...]] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what the driver says when the server ends the session between two statements
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,  # no disk, no memory, no connection left
    asyncpg.PostgresIOError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # a failover has not reached this connection yet
    ConnectionError,
)
_TOO_SLOW: Final = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)


class Database:
    """A pool of connections to one Postgres, and the process's two hands on its notifications.

    Attributes:
        standbys: Its standbys, for what `anabranch.store.standbys.read` reads; None: none are read.
    """

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        aside: asyncpg.Pool[asyncpg.Record],
        dsn: str,
        application_name: str,
        standbys: Standbys | None = None,
    ) -> None:
        self._pool = pool
        self._aside = aside
        self._gate = Gate(answers=self.answers, writes=self._pooled)
        self.standbys = standbys
        self._dsn = dsn
        self._application_name = application_name
        self._notifier = Notifier(self.connection)

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        application_name: str,
        min_size: int = 1,
        max_size: int = 10,
        standbys_dsn: str | None = None,
    ) -> Self:
        """Connect.

        Args:
            dsn: ``postgresql://user:password@host:port/database``, of the primary; with several hosts and
                ``target_session_attrs=read-write`` whichever that is.
            application_name: What ``pg_stat_activity`` shows.
            min_size: Connections that stay open.
            max_size: Connections at most, besides that of `answers` and that of `listen`.
            standbys_dsn: Of its streaming standbys, which need not be there; None: none are read.

        Raises:
            UnavailableError: If the server does not answer, or refuses the login.
        """
        with _translated(
            OSError, TimeoutError, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError
        ):
            pool = await pools.create(
                dsn,
                application_name=application_name,
                min_size=min_size,
                max_size=max_size,
                connect_seconds=_CONNECT_SECONDS,
            )
            aside = await pools.create(
                dsn,
                application_name=f"{application_name} signs of life",
                min_size=0,
                max_size=1,
                connect_seconds=_ANSWER_SECONDS,
            )
        standbys = await Standbys.open(standbys_dsn, application_name=application_name) if standbys_dsn else None
        return cls(pool, aside=aside, dsn=dsn, application_name=application_name, standbys=standbys)

    async def close(self) -> None:
        """Send what is still to be notified, and close every connection once its user has given it back."""
        async with contextlib.AsyncExitStack() as then:  # the last of them first, and each also after a failure
            then.push_async_callback(self._aside.close)
            then.push_async_callback(self._gate.end)  # behind the pool: it lets those go who would wait for ever
            then.push_async_callback(self._pool.close)
            if self.standbys is not None:
                then.push_async_callback(self.standbys.close)
            then.push_async_callback(self._notifier.close)

    def use(self) -> dict[str, int]:
        """Connections of the pool: those in use (``used``), open besides (``idle``), and at most (``most``)."""
        idle = self._pool.get_idle_size()
        return {"used": self._pool.get_size() - idle, "idle": idle, "most": self._pool.get_max_size()}

    @property
    def commits_wait(self) -> bool:
        """Whether commits wait for a synchronous standby, and writes are refused for it."""
        return self._gate.closed

    @contextlib.asynccontextmanager
    async def answers(self) -> AsyncIterator[Connection]:
        """The one connection that is free when all others wait, for asking whether Postgres answers.

        Raises:
            UnavailableError: If it does not.
        """
        with _translated(OSError, TimeoutError):
            conn = await self._aside.acquire(timeout=_ANSWER_SECONDS)
        try:
            with _translated():
                yield conn
        finally:
            with contextlib.suppress(TimeoutError):
                await self._aside.release(conn, timeout=_LET_GO_SECONDS)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection on which each statement commits by itself; while commits wait, one snapshot, for reading.

        Raises:
            UnavailableError: If there is none to be had, or it breaks.
            RefusedError: If it is to write while commits wait for a synchronous standby.
            UnsettledError: If a commit on it may be on the primary alone.
        """
        async with self._taken() as conn:
            if self._gate.closed:
                async with _for_reading(conn):
                    yield conn
            else:
                yield conn

    @contextlib.asynccontextmanager
    async def transaction(
        self, *, readonly: bool = False, isolation: Isolation | None = None
    ) -> AsyncIterator[Connection]:
        """A connection inside a transaction, which commits at the end of the block and rolls back on an error.

        Args:
            readonly: Whether Postgres is to refuse writes.
            isolation: The server's default (read committed) unless given.

        Raises:
            UnavailableError: As `connection`. After a broken COMMIT the outcome is unknown: callers repeat by a key.
        """
        async with self._taken() as conn:
            if self._gate.closed:
                async with _for_reading(conn, isolation=isolation):
                    yield conn
            else:
                async with conn.transaction(isolation=isolation, readonly=readonly):
                    yield conn

    @contextlib.asynccontextmanager
    async def _taken(self) -> AsyncIterator[Connection]:
        """A connection of the pool, whatever the gate says; a kind of database may bound it."""
        async with self._pooled(meanwhile=self._gate.without()) as conn:
            yield conn

    @contextlib.asynccontextmanager
    async def _pooled(self, *, meanwhile: AbstractContextManager[None] | None = None) -> AsyncIterator[Connection]:
        """The same, for the gate itself; the other block is entered while there is none to be had."""
        with _translated(OSError, TimeoutError), meanwhile or contextlib.nullcontext():
            conn = await self._pool.acquire(timeout=_ACQUIRE_SECONDS)
        pools.take_unsettled(conn)  # of a block that has ended with another error
        try:
            with _translated(), self._gate.holding():
                yield conn
            if pools.take_unsettled(conn):
                self._gate.close()
                raise UnsettledError
        finally:
            # A statement that was given up, on a server that has gone silent, is not waited for to be cancelled.
            with contextlib.suppress(TimeoutError):
                await self._pool.release(conn, timeout=_RELEASE_SECONDS)

    async def run(
        self,
        work: Callable[[Connection], Awaitable[_T]],
        *,
        readonly: bool = False,
        isolation: Isolation | None = None,
    ) -> _T:
        """Run a transaction, and again when it lost a race (serialization failure, deadlock).

        Args:
            work: What to do in it. It may run several times, so it has no effect but on the database.
            readonly: As in `transaction`.
            isolation: As in `transaction`.

        Raises:
            UnavailableError: As `connection`, or when the race was lost too often.
        """
        for attempt in range(_ATTEMPTS):
            try:
                async with self.transaction(readonly=readonly, isolation=isolation) as conn:
                    return await work(conn)
            except LOST_RACES:
                await asyncio.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311  (jitter, not a secret)
        raise UnavailableError(
            f"The transaction lost {_ATTEMPTS} races for the same rows.", hint="Try again; others are writing too."
        )

    def notify(self, topic: str) -> None:
        """Tell every listening process to look at a topic, a few milliseconds from now.

        Called after a commit, never inside a transaction: NOTIFY serializes commits. Topics of the same moment go
        together, and a lost notification costs no more than the wait for the listeners' next poll.
        """
        self._notifier.add(topic)

    def listen(self, *, dsn: str | None = None) -> Listener:
        """Follow the topics that any process notifies.

        Used as::

            async with database.listen() as topics:
                async for topic in topics: ...

        Args:
            dsn: A direct way to the server, where the pool's own goes through a transaction pooler, which LISTEN does
                not survive.
        """
        return Listener(dsn or self._dsn, application_name=f"{self._application_name} listen")


async def now(conn: Connection) -> datetime:
    """The database's clock: the one by which everything here is dated."""
    moment: datetime = await conn.fetchval("SELECT clock_timestamp()")
    return moment


@contextlib.asynccontextmanager
async def _for_reading(conn: Connection, *, isolation: Isolation | None = None) -> AsyncIterator[None]:
    """A transaction in which Postgres refuses writes. Settings of a session would go astray behind a pooler.

    Its isolation is what readers ask for who ask for one: they begin a transaction inside.
    """
    try:
        async with conn.transaction(readonly=True, isolation=isolation or "repeatable_read"):
            yield
    except (asyncpg.ReadOnlySQLTransactionError, asyncpg.InFailedSQLTransactionError) as error:
        raise RefusedError from error


@contextlib.contextmanager
def _translated(*more: type[Exception]) -> Iterator[None]:
    """Turn the driver's errors that mean "not now" into ours."""
    try:
        yield
    except _TOO_SLOW as error:
        raise UnavailableError(
            f"Postgres gave up waiting: {error}.", hint="Try again; if it stays, look for a long transaction."
        ) from error
    except (*_UNREACHABLE, *more) as error:
        raise UnavailableError(
            f"Postgres cannot be used now: {str(error) or type(error).__name__}.",
            hint="Check that the server runs and that the DSN is right, then try again.",
        ) from error
