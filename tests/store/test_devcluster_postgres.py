"""The embedded server: it asks for passwords, keeps its data, and stops when told to."""

from __future__ import annotations

import asyncio
import os
import shutil
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest

from anabranch.devcluster import ephemeral, folders, postgres
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.processes import Processes


@pytest.fixture
def folder():
    with ephemeral.folder() as path:
        yield path / "postgres"


@pytest.fixture(scope="module")
def embedded():
    """One for the tests that leave it as it is; the run's own server may be someone else's."""
    with ephemeral.folder() as path:
        yield postgres.start(path / "postgres", durable=False)


async def fetchval(dsn, query):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.mark.parametrize("password", ["wrong", ""])
async def test_a_wrong_password_is_refused(embedded, password):
    dsn = postgres.with_database(embedded.dsn, "postgres", user="postgres", password=password)
    with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)):
        await fetchval(dsn, "SELECT 1")


async def test_a_stopped_server_is_gone_and_its_data_is_there_at_the_next_start(folder):
    server = postgres.start(folder, durable=False)
    await fetchval(server.dsn, "CREATE DATABASE kept")
    process = Processes(folder).running("postgres")

    client = await asyncpg.connect(server.dsn)  # one that would hold up a polite shutdown for ever
    await asyncio.to_thread(server.stop)
    client.terminate()

    assert not process.is_running()
    assert "received fast shutdown request" in Processes(folder).tail("postgres")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await fetchval(server.dsn, "SELECT 1")

    again = postgres.start(folder, durable=False)
    assert again.dsn == server.dsn
    assert await fetchval(again.dsn, "SELECT count(*) FROM pg_database WHERE datname = 'kept'") == 1


async def test_data_that_must_last_is_written_to_disk_before_it_is_acknowledged(folder):
    server = postgres.start(folder, durable=True)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await fetchval(server.dsn, f"SHOW {setting}") == "on"


async def test_a_server_listens_on_the_loopback_address_only_and_takes_200_clients(embedded):
    assert await fetchval(embedded.dsn, "SHOW listen_addresses") == "127.0.0.1"
    assert await fetchval(embedded.dsn, "SHOW unix_socket_directories") == ""
    assert int(await fetchval(embedded.dsn, "SHOW max_connections")) >= 200


async def test_two_servers_run_side_by_side(folder, embedded):
    other = postgres.start(folder, durable=False)
    assert other.dsn != embedded.dsn
    assert await fetchval(other.dsn, "SELECT 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")
async def test_a_server_runs_where_its_user_cannot_enter_the_virtual_environment(folder, tmp_path, monkeypatch):
    wheel = metadata.distribution(postgres.WHEEL)
    closed = tmp_path / "closed"
    for name in (postgres.PROGRAMS, postgres.LIBRARIES):
        shutil.copytree(Path(wheel.locate_file(name)), closed / name, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(version="0", locate_file=lambda _: closed))
    monkeypatch.setattr(folders, "shared_cache", lambda: folder.parent / "cache")

    server = postgres.start(folder, durable=False)

    assert await fetchval(server.dsn, "SELECT 1") == 1
    program = Processes(folder).running("postgres").exe()
    assert Path(program).is_relative_to(folder.parent / "cache")


def test_a_server_that_cannot_start_says_why(folder):
    postgres.start(folder, durable=False).stop()
    (folder / "data/PG_VERSION").write_text("9.6\n")
    with pytest.raises(DevclusterError, match=r"postgres has ended(.|\n)*initialized by PostgreSQL version 9\.6"):
        postgres.start(folder, durable=False)


async def test_each_test_has_a_database_of_its_own_and_each_role_its_password(database, template):
    assert database.name != template.name
    assert await fetchval(database.operator, "SELECT current_user::text") == "anabranch_operator"
    assert await fetchval(database.api, "SELECT current_database()::text") == database.name
    swapped = database.api.replace("anabranch_api", "anabranch_operator")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await fetchval(swapped, "SELECT 1")
