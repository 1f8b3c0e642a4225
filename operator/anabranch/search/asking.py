"""Searches: the records of a generation, or what a branch sees of them, that answer a text best.

The index is asked for what it has. What it has not got yet, because it was published a moment ago, and a branch's
private records, which are nobody else's and change all the time, are read and scored here by the same formula. So a
search finds what was there when it was asked, whatever the index lacks, unless that is much; then it says so.

By words, or by words and meaning (`hybrid`), where the installation has an embedder. Where it has none, or none that
answers, words alone do, and the answer says that.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from anabranch.baselines import read
from anabranch.domain.words import words
from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.model.limits import HYBRID_DEPTH, SEARCH_DEPTH, SEARCH_WORDS
from anabranch.search import hits, scoring
from anabranch.store import manifests, searching, standbys
from anabranch.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from anabranch.domain import bm25
    from anabranch.model.found import SearchHit, SearchMode, WordsAlone
    from anabranch.model.objects import ManifestRef
    from anabranch.search.meaning import Both, Meaning
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.searching import FoundRow, Having, IndexRow

_LATE: Final = 1_000
"""Versions that are read if they are not in the index yet; more wait for it."""

_READ_BYTES: Final = 4 << 20
"""Of those, and of private records that may have a word: they are read, and scored here."""

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
        mode: How.
    """

    line: str
    ref: str | int
    scopes: Sequence[str]
    text: str
    branch: BranchRow | None = None
    mode: SearchMode = "words"

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
        mode: How it was searched.
        words_alone: Why not by meaning, too.
        without_vector: How many versions and private records were looked at by their words alone; 0 unless `hybrid`.
    """

    manifest: ManifestRef
    hits: Sequence[SearchHit]
    more: bool
    indexed_through: int
    complete: bool
    mode: SearchMode = "words"
    words_alone: WordsAlone | None = "asked"
    without_vector: int = 0


class Searcher:
    """Searches for one process, some at once, so that receipts and reads find a connection that is free.

    Args:
        db: The database.
        meaning: Searches by meaning; None: this installation does not.
        mode: How it is searched unless a search says it.
    """

    def __init__(self, db: Database, *, meaning: Meaning | None = None, mode: SearchMode | None = None) -> None:
        self._db = db
        self._meaning = meaning
        self.mode: SearchMode = mode or ("words" if meaning is None else "hybrid")
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
        with tracing.span("search") as span:
            async with self.turn():
                found = await search(self._db, asked, offset=offset, limit=limit, meaning=self._meaning)
            span.set(line=asked.line, mode=found.mode, hits=len(found.hits), complete=found.complete)
        return found


async def search(db: Database, asked: Search, *, offset: int, limit: int, meaning: Meaning | None = None) -> Found:
    """Search.

    Args:
        db: The database.
        asked: What, and for what.
        offset: Hits that were given before.
        limit: How many to give at most.
        meaning: Searches by meaning; None: nobody does.

    Raises:
        InvalidInputError: If there is no word to search for, or too many.
        GoneError: If the manifest was pruned.
        NotFoundError: If there never was such a manifest.
        UnavailableError: If it takes too long, or the database cannot be reached.
    """
    wanted = wanted_words(asked.text)
    query, words_alone = await _query(meaning, asked)
    searching_for = functools.partial(
        _found, wanted=wanted, query=query, words_alone=words_alone, offset=offset, limit=limit, meaning=meaning
    )
    if asked.branch is None and db.standbys is not None:
        named = await read.manifest(db, line=asked.line, ref=asked.ref)
        asked = replace(asked, ref=named.generation)
        return await standbys.read(
            db,
            line=asked.line,
            baseline_ids=[named.baseline_id],
            work=lambda conn: searching_for(conn, asked),
            enough=lambda found: found.complete and not found.without_vector,  # the primary's index may be further
        )
    async with db.connection() as conn:
        return await searching_for(conn, asked)


async def _found(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    asked: Search,
    *,
    wanted: Sequence[str],
    query: NDArray[np.float32] | None,
    words_alone: WordsAlone | None,
    offset: int,
    limit: int,
    meaning: Meaning | None,
) -> Found:
    """What a search finds in one snapshot of the server of a connection."""
    depth = SEARCH_DEPTH if query is None else HYBRID_DEPTH
    limit = max(0, min(limit, depth - offset))
    async with searching.snapshot_on(conn):
        manifest = await manifests.resolve(conn, line=asked.line, ref=asked.ref)
        index = await searching.index(conn, line=asked.line, scopes=asked.scopes)
        having = await searching.having(conn, line=asked.line, scopes=asked.scopes, words=wanted)
        late, complete = await not_indexed(conn, asked, index=index, generation=manifest.generation)
        own, all_own = await _overlay(conn, asked, wanted if query is None else None)
        late_counts, own_counts = await scoring.counted(late), await scoring.counted(own)
        scale = scoring.scale(wanted, index, having, late=late_counts, own=own_counts)
        bounds = scoring.Bounds(asked.line, manifest.generation, asked.scopes, asked.branch_id)
        others = [*late_counts, *own_counts]
        both: Both | None = None
        if meaning is None or query is None:
            ranked = await _ranked(conn, bounds, scale, having, limit=offset + limit + 1)
            best = scoring.merged(ranked, scoring.scored(others, scale))
        else:
            near = await meaning.near(conn, bounds, query)
            ranked = await _ranked(conn, bounds, scale, having, limit=depth, large=scoring.LARGE_OF_BOTH)
            both = await meaning.both(conn, bounds, query, scale, near=near, ranked=ranked, others=others)
            best = both.best
        found = await hits.of(
            conn, asked.line, best[offset : offset + limit], scale.weights, ways=both.ways if both else None
        )
        if asked.branch is not None:
            parent = asked.branch.parent_generation
            found = await hits.layered(conn, found, line=asked.line, parent=parent, generation=manifest.generation)
    return Found(
        manifest=read.ref(manifest),
        hits=found,
        more=len(best) > offset + limit < depth,
        indexed_through=index.through,
        complete=complete and all_own,
        mode="words" if query is None else "hybrid",
        words_alone=words_alone,
        without_vector=both.without_vector if both else 0,
    )


async def _query(meaning: Meaning | None, asked: Search) -> tuple[NDArray[np.float32] | None, WordsAlone | None]:
    """The vector of what is searched for; or none, and why."""
    if asked.mode == "words":
        return None, "asked"
    if meaning is None:
        return None, "off"
    try:
        return await meaning.of_query(asked.text), None
    except UnavailableError:
        return None, "unavailable"


async def _ranked(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    bounds: scoring.Bounds,
    scale: bm25.Scale,
    having: Mapping[str, Having],
    *,
    limit: int,
    large: int = scoring.LARGE,
) -> list[FoundRow]:
    """What the index has of the words, the best first."""
    return await scoring.ranked(
        conn,
        line=bounds.line,
        generation=bounds.generation,
        scopes=bounds.scopes,
        branch_id=bounds.branch_id,
        scale=scale,
        having=having,
        limit=limit,
        large=large,
    )


def wanted_words(text: str) -> list[str]:
    """The different words of what is searched for.

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


async def not_indexed(
    conn: Connection, asked: Search, *, index: IndexRow, generation: int
) -> tuple[list[FoundRow], bool]:
    """What a generation shows that the index has not got yet, and whether that is all of it."""
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


async def _overlay(conn: Connection, asked: Search, wanted: Sequence[str] | None) -> tuple[list[FoundRow], bool]:
    """Private records that may have one of the words, or all that there are; and whether those are all."""
    if asked.branch is None:
        return [], True
    return await searching.overlay(
        conn, line=asked.line, branch_id=asked.branch.branch_id, words=wanted, size=_READ_BYTES
    )
