"""A database that comes up after its migration, as in a release that brings both."""

from __future__ import annotations

import asyncio
import os

import pytest

from anabranch.devcluster import children, ephemeral, postgres
from anabranch.devcluster.stack import ENTRY_POINT
from anabranch.model.errors import UnavailableError
from anabranch.store import migrate

PASSWORDS = {f"ANABRANCH_{role}_PASSWORD": "a-password" for role in ("MIGRATE", "OPERATOR", "API")}


@pytest.fixture(scope="module")
def server():
    """A server that nobody else uses."""
    with ephemeral.folder("anabranch-late-") as folder:
        yield postgres.start(folder, durable=False)
        postgres.stop(folder)


@pytest.fixture
def absent(server):
    """The folder of a server that is down, and its address."""
    server.stop()
    return server.folder, server.dsn


async def run(dsn, *options):
    """Starts the command; its errors go to a pipe."""
    return await asyncio.create_subprocess_exec(
        *children.command(ENTRY_POINT, "migrate", "--roles-from-env", *options),
        env=os.environ | children.environment() | PASSWORDS | {"ANABRANCH_MIGRATE_DSN": dsn},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_migration_waits_for_a_server_that_comes_up_later_and_says_so_once(absent):
    folder, dsn = absent
    command = await run(dsn, "--wait-server=60")
    assert b"cannot be reached" in await asyncio.wait_for(command.stderr.readline(), 60)
    assert (await asyncio.to_thread(postgres.start, folder, durable=False)).dsn == dsn
    said, complained = await asyncio.wait_for(command.communicate(), 60)
    assert said.decode() == f"The database is at schema {migrate.head()}.\n"
    assert complained.count(b"Connect call failed") == 0
    assert command.returncode == 0


async def test_without_that_it_fails_at_once(absent):
    _, dsn = absent
    command = await run(dsn)
    _, complained = await asyncio.wait_for(command.communicate(), 60)
    assert command.returncode != 0
    assert b"cannot be reached" in complained


async def test_a_server_that_never_comes_is_told_at_the_end(absent):
    _, dsn = absent
    with pytest.raises(migrate.ServerAbsentError, match="cannot be reached"):
        await migrate.wait_for_server(dsn, seconds=1, say=lambda _: None)


async def test_a_refused_login_is_not_waited_for(absent):
    folder, dsn = absent
    postgres.start(folder, durable=False)
    wrong = postgres.with_database(dsn, "postgres", user="postgres", password="wrong")
    with pytest.raises(UnavailableError, match="password authentication failed"):
        await asyncio.wait_for(migrate.wait_for_server(wrong, seconds=60, say=lambda _: None), 30)
