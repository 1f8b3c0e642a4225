"""Finds the records that mean much the same as a text, and puts them in one order with those that have its words.

What is indexed is compared by the vectors beside the index: by their signs first, all of them, then the best by the
vectors themselves, and what these stand for is looked at last, as in a search for words. What is not in the index
(private records, what was published a moment ago) gets its vectors here, which are remembered.

Each record that either way finds is scored in both: half of the score is how much of the words' weight it has, half
how alike the meanings are. Both halves have a scale of their own, which does not depend on what else was found. So the
order of two records is the same on every page, and a record that only one way finds well is not lost among those
that both find a little.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import vectors as compared
from anabranch.model.limits import HYBRID_DEPTH
from anabranch.search.embedding import said
from anabranch.search.indexing import words_of
from anabranch.search.scoring import LARGE_OF_BOTH
from anabranch.store import vectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from anabranch.domain.bm25 import Scale
    from anabranch.model.found import FoundBy
    from anabranch.search.embedding import Embedder
    from anabranch.search.scoring import Bounds, Counted
    from anabranch.store.database import Connection
    from anabranch.store.searching import FoundRow
    from anabranch.store.vectors import SegmentRow

NEAR: Final = 0.3
"""Cosine from which on a record is found by its meaning. Texts that have nothing to do with each other have some 0.1,
questions and their answers mostly more than 0.6."""

_CANDIDATES: Final = (500, 5_000)
"""Documents that are compared by the vectors themselves; the more where the generation shows few of the first."""

_DOCUMENTS: Final = 1 << 17
"""Whose signs are read at once, unless a segment has more: four megabytes."""

_MADE: Final = 1_000
"""Vectors that a search makes of what is not in the index; the others are found by their words alone."""

_REMEMBERED: Final = 20_000
"""Such vectors that a process remembers: some ten megabytes."""


@dataclass(frozen=True, slots=True)
class Near:
    """What is indexed and was found by its meaning.

    Attributes:
        rows: The nearest first.
        without_vector: How many versions have no vector yet.
    """

    rows: Sequence[FoundRow]
    without_vector: int


@dataclass(frozen=True, slots=True)
class Both:
    """What was found by words and by meaning.

    Attributes:
        best: With scores, the best first.
        ways: Which way each was found, by key.
        without_vector: How many versions and private records have no vector.
    """

    best: list[tuple[float, FoundRow]]
    ways: Mapping[str, tuple[FoundBy, ...]]
    without_vector: int


class Meaning:
    """Searches by meaning, for one process.

    Args:
        embedder: Makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._made: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    async def of_query(self, text: str) -> NDArray[np.float32]:
        """The vector of what is searched for.

        Raises:
            UnavailableError: If the embedder cannot now.
        """
        made: NDArray[np.float32] = (await self._embedder.embed([text]))[0]
        return made

    async def near(self, conn: Connection, bounds: Bounds, query: NDArray[np.float32]) -> Near:
        """What is indexed and shown and is nearest.

        Args:
            conn: Inside the transaction of a search, before words are ranked.
            bounds: What is looked at.
            query: The vector of what is searched for.
        """
        segments = await vectors.segments(conn, line=bounds.line, scopes=bounds.scopes, model=self._embedder.name)
        embedded = [one for one in segments if one.embedded]
        documents = sum(one.documents for one in embedded)
        alike = await self._alike(conn, bounds, query, embedded)
        found: list[FoundRow] = []
        for most in _CANDIDATES:
            places = await self._nearest(conn, bounds, query, alike[:most])
            found = await vectors.shown(
                conn,
                line=bounds.line,
                generation=bounds.generation,
                scopes=bounds.scopes,
                branch_id=bounds.branch_id,
                places=places,
                large=LARGE_OF_BOTH,
                limit=HYBRID_DEPTH,
            )
            if len(found) >= HYBRID_DEPTH or len(places) < most or documents <= most:
                break
        return Near(found, sum(one.documents for one in segments) - documents)

    async def both(  # noqa: PLR0913  (each comes from elsewhere)
        self,
        conn: Connection,
        bounds: Bounds,
        query: NDArray[np.float32],
        scale: Scale,
        *,
        near: Near,
        ranked: Sequence[FoundRow],
        others: Counted,
    ) -> Both:
        """Put in one order what was found.

        Args:
            conn: Inside the transaction of a search.
            bounds: What was looked at.
            query: The vector of what is searched for.
            scale: How words are scored.
            near: What is indexed, by meaning.
            ranked: What is indexed, by words, with scores.
            others: What is not indexed.
        """
        rows = {row.key: row for row in (*near.rows, *ranked)}
        scores = {row.key: row.score or 0.0 for row in ranked}
        rest = [row for row in near.rows if row.key not in scores and row.body is not None]
        scores |= await asyncio.to_thread(_scored, rest, scale)
        places = [(row.segment or 0, row.document or 0) for row in rows.values()]
        codes = await self._codes(conn, bounds, places)
        cosines = dict(zip(rows, compared.cosines(codes, query), strict=True))
        made, lacking = await self._vectors([row for row, _ in others])
        scores.update((row.key, _score(counts, scale)) for row, counts in others)
        rows.update((row.key, row) for row, _ in others)
        cosines.update(zip((row.key for row, _ in others), compared.cosines(made, query), strict=True))
        most = sum(scale.weights.values()) or 1.0
        best: list[tuple[float, FoundRow]] = []
        ways: dict[str, tuple[FoundBy, ...]] = {}
        for key, row in rows.items():
            score, cosine = scores.get(key, 0.0), cosines[key]
            if score or cosine >= NEAR:
                best.append(((score / most + max(cosine, 0.0)) / 2, row))
                ways[key] = (*(("words",) if score else ()), *(("meaning",) if cosine >= NEAR else ()))
        best.sort(key=lambda each: (-each[0], each[1].key))
        return Both(best[:HYBRID_DEPTH], ways, near.without_vector + lacking)

    async def _alike(
        self, conn: Connection, bounds: Bounds, query: NDArray[np.float32], segments: Sequence[SegmentRow]
    ) -> list[tuple[int, int]]:
        """The documents with the most signs in common, those first that have more."""
        most = _CANDIDATES[-1]
        found: list[NDArray[np.int64]] = []
        for some in _together(segments):
            signs = await vectors.signs(conn, line=bounds.line, segments=some)
            found.append(await asyncio.to_thread(compared.most_alike, signs, query, most=most))
        if not found:
            return []
        return [(int(segment), int(document)) for _, segment, document in compared.best(found, most=most)]

    async def _nearest(
        self, conn: Connection, bounds: Bounds, query: NDArray[np.float32], places: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Documents in the order of their cosines; those that are not near left out."""
        codes = await self._codes(conn, bounds, places)
        cosines = await asyncio.to_thread(compared.cosines, codes, query)
        ordered = sorted(zip(cosines, places, strict=True), key=lambda each: (-each[0], each[1]))
        return [place for cosine, place in ordered if cosine >= NEAR]

    async def _codes(self, conn: Connection, bounds: Bounds, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
        return await vectors.codes(
            conn,
            line=bounds.line,
            model=self._embedder.name,
            places=places,
            dimensions=self._embedder.dimensions,
        )

    async def _vectors(self, rows: Sequence[FoundRow]) -> tuple[list[bytes | None], int]:
        """The vectors of what is not indexed, and how many have none: there are too many to make them now."""
        wanted = [(row.key, row.content_hash) for row in rows]
        lacking = [row for row, name in zip(rows, wanted, strict=True) if name not in self._made]
        making = lacking[:_MADE]
        if making:
            texts = await asyncio.to_thread(lambda: [said(row.key, row.body or b"null") for row in making])
            codes = compared.codes(await self._embedder.embed(texts))
            self._made.update(
                ((row.key, row.content_hash), code.tobytes()) for row, code in zip(making, codes, strict=True)
            )
        found = [self._made.get(name) for name in wanted]
        for name in wanted:
            if name in self._made:
                self._made.move_to_end(name)
        while len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)
        return found, len(lacking) - len(making)


def _together(segments: Sequence[SegmentRow]) -> Iterator[list[int]]:
    """Segments whose signs are read at once."""
    some: list[int] = []
    documents = 0
    for one in segments:
        if some and documents + one.documents > _DOCUMENTS:
            yield some
            some, documents = [], 0
        some.append(one.segment)
        documents += one.documents
    if some:
        yield some


def _scored(rows: Sequence[FoundRow], scale: Scale) -> dict[str, float]:
    """The words' scores of records that were found by their meaning."""
    return {row.key: _score(Counter(words_of(row.key, row.body or b"null")), scale) for row in rows}


def _score(counts: Counter[str], scale: Scale) -> float:
    return scale.score({word: counts[word] for word in scale.weights}, words=counts.total())
