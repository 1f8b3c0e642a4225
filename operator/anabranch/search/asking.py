"""Searches: the records of a generation, or what a branch sees of them, that answer some words best.

The index is asked for what it has. What it has not got yet, because it was published a moment ago, and a branch's
private records, which are nobody else's and change all the time, are read and scored here by the same formula. So a
search finds what was there when it was asked, whatever the index lacks, unless that is much; then it says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.baselines import read
from anabranch.domain import bm25
from anabranch.domain.words import words
from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.model.limits import SEARCH_DEPTH, SEARCH_WORDS
from anabranch.search import hits
from anabranch.search.indexing import words_of
from anabranch.store import manifests, searching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from anabranch.model.answers import SearchHit
    from anabranch.model.objects import ManifestRef
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.searching import FoundRow, Having, IndexRow

_LATE: Final = 1_000
"""Versions that are read if they are not in the index yet; more wait for it."""

_READ_BYTES: Final = 4 << 20
"""Of those, and of private records that may have a word: they are read, and scored here."""

_LARGE: Final = 64 << 10
"""Bytes of a content from which on it is read by itself, so that a page of them is never in memory at once."""

_LISTED: Final = 100_000
"""Entries of the index that a search goes through. Words beyond, the most frequent ones first, are left out."""

_MARGIN: Final = 100
"""Documents that are ranked beyond twice those that are asked for."""

_FEW: Final = SEARCH_DEPTH
"""Entries of the rarer words up to which documents that have frequent words alone are looked at, too."""


_AT_ONCE: Final = 4
"""Searches of a process at the same time; each has a connection."""

_PATIENCE_SECONDS: Final = 5.0
"""How long one waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched, and for what.

    Attributes:
        line: The line.
        ref: The manifest: a generation, a baseline id, ``current`` or ``head``.
        scopes: Those that the caller may read.
        text: What for.
        branch: Whose private records are searched too, instead of what the manifest says of their keys.
    """

    line: str
    ref: str | int
    scopes: Sequence[str]
    text: str
    branch: BranchRow | None = None

    @property
    def branch_id(self) -> str | None:
        """The branch's id."""
        return None if self.branch is None else self.branch.branch_id


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        manifest: What was searched.
        hits: The best first.
        more: Whether there may be more behind them.
        indexed_through: The generation that the index has come to.
        complete: Whether everything was looked at.
    """

    manifest: ManifestRef
    hits: Sequence[SearchHit]
    more: bool
    indexed_through: int
    complete: bool


class Searcher:
    """Searches for one process, some at once, so that receipts and reads find a connection that is free.

    Args:
        db: The database.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn, for whatever goes through as much as a search does.

        Raises:
            UnavailableError: If too many others are before this one.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise UnavailableError("Too many searches are under way.", hint="Try again in a moment.") from None
        try:
            yield
        finally:
            self._turns.release()

    async def search(self, asked: Search, *, offset: int, limit: int) -> Found:
        """Search, once it is this one's turn (see `search`).

        Raises:
            UnavailableError: If too many others are before it, too.
        """
        async with self.turn():
            return await search(self._db, asked, offset=offset, limit=limit)


async def search(db: Database, asked: Search, *, offset: int, limit: int) -> Found:
    """Search.

    Args:
        db: The database.
        asked: What, and for what.
        offset: Hits that were given before.
        limit: How many to give at most.

    Raises:
        InvalidInputError: If there is no word to search for, or too many.
        GoneError: If the manifest was pruned.
        NotFoundError: If there never was such a manifest.
        UnavailableError: If it takes too long, or the database cannot be reached.
    """
    wanted = _wanted(asked.text)
    limit = min(limit, SEARCH_DEPTH - offset)
    async with searching.snapshot(db) as conn:
        manifest = await manifests.resolve(conn, line=asked.line, ref=asked.ref)
        index = await searching.index(conn, line=asked.line, scopes=asked.scopes)
        having = await searching.having(conn, line=asked.line, scopes=asked.scopes, words=wanted)
        late, complete = await _late(conn, asked, index=index, generation=manifest.generation)
        own, all_own = await _overlay(conn, asked, wanted)
        late_counts, own_counts = await _counted(late), await _counted(own)
        scale = _scale(wanted, index, having, late=late_counts, own=own_counts)
        ranked = await _ranked(conn, asked, manifest.generation, scale, having, limit=offset + limit + 1)
        best = _merged(ranked, [*_scored(late_counts, scale), *_scored(own_counts, scale)])
        found = await hits.of(conn, asked.line, best[offset : offset + limit], scale.weights)
        if asked.branch is not None:
            parent = asked.branch.parent_generation
            found = await hits.layered(conn, found, line=asked.line, parent=parent, generation=manifest.generation)
    return Found(
        manifest=read.ref(manifest),
        hits=found,
        more=len(best) > offset + limit < SEARCH_DEPTH,
        indexed_through=index.through,
        complete=complete and all_own,
    )


def _wanted(text: str) -> list[str]:
    """The different words of a text.

    Raises:
        InvalidInputError: If there are none, or too many.
    """
    wanted = list(dict.fromkeys(words(text)))
    if not wanted:
        raise InvalidInputError("There is no word to search for.", hint="Search for letters or digits.")
    if len(wanted) > SEARCH_WORDS:
        raise InvalidInputError(
            f"The search has {len(wanted)} different words, the limit is {SEARCH_WORDS}.",
            hint="Leave the more common ones out.",
            limit=SEARCH_WORDS,
        )
    return wanted


async def _late(conn: Connection, asked: Search, *, index: IndexRow, generation: int) -> tuple[list[FoundRow], bool]:
    """What the index has not got yet, and whether that is all of it."""
    if generation <= index.through:
        return [], True
    line, through = asked.line, index.through
    if await searching.lag(conn, line=line, through=through, generation=generation, limit=_LATE + 1) > _LATE:
        return [], False
    return await searching.late(
        conn,
        line=line,
        through=through,
        generation=generation,
        scopes=asked.scopes,
        branch_id=asked.branch_id,
        size=_READ_BYTES,
    )


async def _overlay(conn: Connection, asked: Search, wanted: Sequence[str]) -> tuple[list[FoundRow], bool]:
    """Private records that may have one of the words, and whether those are all."""
    if asked.branch is None:
        return [], True
    return await searching.overlay(
        conn, line=asked.line, branch_id=asked.branch.branch_id, words=wanted, size=_READ_BYTES
    )


_Counts = list[tuple["FoundRow", Counter[str]]]


async def _counted(rows: Sequence[FoundRow]) -> _Counts:
    """Records that are not in the index, with the counts of their words."""
    if not rows:
        return []
    return await asyncio.to_thread(lambda: [(row, Counter(words_of(row.key, row.body or b"null"))) for row in rows])


def _scale(
    wanted: Sequence[str], index: IndexRow, having: Mapping[str, Having], *, late: _Counts, own: _Counts
) -> bm25.Scale:
    """How documents are scored: by what is published in these scopes. Private records do not weigh words."""
    documents = index.documents + len(late)
    said = index.words + sum(counts.total() for _, counts in late)
    frequencies = {
        word: (having[word].documents if word in having else 0) + sum(word in counts for _, counts in late)
        for word in wanted
    }
    if not documents:
        documents, said = len(own), sum(counts.total() for _, counts in own)
    return bm25.Scale(
        {word: bm25.weight(frequency, documents=documents) for word, frequency in frequencies.items()},
        said / documents if documents else 0.0,
    )


async def _ranked(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    asked: Search,
    generation: int,
    scale: bm25.Scale,
    having: Mapping[str, Having],
    *,
    limit: int,
) -> list[FoundRow]:
    """What the index has, the best first.

    Twice as many documents are ranked as are asked for. Only where the generation shows less than half of them, in the
    past of a line that changes much, does it take a second, deeper look.
    """
    chosen = _chosen(having)
    listed = sum(having[word].listed for word in chosen)
    found: list[FoundRow] = []
    for deep in (2 * limit + _MARGIN, searching.CANDIDATES):
        found = await searching.rank(
            conn,
            line=asked.line,
            generation=generation,
            scopes=asked.scopes,
            branch_id=asked.branch_id,
            weights={word: scale.weights[word] for word in chosen},
            costs=scale.costs,
            champions=listed < _FEW,
            deep=deep,
            large=_LARGE,
            limit=limit,
        )
        if len(found) >= limit or sum(having[word].documents for word in chosen) <= deep:
            break
    return found


def _chosen(having: Mapping[str, Having]) -> list[str]:
    """The words that the index is asked for: all, unless their entries are too many; then the rarer ones."""
    chosen: list[str] = []
    listed = 0
    for word in sorted(having, key=lambda word: having[word].listed):
        if chosen and listed + having[word].listed > _LISTED:
            break
        chosen.append(word)
        listed += having[word].listed
    return chosen


def _scored(rows: _Counts, scale: bm25.Scale) -> list[tuple[float, FoundRow]]:
    """Those of some records that have a word, with their scores."""
    scored = []
    for row, counts in rows:
        score = scale.score({word: counts[word] for word in scale.weights}, words=counts.total())
        if score:
            scored.append((score, row))
    return scored


def _merged(ranked: Iterable[FoundRow], others: Iterable[tuple[float, FoundRow]]) -> list[tuple[float, FoundRow]]:
    """All that was found, each key once, the best first; by key where the scores are equal."""
    found = {row.key: (row.score or 0.0, row) for row in ranked}
    found.update((row.key, (score, row)) for score, row in others)
    return sorted(found.values(), key=lambda each: (-each[0], each[1].key))
