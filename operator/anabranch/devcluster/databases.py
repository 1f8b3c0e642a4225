"""Databases on a server for the demo and the tests: made, copied and dropped by its superuser."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    Connection = asyncpg.Connection[asyncpg.Record]

Result = TypeVar("Result")

MARK = "local Anabranch stack: {owner}"
"""The comment of a role and of a database that was made here: none without it is changed or dropped."""


async def create(dsn: str, name: str, *, owner: str, template: str | None = None) -> bool:
    """Makes a database unless it exists; tells whether it did.

    Args:
        dsn: Of a role that may make databases.
        name: The database's name.
        owner: For whom; written down as its comment.
        template: A database to copy; nobody may be connected to it.

    Raises:
        DevclusterError: The role may not.
    """
    async with connected(dsn) as connection:
        return await create_on(connection, name, owner=owner, template=template)


async def create_on(connection: Connection, name: str, *, owner: str, template: str | None = None) -> bool:
    """Makes a database, as `create`; for who makes many of them."""
    # File by file: page by page through the log, as Postgres does it unless told, is for templates that are written to.
    copied = f" TEMPLATE {_quoted(template)} STRATEGY file_copy" if template else ""
    try:
        await connection.execute(f"CREATE DATABASE {_quoted(name)}{copied}")
    except asyncpg.DuplicateDatabaseError:
        return False
    except asyncpg.InsufficientPrivilegeError as error:
        raise DevclusterError(
            f"Postgres refuses: {error}.",
            hint="Let ANABRANCH_DSN name a role that may create databases and roles, or unset it.",
        ) from error
    await connection.execute(f"COMMENT ON DATABASE {_quoted(name)} IS {_comment(owner)}")
    return True


async def drop(dsn: str, name: str) -> None:
    """Drops a database if it exists, and disconnects who still uses it."""
    async with connected(dsn) as connection:
        await drop_on(connection, name)


async def drop_on(connection: Connection, name: str) -> None:
    """Drops a database, as `drop`; for who drops many of them."""
    await connection.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")


async def drop_owned(dsn: str, owner: str) -> None:
    """Drops every database that was made for an owner, also by a run that was killed."""
    query = "SELECT datname FROM pg_database WHERE shobj_description(oid, 'pg_database') = $1"
    async with connected(dsn) as connection:
        names = [row["datname"] for row in await connection.fetch(query, MARK.format(owner=owner))]
        for name in names:
            await drop_on(connection, name)


async def claim_roles(dsn: str, names: Sequence[str], *, owner: str) -> None:
    """Makes roles for an owner, and marks them as such; roles are the server's, not a database's.

    Raises:
        DevclusterError: The server has one of them, and it is another owner's: its password must not be changed.
    """
    async with connected(dsn) as connection:
        found = await _roles(connection, names)
        if theirs := [name for name, comment in found.items() if comment != MARK.format(owner=owner)]:
            raise DevclusterError(
                f"The Postgres server already has the role {theirs[0]}, of another owner.",
                hint="Use a server without an Anabranch, or unset ANABRANCH_DSN to use an embedded one.",
            )
        for name in set(names) - set(found):
            async with connection.transaction():
                await connection.execute(f"CREATE ROLE {_quoted(name)}")
                await connection.execute(f"COMMENT ON ROLE {_quoted(name)} IS {_comment(owner)}")


async def drop_roles(dsn: str, names: Sequence[str], *, owner: str) -> None:
    """Drops those of the roles that were made for an owner, but for one that another database still needs."""
    async with connected(dsn) as connection:
        for name, comment in (await _roles(connection, names)).items():
            if comment == MARK.format(owner=owner):
                with suppress(asyncpg.DependentObjectsStillExistError):
                    await connection.execute(f"DROP ROLE {_quoted(name)}")


async def leave(dsn: str, roles: Sequence[str], *, owner: str) -> None:
    """Drops everything that was made on a server for an owner."""
    await drop_owned(dsn, owner)
    await drop_roles(dsn, roles, owner=owner)


async def _roles(connection: Connection, names: Sequence[str]) -> dict[str, str | None]:
    """Those of the roles that the server has, with their comments."""
    query = "SELECT rolname, shobj_description(oid, 'pg_authid') AS comment FROM pg_roles WHERE rolname = ANY($1)"
    return {row["rolname"]: row["comment"] for row in await connection.fetch(query, list(names))}


def blocking(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs one of these functions to its end, whether or not an event loop runs in this thread."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(asyncio.run, work).result()


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """A connection as the server's superuser, for as long as the block runs.

    Raises:
        DevclusterError: The server cannot be reached.
    """
    try:
        connection = await asyncpg.connect(dsn, server_settings={"application_name": "anabranch devcluster"})
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise DevclusterError(
            f"Postgres cannot be reached: {error}.", hint="Check ANABRANCH_DSN, or unset it to use an embedded server."
        ) from error
    try:
        yield connection
    finally:
        await connection.close()


def _comment(owner: str) -> str:
    """An owner's mark, as a literal of SQL."""
    text = MARK.format(owner=owner).replace("'", "''")
    return f"'{text}'"


def _quoted(name: str) -> str:
    """An identifier as SQL takes it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
