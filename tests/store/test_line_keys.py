"""Lines have nothing in common, in the schema and in every plan: so they may lie in several databases."""

from __future__ import annotations

import json
import re
from itertools import count

import asyncpg
import pytest
from tests.store.test_queries import CATALOGUE, OF_AGENTS, WITHOUT_LINE

OF_NO_LINE = {
    "lines_place": "whose a name is, before the line is known: two lines may not have it",
}
"""Unique keys of tables with a line that do not begin with it, each with the reason."""

WITHOUT = {
    "agents": "namespace",
    "agent_envelopes": "namespace",
    "agent_sections": "namespace",
    "agent_section_history": "namespace",
    "agent_exchanges": "namespace",
    "agent_receipts": "namespace",
    "agent_events": "namespace",
    "waiting": "namespace",
    "schema_floor": "only_row",
    "alembic_version": "version_num",
}
"""Tables that belong to no line, with what their keys begin with."""

BY_NAME = {
    "openings.open_held": {"jobs"},  # a resource's name is taken in its namespace, by whichever line's job
}
"""Queries that look at other lines' rows, with the tables, each with the reason."""

_TABLES = """
    SELECT c.relname AS table, bool_or(a.attname = 'line' AND a.attnotnull) AS of_line
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    GROUP BY c.relname
"""
_UNIQUE = """
    SELECT t.relname AS table, i.relname AS name, x.indisprimary AS is_primary, a.attname AS first
    FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid
    JOIN pg_class AS t ON t.oid = x.indrelid AND t.relnamespace = 'public'::regnamespace
    LEFT JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
    WHERE x.indisunique
"""
_FOREIGN = """
    SELECT c.conname AS name, c.conrelid::regclass::text AS table, here.attname AS first, there.attname AS leads_to
    FROM pg_constraint AS c
    JOIN pg_attribute AS here ON here.attrelid = c.conrelid AND here.attnum = c.conkey[1]
    JOIN pg_attribute AS there ON there.attrelid = c.confrelid AND there.attnum = c.confkey[1]
    WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace
"""

SCANS = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan", "Tid Range Scan"}
CONDITIONS = ("Index Cond", "Recheck Cond", "Filter", "TID Cond")
JOINS = ("Hash Cond", "Merge Cond", "Join Filter")


@pytest.fixture
async def catalog(database):
    conn = await asyncpg.connect(database.operator)
    yield conn
    await conn.close()


async def of_line(conn):
    return {row["table"] for row in await conn.fetch(_TABLES) if row["of_line"]}


async def test_every_table_has_a_line_or_a_reason_not_to(catalog):
    tables = {row["table"] for row in await catalog.fetch(_TABLES)}
    assert tables - await of_line(catalog) == WITHOUT.keys()


async def test_every_unique_key_begins_with_the_line(catalog):
    tables = await of_line(catalog)
    rows = await catalog.fetch(_UNIQUE)
    astray = {row["name"] for row in rows if row["table"] in tables and row["first"] != "line"}
    assert astray == OF_NO_LINE.keys()
    assert {row["table"] for row in rows if row["is_primary"]} >= tables, "and every table has a primary key"
    assert {row["table"]: row["first"] for row in rows if row["table"] in WITHOUT} == WITHOUT


async def test_every_foreign_key_stays_in_its_line(catalog):
    rows = await catalog.fetch(_FOREIGN)
    keys = {WITHOUT.get(row["table"], "line") for row in rows}
    assert keys == {"line", "namespace"}
    astray = [row["name"] for row in rows if {row["first"], row["leads_to"]} != {WITHOUT.get(row["table"], "line")}]
    assert astray == []


def scans(plan, joined=""):
    """Every scan of a plan, with the conditions of all joins above it."""
    joined += " ".join(plan.get(each, "") for each in JOINS)
    if plan["Node Type"] in SCANS:
        yield plan, joined
    for below in plan.get("Plans", ()):
        yield from scans(below, joined)


def is_bound(scan, joined):
    """Whether a scan finds rows of a line that it was given, by itself or by a join."""
    own = " ".join(scan.get(each, "") for each in CONDITIONS)
    if re.search(r"(?<![.\w])\(*line\)?(::text)? = ", own):
        return True
    alias = re.escape(scan["Alias"])
    return bool(re.search(rf"(?<![\w.]){alias}\.line\b", joined)) or scan["Node Type"] == "Tid Scan"


async def test_every_scan_of_a_query_is_bound_to_the_line(catalog):
    """What the database itself makes of a query: no table of a line is looked through for other lines' rows."""
    tables = await of_line(catalog)
    await catalog.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")
    await catalog.execute("SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
    numbers, unbound, seen = count(), {}, 0
    async with catalog.transaction():
        await catalog.execute(CATALOGUE["restoring.make_stage"].sql)
        for name, query in CATALOGUE.items():
            if name in WITHOUT_LINE or name.partition(".")[0] in OF_AGENTS or name.startswith("restoring.make"):
                continue
            if not re.match(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b", query.sql):
                continue
            prepared = f"q{next(numbers)}"
            await catalog.execute(f"PREPARE {prepared} AS {query.sql}")
            parameters = len(set(re.findall(r"\$(\d+)", query.sql)))
            given = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
            (plan,) = json.loads(await catalog.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {prepared}{given}"))
            found = [(scan, joined) for scan, joined in scans(plan["Plan"]) if scan["Relation Name"] in tables]
            seen += len(found)
            loose = {scan["Relation Name"] for scan, joined in found if not is_bound(scan, joined)}
            if loose:
                unbound[name] = loose
    assert seen > 300
    assert unbound == BY_NAME
