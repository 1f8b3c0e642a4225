"""Databases on a server for the demo and the tests: made, copied and dropped by its superuser."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


async def create(dsn: str, name: str, *, template: str | None = None) -> bool:
    """Makes a database unless it exists; tells whether it did.

    Args:
        dsn: Of a role that may make databases.
        name: The database's name.
        template: A database to copy; nobody may be connected to it.
    """
    async with _connected(dsn) as connection:
        copied = f" TEMPLATE {_quoted(template)}" if template else ""
        try:
            await connection.execute(f"CREATE DATABASE {_quoted(name)}{copied}")
        except asyncpg.DuplicateDatabaseError:
            return False
        return True


async def drop(dsn: str, name: str) -> None:
    """Drops a database if it exists, and disconnects who still uses it."""
    async with _connected(dsn) as connection:
        await connection.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")


async def existing_roles(dsn: str, names: Sequence[str]) -> set[str]:
    """Which of these roles the server has."""
    async with _connected(dsn) as connection:
        rows = await connection.fetch("SELECT rolname FROM pg_roles WHERE rolname = ANY($1)", list(names))
        return {row["rolname"] for row in rows}


async def drop_roles(dsn: str, names: Sequence[str]) -> None:
    """Drops roles that own nothing any more, with what they were granted in the database of the DSN."""
    async with _connected(dsn) as connection:
        for name in await existing_roles(dsn, names):
            await connection.execute(f"DROP OWNED BY {_quoted(name)}")
            await connection.execute(f"DROP ROLE {_quoted(name)}")


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
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


def _quoted(name: str) -> str:
    """An identifier as SQL takes it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
