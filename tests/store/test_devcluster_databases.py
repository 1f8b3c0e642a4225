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
    await databases.claim_roles(embedded.dsn, ROLES, owner="us")
    await databases.claim_roles(embedded.dsn, ROLES, owner="us")
    assert await roles(server) == set(ROLES)
    await databases.drop_roles(embedded.dsn, ROLES, owner="us")
    assert await roles(server) == set()


@pytest.mark.parametrize("comment", ["NULL", "'local Anabranch stack: them'"])
async def test_a_role_of_someone_else_is_refused_and_stays_and_none_is_made_beside_it(embedded, server, comment):
    await server.execute(f"CREATE ROLE worker LOGIN PASSWORD 'theirs'; COMMENT ON ROLE worker IS {comment}")
    with pytest.raises(DevclusterError, match="already has the role worker, of another owner"):
        await databases.claim_roles(embedded.dsn, ROLES, owner="us")
    await databases.drop_roles(embedded.dsn, ROLES, owner="us")
    assert await roles(server) == {"worker"}


async def test_a_role_that_another_database_needs_stays(embedded, server):
    await databases.claim_roles(embedded.dsn, ROLES, owner="us")
    await server.execute("CREATE TABLE kept (); ALTER TABLE kept OWNER TO worker")
    await databases.drop_roles(embedded.dsn, ROLES, owner="us")
    assert await roles(server) == {"worker"}
    await server.execute("DROP TABLE kept")


async def test_a_database_is_made_once_and_dropped_from_under_its_clients(embedded, server):
    assert await databases.create(embedded.dsn, 'odd "name"', owner="us")
    assert not await databases.create(embedded.dsn, 'odd "name"', owner="us")
    client = await asyncpg.connect(postgres.with_database(embedded.dsn, 'odd "name"'))
    await databases.drop(embedded.dsn, 'odd "name"')
    await databases.drop(embedded.dsn, 'odd "name"')
    assert not await server.fetchval("SELECT count(*) FROM pg_database WHERE datname LIKE 'odd%'")
    client.terminate()


async def test_a_role_that_may_make_no_database_is_an_error_that_names_the_setting(embedded, server):
    await server.execute("CREATE ROLE reader LOGIN PASSWORD 'mine'")
    dsn = postgres.with_database(embedded.dsn, "postgres", user="reader", password="mine")
    with pytest.raises(DevclusterError, match=r"permission denied(.|\n)*ANABRANCH_DSN"):
        await databases.create(dsn, "mine", owner="us")


async def test_every_database_of_an_owner_is_dropped_and_no_other(embedded, server):
    for name, owner in {"ours_now": "us", "ours_of_a_killed_run": "us", "theirs": "them"}.items():
        await databases.create(embedded.dsn, name, owner=owner)
    await databases.drop_owned(embedded.dsn, "us")
    left = {row["datname"] for row in await server.fetch("SELECT datname FROM pg_database WHERE NOT datistemplate")}
    assert left == {"postgres", "theirs"}
    await databases.drop_owned(embedded.dsn, "them")


async def test_a_server_that_does_not_answer_is_an_error_that_names_the_setting():
    with pytest.raises(DevclusterError, match=r"cannot be reached(.|\n)*ANABRANCH_DSN"):
        await databases.create("postgresql://someone@127.0.0.1:1/none", "mine", owner="us")


async def test_blocking_work_is_done_while_an_event_loop_runs_here(embedded):
    assert databases.blocking(databases.create(embedded.dsn, "from_a_loop", owner="us"))
    await databases.drop(embedded.dsn, "from_a_loop")
