"""Structured memories: remembered with labels and a time, recalled by them, found by their words, forgotten.

A page ends where it has as many memories as were asked for, as many bytes, or when it has looked at as many as one
request may look at: then it may be empty, and still has a cursor.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import uuid_utils

from anabranch.domain.cursor import InvalidCursorError
from anabranch.kv.envelopes import label, made_of
from anabranch.kv.records import absent, get, millis, place_of, write
from anabranch.kv.values import check_memory_key, read
from anabranch.model.errors import InvalidInputError
from anabranch.model.kv import Memory, MemoryHit, MemoryPage, MemoryRanking, MemoryScored
from anabranch.store import database, kv_memories, kv_namespaces
from anabranch.store.kv_memories import NEWEST, Filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.domain.cursor import Sealer
    from anabranch.model.kv import MemorySearch, RememberRequest
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.kv import KvRow

QUERY_BYTES: Final = 16 << 10
QUERY_TERMS: Final = 64
"""Words of a question that are asked for at once."""

_RECALL_BYTES: Final = 256
_RECALL_TERMS: Final = 8
_LOOKED_AT: Final = 1_000
_LOOKED_AT_BYTES: Final = 4 << 20
_STEP: Final = 100
_RELATED_WEIGHT: Final = 0.25
_FRAME_BYTES: Final = 512
"""What an answer has beside its memories, at most: most of it is the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Which memories are to be recalled.

    Attributes:
        topic: That they have.
        tag: That is among theirs.
        query: Texts that all stand in their content, separated by white space; case does not count.
        since_ms: When they happened at the earliest.
        until_ms: And at the latest.
        limit: How many at most.
        max_bytes: How many bytes the answer may have.
        cursor: Of the page before.
    """

    topic: str | None = None
    tag: str | None = None
    query: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 20
    max_bytes: int = 16_384
    cursor: str | None = None


async def remember(
    db: Database, branch: BranchRow, *, namespace: str, request: RememberRequest, readable: Sequence[str]
) -> MemoryHit:
    """Keep a memory: a new one, or in the place of the revision that the agent saw.

    Raises:
        InvalidInputError: If a member does not do.
        ConflictError: If the key has a record already, or one at another revision; or the run is over.
        QuotaExceededError: If the namespace, or the branch, holds as much as it may.
    """
    place = place_of(branch, namespace)
    key = request.key or str(uuid_utils.uuid7())
    check_memory_key(place, key)
    async with db.connection() as conn:
        memory = made_of(request.memory, now_ms=millis(await database.now(conn)))
    written = await write(
        db,
        branch,
        place,
        key,
        value=read(memory.model_dump_json().encode()),
        ttl_seconds=request.ttl_seconds,
        expected=request.if_revision or 0,
        readable=readable,
    )
    return MemoryHit(
        key=key,
        revision=written.revision,
        written_at_ms=millis(written.written_at),
        expires_at_ms=written.expires_at and millis(written.expires_at),
        memory=memory,
    )


async def exact(db: Database, branch: BranchRow, *, namespace: str, key: str) -> MemoryHit:
    """A memory by its key.

    Raises:
        NotFoundError: If there is none, or a record that is no memory.
    """
    row = await get(db, branch, namespace=namespace, key=key)
    if row.occurred_at_ms is None:
        raise absent(place_of(branch, namespace), key, what="memory")
    return MemoryHit(**_members(row))


async def recall(db: Database, branch: BranchRow, sealer: Sealer, *, namespace: str, asked: Recall) -> MemoryPage:
    """Memories by when they happened, the newest first.

    Raises:
        InvalidInputError: If a filter does not do, the cursor is of other ones, or one memory is larger than the
            answer may be.
    """
    place = place_of(branch, namespace)
    filters = _filters(asked.topic, asked.tag, asked.since_ms, asked.until_ms)
    words = _literal(asked.query)
    purpose = f"kv recall {place.branch_id} {namespace} {_fingerprint(filters, words)}"
    before = NEWEST if asked.cursor is None else _seen(sealer.open(purpose, asked.cursor))
    looked = _Look(budget=asked.max_bytes, limit=asked.limit)
    async with db.connection() as conn:
        while True:
            rows = await kv_memories.page(conn, place, filters=filters, before=before, limit=_STEP)
            for row in rows:
                if not looked.at(row, words):
                    return looked.page(None if before is NEWEST else sealer.seal(purpose, before))
                before = (row.occurred_at_ms or 0, row.key)
            if len(rows) < _STEP:
                return looked.page(None)


async def search(
    db: Database, branch: BranchRow, sealer: Sealer, *, namespace: str, asked: MemorySearch
) -> MemoryRanking:
    """Memories by how well they answer a question.

    Raises:
        InvalidInputError: If the question does not do, or the cursor is of another one or the namespace was written to
            since.
    """
    place = place_of(branch, namespace)
    text = asked.query.strip().lower()
    if not text or len(asked.query.encode()) > QUERY_BYTES:
        raise InvalidInputError(f"`query` takes 1 to {QUERY_BYTES} bytes.", hint="Ask with a few words.")
    filters = _filters(asked.topic, asked.tag, asked.since_ms, asked.until_ms)
    purpose = f"kv search {place.branch_id} {namespace} {_fingerprint(filters, text, asked.expansion_terms)}"
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        revision = (await kv_namespaces.stats(conn, place)).revision
        skip = 0
        if asked.cursor is not None:
            at, skip = sealer.open(purpose, asked.cursor)
            if at != revision:
                raise InvalidCursorError(
                    "The namespace was written to since.", hint="Search again from the first page."
                )
        related = " ".join(asked.expansion_terms)
        terms = await kv_memories.terms(conn, text=text, related=related, limit=QUERY_TERMS + 9)
        own = [term.lexeme for term in terms if not term.related]
        beside = [term.lexeme for term in terms if term.related][:8]
        words = [(lexeme, 1.0) for lexeme in own[:QUERY_TERMS]] + [(lexeme, _RELATED_WEIGHT) for lexeme in beside]
        found = (
            await kv_memories.rank(conn, place, words=words, filters=filters, skip=skip, limit=asked.limit)
            if words
            else []
        )
    looked = _Look(budget=asked.max_bytes, limit=asked.limit)
    items: list[MemoryScored] = []
    for each in found:
        hit = MemoryScored(score=each.score, **_members(each.row))
        if not looked.takes(hit):
            break
        items.append(hit)
    matches = found[0].matches if found else 0
    more = skip + len(items) < matches
    return MemoryRanking(
        items=tuple(items),
        next_cursor=sealer.seal(purpose, [revision, skip + len(items)]) if more else None,
        postings_scanned=matches,
        index_reads=matches,
        scored_candidates=matches,
        query_terms=len(own),
        selected_terms=min(len(own), QUERY_TERMS),
        query_reduced=len(own) > QUERY_TERMS,
        expansion_terms=len(beside),
        candidates_scanned=len(found),
        scanned_bytes=sum(each.row.size for each in found),
        truncated=False,
    )


class _Look:
    """What a page has taken so far, and how much of it one request may look at.

    Args:
        budget: Bytes that the answer may have.
        limit: Memories that it may have.
    """

    def __init__(self, *, budget: int, limit: int) -> None:
        self._left = budget - _FRAME_BYTES
        self._limit = limit
        self._items: list[MemoryHit] = []
        self._scanned = 0
        self._scanned_bytes = 0

    def at(self, row: KvRow, words: Sequence[str]) -> bool:
        """Look at a candidate, and take it if all words stand in it; whether there was room for that.

        Raises:
            InvalidInputError: As `takes`.
        """
        if len(self._items) >= self._limit or self._scanned >= _LOOKED_AT or self._scanned_bytes >= _LOOKED_AT_BYTES:
            return False
        hit = MemoryHit(**_members(row))
        text = hit.memory.content.lower()
        if all(word in text for word in words) and not self.takes(hit):
            return False
        self._scanned += 1
        self._scanned_bytes += row.size
        return True

    def takes(self, hit: MemoryHit) -> bool:
        """Take a memory, if it fits.

        Raises:
            InvalidInputError: If it is the first one, and does not.
        """
        size = len(hit.model_dump_json().encode()) + 1
        if size > self._left:
            if not self._items:
                raise InvalidInputError(
                    f"One memory has {size} bytes, which is more than max_bytes leaves.",
                    hint="Ask with a larger max_bytes.",
                )
            return False
        self._left -= size
        self._items.append(hit)
        return True

    def page(self, cursor: str | None) -> MemoryPage:
        """The page."""
        return MemoryPage(
            items=tuple(self._items),
            next_cursor=cursor,
            scanned=self._scanned,
            scanned_bytes=self._scanned_bytes,
        )


def _members(row: KvRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "revision": row.revision,
        "written_at_ms": millis(row.written_at),
        "expires_at_ms": row.expires_at and millis(row.expires_at),
        "memory": Memory.model_validate_json(row.value),
    }


def _filters(topic: str | None, tag: str | None, since_ms: int | None, until_ms: int | None) -> Filters:
    filters = Filters(
        topic=None if topic is None else label(topic, field="topic"),
        tag=None if tag is None else label(tag, field="tag"),
    )
    if since_ms is not None:
        filters = replace(filters, since_ms=since_ms)
    if until_ms is not None:
        filters = replace(filters, until_ms=until_ms)
    if filters.since_ms > filters.until_ms:
        raise InvalidInputError("`since_ms` lies after `until_ms`.", hint="Exchange them.")
    return filters


def _literal(query: str | None) -> list[str]:
    """The texts that all have to stand in a memory."""
    if query is None:
        return []
    words = query.lower().split()
    if not words or len(query.encode()) > _RECALL_BYTES or len(words) > _RECALL_TERMS:
        raise InvalidInputError(
            f"`query` takes 1 to {_RECALL_TERMS} words in {_RECALL_BYTES} bytes.", hint="Search takes more."
        )
    return words


def _seen(place: Sequence[Any]) -> tuple[int, str]:
    at, key = place
    return at, key


def _fingerprint(filters: Filters, *more: Any) -> str:
    """Names filters, so that a cursor is good for these alone."""
    said = json.dumps([filters.topic, filters.tag, filters.since_ms, filters.until_ms, *more])
    return hashlib.sha256(said.encode()).hexdigest()
