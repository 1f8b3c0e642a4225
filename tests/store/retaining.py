"""What must hold of a line whatever retention has removed, and how a test has it remove much."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.store import building
from tests.store.building import version

from anabranch.baselines import retention
from anabranch.domain.facts import Fact
from anabranch.domain.retention import RetentionPolicy
from anabranch.store import diffs, lines, manifests, publish, records

if TYPE_CHECKING:
    from random import Random

    from anabranch.store.database import Connection, Database

LONG = timedelta(days=3_000)
NOW = timedelta()


def promising(**periods: Any) -> RetentionPolicy:
    """A policy that keeps the newest generation, tombstones, and otherwise what is named."""
    nothing = dict.fromkeys(("age", "events", "completed_runs", "transitions"), NOW)
    return RetentionPolicy(**{"generations": 1, "tombstones": LONG, **nothing, **periods})


async def retain(db: Database, line: str, **periods: Any) -> None:
    """Have retention remove all that is not promised."""
    while await retention.retain(db, line=line, policy=promising(**periods)):
        pass


async def generations(db: Database, line: str) -> list[int]:
    async with db.connection() as conn:
        return sorted(row.generation for row in await manifests.history(conn, line, 10_000))


async def check(db: Database, line: str) -> None:
    """Every manifest's root is that of its records and of its nodes, and every version has its bodies."""
    for generation in await generations(db, line):
        stored, rebuilt = await building.nodes(db, line, generation)
        assert stored == rebuilt, f"the nodes of generation {generation}"
        async with db.connection() as conn:
            manifest = await manifests.resolve(conn, line=line, ref=generation)
            assert await records.count(conn, line=line, generation=generation, scopes=None) == manifest.records
        assert rebuilt[""][0] == manifest.manifest_hash, f"the root of generation {generation}"
    async with db.connection() as conn:
        assert await conn.fetch(_WITHOUT_BODY, line) == []
        assert await conn.fetch(_CANDIDATES_WITHOUT_BODY, line) == []


async def rubbish(db: Database, line: str) -> dict[str, int]:
    """Rows that nobody can see any more, by table."""
    async with db.connection() as conn:
        found = {table: await conn.fetchval(query, line) for table, query in _RUBBISH.items()}
    return {table: count for table, count in found.items() if count}


async def sizes(db: Database, line: str) -> dict[str, int]:
    """Rows of the tables that a publication writes."""
    tables = ("record_versions", "trie_nodes", "contents", "facts", "manifests", "events", "released_hashes")
    async with db.connection() as conn:
        return {table: await conn.fetchval(f"SELECT count(*) FROM {table} WHERE line = $1", line) for table in tables}


async def differences(db: Database, line: str) -> dict[tuple[int, int], list[tuple[Any, Any, Any]]]:
    """What differs in live records between each two generations that are there."""
    found = {}
    async with db.connection() as conn:
        for pair in itertools.permutations(await generations(db, line), 2):
            rows = await diffs.page(
                conn, line=line, from_generation=pair[0], to_generation=pair[1], limit=100_000, scopes=None
            )
            found[pair] = [(row.key, _live(row.before), _live(row.after)) for row in rows]
    return {pair: [row for row in rows if row[1] != row[2]] for pair, rows in found.items()}


def some_versions(chance: Random, *, keys: int, run: int) -> list[publish.NewVersion]:
    """Puts and deletions of a few keys, now and then of many."""
    chosen = chance.sample(range(keys), chance.choice([1, 3, 5, keys // 2]))
    return [version(f"k{key}", None if chance.random() < 0.4 else chance.randrange(5), run=str(run)) for key in chosen]


async def set_back(conn: Connection, line: str, *, by: timedelta) -> None:
    """Let some time pass over all that a line has."""
    for table, column in _TIMES:
        await conn.execute(f"UPDATE {table} SET {column} = {column} - $2::interval WHERE line = $1", line, by)


async def head_of(db: Database, line: str) -> lines.HeadRow:
    async with db.connection() as conn:
        return await lines.head(conn, line)


def _live(record: records.RecordRow | None) -> tuple[Any, ...] | None:
    return None if record is None or record.tombstone else (record.revision, record.scope, record.content_hash)


_TIMES = (
    ("manifests", "created_at"),
    ("pruned_manifests", "created_at"),
    ("events", "created_at"),
    ("branches", "finished_at"),
    ("branches", "deleted_at"),
    ("jobs", "finished_at"),
    ("archives", "created_at"),
)

_WITHOUT_BODY = """
    SELECT v.key FROM record_versions v WHERE v.line = $1
    AND (NOT EXISTS (SELECT FROM facts f WHERE f.line = v.line AND f.fact_hash = v.fact_hash)
         OR NOT v.tombstone AND NOT EXISTS (
             SELECT FROM contents c WHERE c.line = v.line AND c.content_hash = v.content_hash))
"""
_CANDIDATES_WITHOUT_BODY = """
    SELECT c.candidate_id FROM candidates c WHERE c.line = $1 AND c.state <> 'rejected'
    AND NOT EXISTS (SELECT FROM contents t WHERE t.line = c.line AND t.content_hash = c.content_hash)
"""
_UNSEEN = """
    SELECT count(*) FROM {} r WHERE r.line = $1 AND NOT EXISTS (
        SELECT FROM manifests m
        WHERE m.line = r.line AND m.generation >= r.from_generation AND m.generation < r.to_generation)
"""
_RUBBISH = {
    "record_versions": _UNSEEN.format("record_versions"),
    "trie_nodes": _UNSEEN.format("trie_nodes"),
    "contents": """
        SELECT count(*) FROM contents c WHERE c.line = $1
        AND NOT EXISTS (SELECT FROM record_versions v WHERE v.line = c.line AND v.content_hash = c.content_hash)
        AND NOT EXISTS (SELECT FROM candidates d WHERE d.line = c.line AND d.content_hash = c.content_hash)
    """,
    # A restore stores the provenance of tombstones whether it writes any or not: one short row a line.
    "facts": f"""
        SELECT count(*) FROM facts f WHERE f.line = $1
        AND f.body <> convert_to('{Fact().canonical().decode()}', 'UTF8')
        AND NOT EXISTS (SELECT FROM record_versions v WHERE v.line = f.line AND v.fact_hash = f.fact_hash)
    """,
    "released_hashes": "SELECT count(*) FROM released_hashes WHERE line = $1",
    "pruned_manifests": "SELECT count(*) FROM pruned_manifests WHERE line = $1 AND NOT swept",
}
