"""The way to Postgres: a pool, short transactions, and what to do when the server is away or refuses.

Services hold a `Database` and take a connection for one statement or one transaction at a time. Whatever goes wrong
below comes out as an `UnavailableError` that says what to do, but for a lost race (serialization failure, deadlock),
which `Database.run` tries again. Transactions are kept to milliseconds: no caller waits for a network or a model inside
one, and the server ends a statement or a transaction that stays longer than it should.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import asyncpg

from anabranch.model.errors import UnavailableError
from anabranch.store.notices import Listener, Notifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from datetime import datetime

    from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
"""What every function of the store takes first: a connection, inside a transaction where the function says so."""

Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]

_T = TypeVar("_T")

_SETTINGS: Final = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "jit": "off",  # compiling takes longer than any query here runs
    # Every query walks an index that begins with what it names. A plan must not depend on how large a line was when the
    # statement was first planned on this connection, or on whether the statistics have seen the line yet.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
_CONNECT_SECONDS: Final = 10.0
_ACQUIRE_SECONDS: Final = 30.0
_ATTEMPTS: Final = 8

LOST_RACES: Final = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""What a transaction ends with that lost a race for the same rows: nothing of it was written; it may be repeated."""

_UNREACHABLE: Final[tuple[type[Exception], ...]] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what the driver says when the server ends the session between two statements
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # a failover has not reached this connection yet
    ConnectionError,
)
_TOO_SLOW: Final = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)


class Database:
    """A pool of connections to one Postgres, and the process's two hands on its notifications."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], *, dsn: str, application_name: str) -> None:
        self._pool = pool
        self._dsn = dsn
        self._application_name = application_name
        self._notifier = Notifier(self.connection)

    @classmethod
    async def open(cls, dsn: str, *, application_name: str, min_size: int = 1, max_size: int = 10) -> Database:
        """Connect.

        Args:
            dsn: ``postgresql://user:password@host:port/database``.
            application_name: What ``pg_stat_activity`` shows.
            min_size: Connections that stay open.
            max_size: Connections at most.

        Raises:
            UnavailableError: If the server does not answer, or refuses the login.
        """
        with _translated(
            OSError, TimeoutError, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError
        ):
            pool = await asyncpg.create_pool(
                dsn,
                min_size=min_size,
                max_size=max_size,
                timeout=_CONNECT_SECONDS,
                init=prepare,
                reset=_keep,
                server_settings={"application_name": application_name, **_SETTINGS},
            )
        return cls(pool, dsn=dsn, application_name=application_name)

    async def close(self) -> None:
        """Send what is still to be notified, and close every connection once its user has given it back."""
        await self._notifier.close()
        await self._pool.close()

    def use(self) -> dict[str, int]:
        """Connections of the pool: those in use (``used``), open besides (``idle``), and at most (``most``)."""
        idle = self._pool.get_idle_size()
        return {"used": self._pool.get_size() - idle, "idle": idle, "most": self._pool.get_max_size()}

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection on which each statement commits by itself.

        Raises:
            UnavailableError: If there is none to be had, or it breaks.
        """
        with _translated(OSError, TimeoutError):
            conn = await self._pool.acquire(timeout=_ACQUIRE_SECONDS)
        try:
            with _translated():
                yield conn
        finally:
            await self._pool.release(conn)

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
        async with self.connection() as conn, conn.transaction(isolation=isolation, readonly=readonly):
            yield conn

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


async def prepare(conn: Connection) -> None:
    """Make jsonb travel as Python values, in the binary form that COPY needs too."""
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=_to_jsonb, decoder=_from_jsonb, format="binary")


async def _keep(_conn: Connection) -> None:
    """Nothing to reset: no code here leaves a setting, a lock or a cursor behind. It saves a round trip each time."""


def _to_jsonb(value: Any) -> bytes:
    return b"\x01" + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _from_jsonb(raw: bytes) -> Any:
    return json.loads(memoryview(raw)[1:].tobytes())


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
