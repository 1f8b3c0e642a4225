"""Migrations: run once whoever starts them, and checked by whoever relies on them."""

from __future__ import annotations

import asyncio
import dataclasses

import asyncpg
import pytest

from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.store import migrate, roles


async def fetch(dsn, sql, *args):
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetch(sql, *args)
    finally:
        await conn.close()


async def check(dsn):
    conn = await asyncpg.connect(dsn)
    try:
        await migrate.check(conn)
    finally:
        await conn.close()


async def test_several_processes_that_migrate_at_once_migrate_once(empty_database):
    await asyncio.gather(*(migrate.upgrade(empty_database.migrate) for _ in range(4)))

    assert [row["version_num"] for row in await fetch(empty_database.admin, "SELECT * FROM alembic_version")] == [
        migrate.head()
    ]
    await check(empty_database.operator)


async def test_an_upgrade_of_a_migrated_database_changes_nothing(database):
    tables = "SELECT relname, relfilenode FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    before = await fetch(database.admin, tables)
    await migrate.upgrade(database.migrate)
    assert await fetch(database.admin, tables) == before


async def test_an_upgrade_that_fails_leaves_nothing(empty_database):
    await fetch(empty_database.admin, "CREATE TABLE jobs (this_is text)")  # in the way of the first migration
    with pytest.raises(Exception, match="already exists"):
        await migrate.upgrade(empty_database.migrate)
    assert await fetch(empty_database.admin, "SELECT to_regclass('lines') AS found") == [(None,)]
    await fetch(empty_database.admin, "DROP TABLE jobs")
    await migrate.upgrade(empty_database.migrate)
    await check(empty_database.api)


async def test_a_database_without_tables_is_named_with_what_to_do(empty_database):
    with pytest.raises(migrate.SchemaMismatchError, match=r"at schema none, .* Run `anabranch migrate`"):
        await check(empty_database.operator)


async def test_an_older_schema_asks_for_a_migration(database):
    await fetch(database.admin, "UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(migrate.SchemaMismatchError, match="Run `anabranch migrate`"):
        await check(database.api)


async def newer(database, *, floor):
    """What a later release's migration leaves."""
    await fetch(database.admin, "UPDATE alembic_version SET version_num = '9999'")
    await fetch(database.admin, f"UPDATE schema_floor SET version = '{floor}'")


async def test_a_newer_schema_that_was_not_made_for_this_program_asks_for_a_newer_one(database):
    await newer(database, floor="9999")
    for dsn in (database.operator, database.api):
        with pytest.raises(migrate.SchemaNewerError, match="newer than this program"):
            await check(dsn)


async def test_a_newer_schema_that_allows_for_this_program_lets_it_go_on(database):
    await newer(database, floor=migrate.head())
    for dsn in (database.operator, database.api):
        await check(dsn)


async def test_a_newer_schema_that_does_not_tell_is_not_trusted(database):
    await newer(database, floor=migrate.head())
    await fetch(database.admin, "DROP TABLE schema_floor")
    with pytest.raises(migrate.SchemaNewerError, match="newer than this program"):
        await check(database.api)


async def test_migrating_to_an_older_release_that_a_newer_schema_allows_for_changes_nothing(database):
    await newer(database, floor=migrate.head())
    assert await migrate.upgrade(database.migrate) == "9999"
    assert await fetch(database.admin, "SELECT version_num FROM alembic_version") == [("9999",)]


async def test_migrating_to_an_older_release_that_a_newer_schema_does_not_allow_for_is_refused(database):
    await newer(database, floor="9999")
    with pytest.raises(migrate.SchemaNewerError, match="newer than this program"):
        await migrate.upgrade(database.migrate)


async def test_roles_are_made_by_several_at_once_and_log_in(empty_database, role_passwords):
    await asyncio.gather(*(roles.ensure_roles(empty_database.admin, role_passwords) for _ in range(3)))
    for dsn in (empty_database.migrate, empty_database.operator, empty_database.api):
        assert await fetch(dsn, "SELECT 1 AS one") == [(1,)]


async def test_a_changed_password_takes_effect(postgres_server, empty_database, role_passwords):
    changed = dataclasses.replace(role_passwords, api="another-one")
    await roles.ensure_roles(empty_database.admin, changed)
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await fetch(empty_database.api, "SELECT 1")
        await fetch(empty_database.api.replace(role_passwords.api, "another-one"), "SELECT 1")
    finally:
        await roles.ensure_roles(empty_database.admin, role_passwords)


async def test_the_server_is_given_no_password_in_the_clear(empty_database, role_passwords):
    stored = await fetch(empty_database.admin, "SELECT rolpassword FROM pg_authid WHERE rolname = $1", migrate.API_ROLE)
    assert stored[0]["rolpassword"].startswith("SCRAM-SHA-256$4096:")
    assert role_passwords.api not in repr(role_passwords)


@pytest.mark.parametrize("password", ["", "päss"])
async def test_a_password_that_could_not_log_in_is_refused(empty_database, role_passwords, password):
    with pytest.raises(InvalidInputError):
        await roles.ensure_roles(empty_database.admin, dataclasses.replace(role_passwords, api=password))


async def test_an_unreachable_server_is_unavailable():
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await migrate.upgrade("postgresql://nobody@127.0.0.1:1/none")


async def test_every_key_begins_with_the_line_or_the_namespace(database):
    """Lines can then be placed on several servers: no key spans them."""
    unique = await fetch(
        database.admin,
        """
        SELECT c.relname || '.' || i.relname AS index, a.attname AS first
        FROM pg_index x
        JOIN pg_class c ON c.oid = x.indrelid
        JOIN pg_class i ON i.oid = x.indexrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
        WHERE c.relnamespace = 'public'::regnamespace AND x.indisunique
          AND c.relname NOT IN ('alembic_version', 'schema_floor')
        """,
    )
    assert len(unique) > 20
    assert [row["index"] for row in unique if row["first"] not in ("line", "namespace")] == []


async def test_closing_an_interval_touches_no_index(database):
    """Then it is a HOT update; one index on to_generation would make none of them so."""
    indexes = await fetch(database.admin, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")
    assert [row["indexdef"] for row in indexes if "to_generation" in row["indexdef"]] == []


async def test_no_hot_table_refers_to_the_heads(database):
    """A foreign key would make every receipt wait for the publication that holds the head."""
    assert (
        await fetch(
            database.admin,
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND confrelid = 'line_heads'::regclass",
        )
        == []
    )


async def test_no_table_keeps_statistics_of_its_lines(database):
    """With them a line that was just imported is planned for as if it were empty."""
    with_statistics = await fetch(
        database.admin,
        """
        SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
          AND a.attname = 'line' AND a.attstattarget IS DISTINCT FROM 0
        """,
    )
    assert with_statistics == []


async def test_who_waits_for_the_schema_goes_on_when_somebody_else_has_migrated(empty_database):
    said = asyncio.Queue()
    waiting = asyncio.create_task(migrate.wait(empty_database.api, seconds=60, say=said.put_nowait))
    first = await said.get()
    await migrate.upgrade(empty_database.migrate)
    await asyncio.wait_for(waiting, 60)
    assert first == f"The database is at schema none, this program needs {migrate.head()}."


async def test_who_waits_too_long_is_told_what_for(empty_database):
    with pytest.raises(migrate.SchemaMismatchError, match="schema none"):
        await migrate.wait(empty_database.operator, seconds=0, say=lambda _: None)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await migrate.wait("postgresql://127.0.0.1:1/nowhere", seconds=0, say=lambda _: None)


async def test_nobody_waits_for_a_schema_that_is_newer(database):
    await newer(database, floor="9999")
    with pytest.raises(migrate.SchemaNewerError, match="newer than this program"):
        await migrate.wait(database.operator, seconds=60, say=lambda _: None)
