"""Makes the vectors of what the index has: after the fact, a segment at a time, by whichever operator gets to it.

It comes behind the index: neither an import nor a publication waits for it, and words are found before meanings are.
A segment that was put together of others is new, and gets vectors anew. What there is to do is not queued but found: it
is the segments that have no vectors, or those of another model.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.search.embedding import said
from anabranch.store import contents, vectors
from anabranch.telemetry import logs
from anabranch.telemetry.of_operator import EMBEDDED, EMBEDDING_TURNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.domain.vectors import Pack
    from anabranch.search.embedding import Embedder
    from anabranch.store.database import Database
    from anabranch.store.vectors import Document

_LEASE: Final = timedelta(minutes=5)
"""For how long a segment is claimed, again with each piece of it."""

_MOST: Final = 1_000
"""Documents whose vectors are made at once,"""

_AT_ONCE: Final = 4 << 20
"""and bytes of their contents, unless one is larger."""


async def turn(db: Database, embedder: Embedder) -> bool:
    """Make the vectors of a segment that has none; whether there may be more.

    Raises:
        UnavailableError: If the database cannot be reached, or the embedder cannot now.
    """
    from anabranch.domain.vectors import Pack  # noqa: PLC0415  (NumPy, with an embedder alone)

    began = time.perf_counter()
    async with db.transaction() as conn:
        claimed = await vectors.claim(conn, model=embedder.name, lease=_LEASE)
    if claimed is None:
        return False
    line, segment = claimed
    outcome = "failed"
    try:
        with logs.bound(line=line):
            pack = Pack(embedder.dimensions)
            if await _fill(db, embedder, pack, line=line, segment=segment):
                async with db.connection() as conn:
                    await vectors.put(
                        conn, line=line, segment=segment, model=embedder.name, signs=pack.signs, codes=pack.codes
                    )
        outcome = "done"
    finally:
        EMBEDDING_TURNS.labels(outcome).observe(time.perf_counter() - began)
    return True


async def _fill(db: Database, embedder: Embedder, pack: Pack, *, line: str, segment: int) -> bool:
    """Make the vectors of a segment; whether they are still wanted."""
    async with db.connection() as conn:
        documents = await vectors.documents(conn, line=line, segment=segment)
    for some in _pieces(documents):
        async with db.connection() as conn:
            if not await vectors.renew(conn, line=line, segment=segment, model=embedder.name, lease=_LEASE):
                return False
            hashes = {one.content_hash for one in some if one.content_hash is not None}
            bodies = await contents.get_many(conn, line=line, hashes=hashes)
        # What retention has removed is not looked at by any search: no text, no vector.
        texts = [
            "" if one.content_hash is None else said(one.key, bodies.get(one.content_hash, b"null")) for one in some
        ]
        pack.add(await embedder.embed(texts))
        EMBEDDED.inc(len(some))
    return bool(documents)


def _pieces(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """Documents some at a time, by number and by size."""
    first, size = 0, 0
    for place, document in enumerate(documents):
        if place > first and (size + document.size > _AT_ONCE or place - first == _MOST):
            yield documents[first:place]
            first, size = place, 0
        size += document.size
    if first < len(documents):
        yield documents[first:]
