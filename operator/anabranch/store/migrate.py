"""Brings a database to the schema that this code expects, and says when it is not there.

Alembic keeps the order of the migrations and the version; an advisory lock lets one process migrate at a time, and all
migrations of an upgrade commit together. Three roles keep mistakes small: ``anabranch_migrate`` owns the tables,
``anabranch_operator`` writes them, ``anabranch_api`` cannot write what is published (``0002_roles.sql``).

Alembic is imported by who migrates: with SQLAlchemy it takes over a second, and operator and API only check.
"""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import asyncpg

from anabranch.model.errors import UnavailableError
from anabranch.store import pools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection as SyncConnection

    from anabranch.store.database import Connection

T = TypeVar("T")

MIGRATE_ROLE: Final = "anabranch_migrate"
OPERATOR_ROLE: Final = "anabranch_operator"
API_ROLE: Final = "anabranch_api"

# Alembic hands its context to migrations through module globals.
_one_at_a_time: Final = asyncio.Lock()

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
LOCK: Final = 0x616E6162  # "anab": any number that no other program on this database takes
_PAUSE_SECONDS: Final = 1.0
_ABSENT: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TargetServerAttributeNotMatched,  # of several hosts none takes writes: one is about to
)


class SchemaMismatchError(UnavailableError):
    """The database is not at the schema that this code was written for."""

    code = "SchemaMismatch"


class SchemaNewerError(SchemaMismatchError):
    """It is at one that this code has not heard of, and that was not made for it, too."""


class ServerAbsentError(UnavailableError):
    """There is no server that takes logins: it is not there yet, still starts, or has no place for one more."""


@functools.cache
def head() -> str:
    """The newest schema version that this code knows."""
    if not (known := _known()):
        raise SchemaMismatchError("This installation has no migrations.", hint="Install it again.")
    return max(known)


async def upgrade(dsn: str, *, password: str | None = None) -> str:
    """Migrate a database to `head`; nothing happens where that, or a newer one that allows for this code, is already.

    Several processes may call this at once: one migrates, the others wait for it.

    Args:
        dsn: Of a role that may create tables, ``postgresql://…``.
        password: Of ``anabranch_migrate``; the work is then done as that role, whoever the DSN names, so that it owns
            the tables.

    Returns:
        The schema version that it is at now.

    Raises:
        SchemaNewerError: If it is at one that does not allow for this code.
        UnavailableError: If the server does not answer, or refuses the login.
    """
    from sqlalchemy import text  # noqa: PLC0415  (see the module's docstring)
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    user = None if password is None else MIGRATE_ROLE
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: connect(dsn, user, password), poolclass=NullPool
    )
    try:
        async with _one_at_a_time, engine.begin() as conn:
            await conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            driver = cast("Connection", (await conn.get_raw_connection()).driver_connection)
            found = await current(driver)
            if found is not None and found not in _known():  # a release is rolled back: Alembic would not know the way
                await _check_floor(driver, found)
                return found
            await conn.run_sync(_upgrade)
            return head()
    finally:
        await engine.dispose()


async def current(conn: Connection) -> str | None:
    """The schema version of a database, or None when it was never migrated."""
    if await conn.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    version: str | None = await conn.fetchval("SELECT version_num FROM alembic_version")
    return version


async def check(conn: Connection) -> str:
    """Check that this code may work on a database: that it has its schema, or a newer one that allows for it.

    Returns:
        The schema version that it is at.

    Raises:
        SchemaMismatchError: Saying which side is older, and what to do.
    """
    found = await current(conn)
    if found == head():
        return found
    if found is None or found in _known():
        raise SchemaMismatchError(
            f"The database is at schema {found or 'none'}, this program needs {head()}.",
            hint="Run `anabranch migrate`.",
        )
    await _check_floor(conn, found)
    return found


async def _check_floor(conn: Connection, found: str) -> None:
    """Check that a schema which this code has not heard of allows for it."""
    floor = await _floor(conn)
    if floor is None or floor > head():
        raise SchemaNewerError(
            f"The database is at schema {found}, which is newer than this program ({head()}).",
            hint="Run the version of Anabranch that migrated it.",
        )


async def _floor(conn: Connection) -> str | None:
    """The oldest schema whose programs may run on the one that there is; schemas before 0005 do not tell."""
    if await conn.fetchval("SELECT to_regclass('schema_floor')") is None:
        return None
    version: str | None = await conn.fetchval("SELECT version FROM schema_floor")
    return version


async def wait(dsn: str, *, seconds: float, say: Callable[[str], None]) -> str:
    """Wait until somebody else has brought a database to `head`, and it answers.

    Args:
        dsn: Of any role that may read the tables, ``postgresql://…``.
        seconds: How long at most.
        say: Is told what it waits for, once for each thing.

    Returns:
        The schema version that it is at.

    Raises:
        SchemaNewerError: At once: no waiting helps.
        UnavailableError: If at the end the server does not answer, or the schema is still an older one.
    """

    async def look() -> str:
        conn = await connect(dsn)
        try:
            return await check(conn)
        finally:
            await conn.close()

    return await _patiently(
        look, seconds=seconds, say=say, passing=lambda error: not isinstance(error, SchemaNewerError)
    )


async def wait_for_server(dsn: str, *, seconds: float, say: Callable[[str], None]) -> None:
    """Wait until there is a server that lets this login in.

    Args:
        dsn: Of any role, ``postgresql://…``.
        seconds: How long at most.
        say: Is told what it waits for, once for each thing.

    Raises:
        ServerAbsentError: If at the end there is none.
        UnavailableError: At once, if there is one that refuses the login.
    """

    async def log_in() -> None:
        await (await connect(dsn)).close()

    await _patiently(log_in, seconds=seconds, say=say, passing=lambda error: isinstance(error, ServerAbsentError))


async def _patiently(
    attempt: Callable[[], Awaitable[T]],
    *,
    seconds: float,
    say: Callable[[str], None],
    passing: Callable[[UnavailableError], bool],
) -> T:
    """Try again until it succeeds, it fails in a way that no waiting helps, or the time is over."""
    now = asyncio.get_running_loop().time
    deadline, said = now() + seconds, ""
    while True:
        try:
            return await attempt()
        except UnavailableError as error:
            if now() >= deadline or not passing(error):
                raise
            if error.detail != said:
                said = error.detail
                say(said)
        await asyncio.sleep(_PAUSE_SECONDS)


async def connect(dsn: str, user: str | None = None, password: str | None = None) -> asyncpg.Connection[asyncpg.Record]:
    """Connect; a user and password given here come before the DSN's.

    Raises:
        ServerAbsentError: If no server takes logins there.
        UnavailableError: If it cannot be done otherwise.
    """
    try:
        return await asyncpg.connect(
            dsn, user=user, password=password, server_settings={"application_name": "anabranch migrate"}
        )
    except pools.FAILURES as error:
        kind = ServerAbsentError if isinstance(error, _ABSENT) else UnavailableError
        raise kind(
            f"Postgres cannot be reached: {error}.", hint="Check that the server runs and that the DSN is right."
        ) from error


def _upgrade(conn: SyncConnection) -> None:
    from alembic import command  # noqa: PLC0415  (see the module's docstring)
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # Alembic's configuration takes a percent sign for the start of a reference.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = conn
    command.upgrade(config, "head")


def _known() -> set[str]:
    """The versions that there are migrations to: each file's name begins with its own, and they are in order."""
    return {path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")}
