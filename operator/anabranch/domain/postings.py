"""A segment of the index, from the words of its documents: pure, so that it can be made beside the event loop.

Of each word a segment keeps in which documents it is, as one integer each: the document's number, the word's count, the
document's length. Of a word that every thirtieth document or more has, going through all of them would cost more than
it tells. There the counts stand in one byte a document, so that any document can be looked up, and only the documents
that it tells most about are listed (their "champions"), for queries in which no word is rarer.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import bm25

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCUMENTS: Final = 1 << 15
"""Of a segment at most: a document's number, a count and a length are one integer of 31 bits."""

POSTINGS: Final = 1 << 21
"""From which on a segment takes no more documents, so that making one takes bounded memory."""

_DENSE_FROM: Final = 1 << 12
_DENSE_SHARE: Final = 32
_CHAMPIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Posting:
    """A word of a segment.

    Attributes:
        word: The word.
        documents: How many documents have it.
        entries: Those, or of a frequent word the champions (see `entry`).
        dense: Of a frequent word its count in each document, a byte each.
    """

    word: str
    documents: int
    entries: Sequence[int]
    dense: bytes | None


class Segment:
    """A segment that is being made.

    Attributes:
        words: Words of all its documents together.
    """

    def __init__(self) -> None:
        self.words = 0
        self._documents = 0
        self._postings = 0
        self._entries: dict[str, array[int]] = {}

    def __len__(self) -> int:
        """How many documents it has."""
        return self._documents

    @property
    def full(self) -> bool:
        """Whether it is to take no more documents."""
        return self._documents >= DOCUMENTS or self._postings >= POSTINGS

    def add(self, words: Sequence[str]) -> int:
        """Take a document; its number."""
        document, counts = self._documents, Counter(words)
        base, entries = (document << 16) | bm25.code(len(words)), self._entries
        for word, count in counts.items():
            entry = base | (min(count, bm25.MOST) << 8)
            if (found := entries.get(word)) is None:
                entries[word] = array("i", (entry,))
            else:
                found.append(entry)
        self._documents += 1
        self._postings += len(counts)
        self.words += len(words)
        return document

    def postings(self) -> Iterator[Posting]:
        """Its words, in their order."""
        large = self._documents >= _DENSE_FROM
        mean = self.words / self._documents if self._documents else 0.0
        costs = bm25.Scale({}, mean).costs
        for word in sorted(self._entries):
            entries = self._entries[word]
            if large and len(entries) * _DENSE_SHARE >= self._documents:
                yield self._dense(word, entries, costs)
            else:
                yield Posting(word, len(entries), entries, None)

    def _dense(self, word: str, entries: Sequence[int], costs: Sequence[float]) -> Posting:
        counts = bytearray(self._documents)
        for entry in entries:
            counts[entry >> 16] = entry >> 8 & 255

        def telling(entry: int) -> float:
            count = entry >> 8 & 255
            return count / (count + costs[entry & 255])

        champions = sorted(entries, key=telling, reverse=True)[:_CHAMPIONS]
        return Posting(word, len(entries), champions, bytes(counts))
