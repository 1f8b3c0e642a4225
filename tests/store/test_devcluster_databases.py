"""Databases and roles on a server that may be someone else's: only what was made here is changed or dropped."""

from __future__ import annotations

import asyncpg
import pytest

from anabranch.devcluster import databases, ephemeral, postgres
from anabranch.devcluster.errors import DevclusterError

ROLES = ("worker", "reader")


@pytest.fixture(scope="module")
def embedded():
    with ephemeral.folder() as path:
        yield postgres.start(path / "postgres", durable=False)


@pytest.fixture
async def server(embedded):
    """Someone's server, as its superuser."""
    connection = await asyncpg.connect(embedded.dsn)
    yield connection
    for role in ROLES:
        await connection.execute(f"DROP ROLE IF EXISTS {role}")
    await connection.close()


async def roles(server):
    return {row["rolname"] for row in await server.fetch("SELECT rolname FROM pg_roles WHERE rolname = ANY($1)", ROLES)}


async def test_roles_are_made_once_and_dropped_again(embedded, server):
    await databases.claim_roles(embedded.dsn, ROLES)
    await databases.claim_roles(embedded.dsn, ROLES)
    assert await roles(server) == set(ROLES)
    await databases.drop_roles(embedded.dsn, ROLES)
    assert await roles(server) == set()


async def test_a_role_of_someone_else_is_refused_and_stays_and_none_is_made_beside_it(embedded, server):
    await server.execute("CREATE ROLE worker LOGIN PASSWORD 'theirs'")
    with pytest.raises(DevclusterError, match="already has the role worker, which was not made here"):
        await databases.claim_roles(embedded.dsn, ROLES)
    await databases.drop_roles(embedded.dsn, ROLES)
    assert await roles(server) == {"worker"}


async def test_a_role_that_another_database_needs_stays(embedded, server):
    await databases.claim_roles(embedded.dsn, ROLES)
    await server.execute("CREATE TABLE kept (); ALTER TABLE kept OWNER TO worker")
    await databases.drop_roles(embedded.dsn, ROLES)
    assert await roles(server) == {"worker"}
    await server.execute("DROP TABLE kept")


async def test_a_database_is_made_once_and_dropped_from_under_its_clients(embedded, server):
    assert await databases.create(embedded.dsn, 'odd "name"')
    assert not await databases.create(embedded.dsn, 'odd "name"')
    client = await asyncpg.connect(postgres.with_database(embedded.dsn, 'odd "name"'))
    await databases.drop(embedded.dsn, 'odd "name"')
    await databases.drop(embedded.dsn, 'odd "name"')
    assert not await server.fetchval("SELECT count(*) FROM pg_database WHERE datname LIKE 'odd%'")
    client.terminate()


async def test_a_server_that_does_not_answer_is_an_error_that_names_the_setting():
    with pytest.raises(DevclusterError, match=r"cannot be reached(.|\n)*ANABRANCH_DSN"):
        await databases.create("postgresql://someone@127.0.0.1:1/none", "mine")


async def test_blocking_work_is_done_while_an_event_loop_runs_here(embedded):
    assert databases.blocking(databases.create(embedded.dsn, "from_a_loop"))
    await databases.drop(embedded.dsn, "from_a_loop")
