"""The index of words as a search sees it: how frequent words are, which records score highest, and what it lacks yet.

Scopes are part of each query, and of each segment: what a caller may not read is neither looked at nor counted, so not
even a score tells of it. All statements of a search run in one transaction that reads one snapshot (see `snapshot`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.store import queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from anabranch.model.wire import Visibility
    from anabranch.store.database import Connection, Database

_sql: Final = queries.load("searching")

CANDIDATES: Final = 20_000
"""Documents at most whose frequent words are looked up, those that score highest without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """What is indexed of a line in some scopes.

    Attributes:
        through: All versions that begin up to this generation, whatever their scope.
        documents: How many versions.
        words: How many words they have together.
    """

    through: int
    documents: int
    words: int


@dataclass(frozen=True, slots=True)
class Having:
    """In how many documents a word is.

    Attributes:
        documents: How many.
        listed: How many of them are listed one by one.
    """

    documents: int
    listed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A record that has words of a query.

    Attributes:
        key: Its key.
        revision: The line's revision that wrote it; of a private record, the overlay's.
        scope: Where it is visible.
        content_hash: Of its content, 32 bytes.
        body: The content's canonical bytes; None where it is too large to come along.
        fact_body: The provenance's canonical bytes; None for a private record.
        score: What the index gives it; None where nothing was computed yet.
        visibility: Of a private record; None for a published one.
        segment: Of the index, where that has it,
        document: and its number there.
    """

    key: str
    revision: int
    scope: str
    content_hash: bytes
    body: bytes | None
    fact_body: bytes | None = None
    score: float | None = None
    visibility: Visibility | None = None
    segment: int | None = None
    document: int | None = None


@contextlib.asynccontextmanager
async def snapshot(db: Database) -> AsyncIterator[Connection]:
    """A connection for one search: one snapshot for all its statements, each of which is ended after five seconds.

    Raises:
        UnavailableError: If the database cannot be reached, or a statement takes too long.
    """
    async with db.connection() as conn, snapshot_on(conn):
        yield conn


@contextlib.asynccontextmanager
async def snapshot_on(conn: Connection) -> AsyncIterator[None]:
    """The same, on a connection that there is already."""
    async with conn.transaction(readonly=True, isolation="repeatable_read"):
        await _sql.be_brief(conn)
        yield


async def index(conn: Connection, *, line: str, scopes: Sequence[str]) -> IndexRow:
    """What is indexed of a line in some scopes."""
    return IndexRow(**await _sql.corpus(conn, line=line, scopes=list(scopes)))


async def having(conn: Connection, *, line: str, scopes: Sequence[str], words: Collection[str]) -> dict[str, Having]:
    """How frequent words are in some scopes; one that is nowhere is left out."""
    found = _sql.having(conn, line=line, scopes=list(scopes), words=list(words))
    return dict(await queries.rows(found, lambda row: (row["word"], Having(row["documents"], row["listed"]))))


async def lag(conn: Connection, *, line: str, through: int, generation: int, limit: int) -> int:
    """How many versions begin after one generation and not after another one; counted up to so many."""
    return int(await _sql.lag(conn, line=line, through=through, generation=generation, limit=limit))


async def late(  # noqa: PLR0913  (as `rank`)
    conn: Connection,
    *,
    line: str,
    through: int,
    generation: int,
    scopes: Sequence[str],
    branch_id: str | None,
    size: int,
) -> tuple[list[FoundRow], bool]:
    """What a generation shows of the versions that begin after another one, as `rank` does; and whether that is all.

    Args:
        conn: A connection.
        line: The line.
        through: Versions that begin up to here are left out.
        generation: Of a manifest that the caller has found to be there.
        scopes: Those to be seen.
        branch_id: Leave out what this branch has a private record of; None: nothing.
        size: Bytes of content at most.
    """
    found = _sql.late(
        conn,
        line=line,
        through=through,
        generation=generation,
        scopes=list(scopes),
        branch_id=branch_id,
        bytes=size,
    )
    return _whole(await queries.rows(found, found_row))


async def overlay(
    conn: Connection, *, line: str, branch_id: str, words: Collection[str] | None, size: int
) -> tuple[list[FoundRow], bool]:
    """Private records of a branch that may have some of these words, or words with accents; and whether those are all.

    Args:
        conn: A connection.
        line: The line.
        branch_id: The branch.
        words: As `anabranch.domain.words` gives them; None: all records.
        size: Bytes of keys and contents at most, with some for each record.
    """
    # Words are letters and digits: nothing in them means something to LIKE.
    patterns = ["%"] if words is None else [f"%{word}%" for word in words if word.isascii()]
    found = _sql.overlay(conn, line=line, branch_id=branch_id, patterns=patterns, bytes=size)
    return _whole(await queries.rows(found, found_row))


async def rank(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    *,
    line: str,
    generation: int,
    scopes: Sequence[str],
    branch_id: str | None,
    weights: Mapping[str, float],
    costs: Sequence[float],
    champions: bool,
    deep: int,
    large: int,
    limit: int,
    without: Collection[str] = (),
) -> list[FoundRow]:
    """The records that a generation shows and that score highest, the best first.

    Args:
        conn: Inside the transaction of a search, of which this is the last but for what is looked up by its key.
        line: The line.
        generation: Of a manifest that the caller has found to be there.
        scopes: Those to be seen.
        branch_id: Leave out what this branch has a private record of; None: nothing.
        weights: What each word weighs.
        costs: What a length costs, by its code.
        champions: Whether documents are looked at, too, that have frequent words alone.
        deep: Documents that are ranked as if all had been looked at; some of them the generation may not show.
        large: Bytes of a content from which on it does not come along.
        limit: How many at most.
        without: Keys to leave out, too.
    """
    await _sql.hash_joins(conn)
    found = _sql.rank(
        conn,
        line=line,
        generation=generation,
        scopes=list(scopes),
        branch_id=branch_id,
        words=list(weights),
        weights=list(weights.values()),
        costs=list(costs),
        champions=champions,
        deep=deep,
        most=CANDIDATES,
        large=large,
        limit=limit,
        without=list(without),
    )
    return await queries.rows(found, found_row)


def found_row(row: Any) -> FoundRow:
    """A row of a query that finds records."""
    return FoundRow(**row)


def _whole(found: list[FoundRow]) -> tuple[list[FoundRow], bool]:
    """Those that came with their content, and whether that is all."""
    whole = [row for row in found if row.body is not None]
    return whole, len(whole) == len(found)
