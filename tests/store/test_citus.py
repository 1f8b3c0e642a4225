"""The script for Citus fits the schema: it forgets no table, and moves none that has to stay."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest
from tests.store.test_line_keys import _FOREIGN, _TABLES, _UNIQUE
from tests.store.test_queries import CATALOGUE, WITHOUT_LINE

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "deploy/citus/distribute.sql").read_text(encoding="utf-8")
DISTRIBUTED = re.findall(r"create_distributed_table\('(\w+)', 'line'", SCRIPT)
ROWS = re.findall(
    r"^\| ([^|]+) \| (`[^|]+`) \|$", (ROOT / "docs/guides/citus.md").read_text(encoding="utf-8"), re.MULTILINE
)
STAYS = {why: re.findall(r"`(\w+)`", tables) for why, tables in ROWS}


@pytest.fixture
async def catalog(database):
    conn = await asyncpg.connect(database.operator)
    yield conn
    await conn.close()


async def test_every_table_is_distributed_or_stays_for_a_reason(catalog):
    stays = [table for tables in STAYS.values() for table in tables]
    named = [*DISTRIBUTED, *stays]
    assert len(named) == len(set(named))
    assert set(named) == {row["table"] for row in await catalog.fetch(_TABLES)}
    assert re.findall(r"colocate_with => '(\w+)'", SCRIPT) == [DISTRIBUTED[0]] * (len(DISTRIBUTED) - 1)


async def test_what_is_distributed_has_keys_of_its_line_alone_and_leads_nowhere(catalog):
    tables = {row["table"] for row in await catalog.fetch(_TABLES) if row["of_line"]}
    assert set(DISTRIBUTED) <= tables
    keys = [row for row in await catalog.fetch(_UNIQUE) if row["table"] in DISTRIBUTED]
    assert {row["first"] for row in keys} == {"line"}
    linked = {row["table"] for row in await catalog.fetch(_FOREIGN)} & set(DISTRIBUTED)
    targets = await catalog.fetch("SELECT confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'")
    assert linked | {row["confrelid"] for row in targets} & set(DISTRIBUTED) == set()


def test_no_queue_looks_through_what_is_distributed_and_each_reason_is_one():
    words = {table for name in WITHOUT_LINE for table in re.findall(r"\b[a-z_]+\b", CATALOGUE[name].sql)}
    assert words.isdisjoint(DISTRIBUTED)
    queued = set(STAYS["queues look through them"])
    assert queued <= words
