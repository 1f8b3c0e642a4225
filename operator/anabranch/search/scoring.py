"""How the records that a search finds are ranked: those of the index in SQL, and all others here, by one formula.

What is not in the index is read and counted once, whatever is searched for, so that many searches of one manifest, as
those of an evaluation set, share it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import bm25
from anabranch.model.limits import SEARCH_DEPTH
from anabranch.search.indexing import words_of
from anabranch.store import searching

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.store.database import Connection
    from anabranch.store.searching import FoundRow, Having, IndexRow

LARGE: Final = 64 << 10
"""Bytes of a content from which on it is read by itself, so that a page of them is never in memory at once."""

LARGE_OF_BOTH: Final = 16 << 10
"""Likewise in a search by words and meaning, which looks at more of them."""

_LISTED: Final = 100_000
"""Entries of the index that a search goes through. Words beyond, the most frequent ones first, are left out."""

_MARGIN: Final = 100
"""Documents that are ranked beyond twice those that are asked for."""

_FEW: Final = SEARCH_DEPTH
"""Entries of the rarer words up to which documents that have frequent words alone are looked at, too."""

Counted = list[tuple["FoundRow", Counter[str]]]
"""Records with the counts of their words."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a search looks at.

    Attributes:
        line: The line.
        generation: Of a manifest that is there.
        scopes: Those to be seen.
        branch_id: What this branch has a private record of is left out; None: nothing.
    """

    line: str
    generation: int
    scopes: Sequence[str]
    branch_id: str | None


async def counted(rows: Sequence[FoundRow]) -> Counted:
    """Records that are not in the index, with the counts of their words."""
    if not rows:
        return []
    return await asyncio.to_thread(lambda: [(row, Counter(words_of(row.key, row.body or b"null"))) for row in rows])


def scale(
    wanted: Sequence[str], index: IndexRow, having: Mapping[str, Having], *, late: Counted, own: Counted
) -> bm25.Scale:
    """How documents are scored: by what is published in these scopes. Private records do not weigh words.

    Args:
        wanted: The words that are searched for.
        index: What is indexed.
        having: How frequent the words are in it.
        late: What is published beside.
        own: Private records. They alone count where nothing is published.
    """
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


async def ranked(  # noqa: PLR0913  (a search has that many bounds)
    conn: Connection,
    *,
    line: str,
    generation: int,
    scopes: Sequence[str],
    branch_id: str | None,
    scale: bm25.Scale,
    having: Mapping[str, Having],
    limit: int,
    without: Collection[str] = (),
    large: int = LARGE,
) -> list[FoundRow]:
    """What the index has, the best first.

    Twice as many documents are ranked as are asked for. Only where the generation shows less than half of them, in the
    past of a line that changes much, does it take a second, deeper look.

    Args:
        conn: Inside the transaction of a search.
        line: The line.
        generation: Of a manifest that the caller has found to be there.
        scopes: Those to be seen.
        branch_id: Leave out what this branch has a private record of; None: nothing.
        scale: How documents are scored.
        having: How frequent the words are.
        limit: How many at most.
        without: Keys to leave out, too.
        large: Bytes of a content from which on it does not come along.
    """
    chosen = _chosen(having)
    listed = sum(having[word].listed for word in chosen)
    found: list[FoundRow] = []
    for deep in (2 * limit + _MARGIN, searching.CANDIDATES):
        found = await searching.rank(
            conn,
            line=line,
            generation=generation,
            scopes=scopes,
            branch_id=branch_id,
            weights={word: scale.weights[word] for word in chosen},
            costs=scale.costs,
            champions=listed < _FEW,
            deep=deep,
            large=large,
            without=without,
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


def scored(rows: Counted, scale: bm25.Scale) -> list[tuple[float, FoundRow]]:
    """Those of some records that have a word, with their scores."""
    found = []
    for row, counts in rows:
        score = scale.score({word: counts[word] for word in scale.weights}, words=counts.total())
        if score:
            found.append((score, row))
    return found


def merged(ranked: Iterable[FoundRow], others: Iterable[tuple[float, FoundRow]]) -> list[tuple[float, FoundRow]]:
    """All that was found, each key once, the best first; by key where the scores are equal."""
    found = {row.key: (row.score or 0.0, row) for row in ranked}
    found.update((row.key, (score, row)) for score, row in others)
    return sorted(found.values(), key=lambda each: (-each[0], each[1].key))
