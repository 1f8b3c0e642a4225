"""What each database role may do, and what it may not."""

from __future__ import annotations

import asyncpg
import pytest

PUBLISHED = (
    "record_versions", "manifests", "trie_nodes", "events", "contents", "facts", "publications", "line_heads",
    "line_scopes", "restores", "candidates", "likenesses", "transitions", "waiting", "pruned_manifests",
    "released_hashes", "import_base", "rebases", "search_progress", "search_segments", "search_documents",
    "search_words", "search_vectors", "quality_progress", "quality_counts", "derivations", "derivation_progress",
    "recall_gates", "recall_results", "recall_holds", "backups", "backup_turns",
)  # fmt: skip
RECEIVED = (
    "batches", "evidence", "private_records", "completions", "archives", "archive_chunks", "presence", "followers",
    "kv_namespaces", "kv_records", "kv_checkpoints", "agent_envelopes", "agent_exchanges", "agent_events",
)  # fmt: skip
ADDED = ("reviews", "checkpoints", "agents", "agent_receipts", "agent_outbox", "retractions", "merges", "drafts")
FORGOTTEN = ("agent_sections", "agent_section_history")
UNSEEN = ("proposals",)


@pytest.fixture
async def api(database):
    conn = await asyncpg.connect(database.api)
    yield conn
    await conn.close()


@pytest.fixture
async def operator(database):
    conn = await asyncpg.connect(database.operator)
    yield conn
    await conn.close()


async def columns(conn, table):
    rows = await conn.fetch(
        """
        SELECT attname FROM pg_attribute
        WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
        """,
        table,
    )
    return [row["attname"] for row in rows]


async def may_update(conn, table):
    """The columns that the connection's role can update."""
    updatable = []
    for column in await columns(conn, table):
        try:
            await conn.execute(f"UPDATE {table} SET {column} = {column} WHERE false")
            updatable.append(column)
        except asyncpg.InsufficientPrivilegeError:
            pass
    return set(updatable)


async def may(conn, statement):
    try:
        await conn.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


async def may_insert(conn, table):
    names = ", ".join(await columns(conn, table))
    return await may(conn, f"INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE false")


async def tables(conn):
    rows = await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in rows} - {"alembic_version", "schema_floor"}


@pytest.mark.parametrize("table", PUBLISHED)
async def test_the_api_can_only_read_what_is_published_and_decided(api, table):
    assert await may(api, f"SELECT FROM {table}")
    assert not await may_insert(api, table)
    assert not await may(api, f"DELETE FROM {table} WHERE false")
    assert not await may(api, f"TRUNCATE {table}")
    assert await may_update(api, table) == set()


@pytest.mark.parametrize("table", RECEIVED)
async def test_the_api_receives_and_deletes_nothing(api, table):
    assert await may_insert(api, table)
    assert await may_update(api, table) == set(await columns(api, table))
    assert not await may(api, f"DELETE FROM {table} WHERE false")


@pytest.mark.parametrize("table", ADDED)
async def test_the_api_appends_reviews_and_checkpoints_and_changes_none(api, table):
    assert await may_insert(api, table)
    assert await may_update(api, table) == set()
    assert not await may(api, f"DELETE FROM {table} WHERE false")


@pytest.mark.parametrize("table", UNSEEN)
async def test_what_a_model_was_asked_is_no_business_of_the_api(api, table):
    assert not await may(api, f"SELECT FROM {table}")
    assert not await may_insert(api, table)
    assert not await may(api, f"DELETE FROM {table} WHERE false")


@pytest.mark.parametrize("table", FORGOTTEN)
async def test_what_an_agent_writes_down_the_api_can_have_forgotten(api, table):
    assert await may_insert(api, table)
    assert await may(api, f"DELETE FROM {table} WHERE false")
    assert not await may(api, f"TRUNCATE {table}")


async def test_the_api_may_only_wake_jobs_and_lines(api):
    assert await may_update(api, "jobs") <= {"due_at", "version"}
    assert await may_update(api, "lines") == {"due_at"}
    for table in ("jobs", "lines", "branches"):
        assert not await may_insert(api, table)
        assert not await may(api, f"DELETE FROM {table} WHERE false")


async def test_the_api_may_close_a_branch_and_not_move_it(api):
    assert {"phase", "finished_at", "version"} <= await may_update(api, "branches")
    assert await may_update(api, "branches") <= {"phase", "finished_at", "final_sequence", "version"}


async def test_the_lists_above_name_every_table(api):
    assert set(await tables(api)) == {*PUBLISHED, *RECEIVED, *ADDED, *FORGOTTEN, *UNSEEN, "jobs", "lines", "branches"}


async def test_the_operator_writes_every_table_and_alters_none(operator):
    for table in await tables(operator):
        assert await may(operator, f"DELETE FROM {table} WHERE false"), table
        assert await may_update(operator, table) == set(await columns(operator, table)), table
        assert not await may(operator, f"ALTER TABLE {table} ADD COLUMN extra text"), table
        assert not await may(operator, f"DROP TABLE {table}"), table


async def test_only_a_migration_changes_the_schema_and_its_version(api, operator):
    for conn in (api, operator):
        for table in ("alembic_version", "schema_floor"):
            assert await may(conn, f"SELECT FROM {table}")
            assert not await may_insert(conn, table)
            assert await may_update(conn, table) == set()
        assert not await may(conn, "CREATE TABLE extra (x text)")
