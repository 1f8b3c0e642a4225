"""What must hold of the index of a line, and how a test has it made in small pieces."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from anabranch.domain import bm25, postings
from anabranch.search import indexing

if TYPE_CHECKING:
    import pytest

    from anabranch.store.database import Connection, Database


def small_segments(monkeypatch: pytest.MonkeyPatch, *, documents: int = 40) -> None:
    """Segments as a line of millions of records has them: several, and with words that are frequent in them."""
    monkeypatch.setattr(postings, "DOCUMENTS", documents)
    monkeypatch.setattr(postings, "_DENSE_FROM", 8)
    monkeypatch.setattr(postings, "_DENSE_SHARE", 4)
    monkeypatch.setattr(indexing, "_FULL", documents * 3 // 4)


async def indexed(db: Database, line: str) -> None:
    """Bring all indexes up to date, and check that of a line."""
    while await indexing.turn(db):
        pass
    async with db.connection() as conn:
        head = await conn.fetchval("SELECT head_generation FROM line_heads WHERE line = $1", line)
        assert await conn.fetchval("SELECT through FROM search_progress WHERE line = $1", line) == head
        await check(conn, line)


async def check(conn: Connection, line: str) -> None:
    """Each version up to where the index has come is in one segment, of its scope, with its words; and nothing else.

    Versions that retention has removed may still be there; while a walk is under way, those that it has come to are.
    """
    progress = await conn.fetchrow("SELECT * FROM search_progress WHERE line = $1", line)
    documents = await conn.fetch(_DOCUMENTS, line)
    versions = {
        (row["key"], row["from_generation"]): row for row in await conn.fetch(_VERSIONS, line, progress["through"])
    }
    places = {(row["key"], row["from_generation"]): row for row in documents}
    assert len(places) == len(documents), "a version is in two segments"
    assert versions.keys() <= places.keys(), "a version is in no segment"
    expected: dict[int, dict[int, Counter[str]]] = {}
    for place in documents:
        if place["body"] is not None:
            assert place["scope"] == place["segment_scope"]
            words = indexing.words_of(place["key"], place["body"])
            counts = {word: min(count, bm25.MOST) for word, count in Counter(words).items()}
            expected.setdefault(place["segment"], {})[place["document"]] = Counter(counts)
    for segment, counts in expected.items():
        await _check_words(conn, line, segment, counts)
    assert await conn.fetchval(_ORPHANS, line) == 0
    sums = await conn.fetch(_SUMS, line)
    assert all(row["documents"] == row["counted"] for row in sums)


async def _check_words(conn: Connection, line: str, segment: int, counts: dict[int, Counter[str]]) -> None:
    found: dict[int, Counter[str]] = {document: Counter() for document in counts}
    rows = await conn.fetch("SELECT * FROM search_words WHERE line = $1 AND segment = $2", line, segment)
    for row in rows:
        if row["dense"] is None:
            entries = [(entry >> 16, entry >> 8 & 255) for entry in row["entries"]]
        else:
            entries = [(document, count) for document, count in enumerate(row["dense"]) if count]
            assert {entry >> 16 for entry in row["entries"]} <= {document for document, _ in entries}
        assert row["documents"] == len(entries)
        for document, count in entries:
            if document in found:
                found[document][row["word"]] = count
    assert found == counts


_DOCUMENTS = """
    SELECT d.segment, d.document, d.key, d.from_generation, s.scope AS segment_scope, r.scope, c.body
    FROM search_documents AS d
    JOIN search_segments AS s USING (line, segment)
    LEFT JOIN record_versions AS r USING (line, key, from_generation)
    LEFT JOIN contents AS c USING (line, content_hash)
    WHERE d.line = $1
"""
_VERSIONS = """
    SELECT key, from_generation FROM record_versions WHERE line = $1 AND from_generation <= $2 AND NOT tombstone
"""
_ORPHANS = """
    SELECT count(*) FROM (
        SELECT line, segment FROM search_documents UNION ALL SELECT line, segment FROM search_words
    ) AS rows
    WHERE line = $1
      AND NOT EXISTS (SELECT FROM search_segments AS s WHERE s.line = rows.line AND s.segment = rows.segment)
"""
_SUMS = """
    SELECT s.segment, s.documents,
           (SELECT count(*) FROM search_documents AS d WHERE d.line = s.line AND d.segment = s.segment) AS counted
    FROM search_segments AS s WHERE s.line = $1
"""
