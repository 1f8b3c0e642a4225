"""What a search found, as it travels: with the layer that it is in, its sources and a snippet."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from anabranch.domain.facts import Fact
from anabranch.domain.snippets import snippet
from anabranch.domain.words import text_of
from anabranch.model.canonical import hash_text
from anabranch.model.found import SearchHit
from anabranch.store import contents, records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.model.found import FoundBy
    from anabranch.store.database import Connection
    from anabranch.store.searching import FoundRow


async def of(
    conn: Connection,
    line: str,
    found: Sequence[tuple[float, FoundRow]],
    weights: Mapping[str, float],
    *,
    ways: Mapping[str, tuple[FoundBy, ...]] | None = None,
) -> list[SearchHit]:
    """Records that were found, as they travel.

    Args:
        conn: A connection.
        line: The line.
        found: With their scores, the best first.
        weights: Of the words.
        ways: How they were found, by key; None: by their words.
    """
    made = await asyncio.to_thread(
        lambda: [None if row.body is None else _hit(row, row.body, score, weights) for score, row in found]
    )
    hits: list[SearchHit] = []
    for (score, row), hit in zip(found, made, strict=True):
        if hit is not None:
            hits.append(hit)
        else:  # a large one, which is in memory for its snippet alone
            body = await contents.get(conn, line=line, content_hash=row.content_hash) or b"null"
            hits.append(await asyncio.to_thread(_hit, row, body, score, weights))
    return hits if ways is None else [hit.model_copy(update={"found_by": ways[hit.key]}) for hit in hits]


async def layered(
    conn: Connection, hits: list[SearchHit], *, line: str, parent: int, generation: int
) -> list[SearchHit]:
    """Hits that name their layer: what a run has taken over since its fork is another one than its parent's.

    Args:
        conn: A connection.
        hits: As found.
        line: The line.
        parent: The generation that the run forked, or was rebased to.
        generation: The one that was searched.
    """
    if parent == generation:
        return hits
    published = [hit.key for hit in hits if hit.layer == "base"]
    base = await records.current_of(conn, line=line, generation=parent, keys=published)
    revisions = {key: str(row.revision) for key, row in base.items()}
    return [
        hit.model_copy(update={"layer": "shared"})
        if hit.layer == "base" and revisions.get(hit.key) != hit.revision
        else hit
        for hit in hits
    ]


def _hit(row: FoundRow, body: bytes, score: float, weights: Mapping[str, float]) -> SearchHit:
    origin = Fact() if row.fact_body is None else Fact.parse(row.fact_body)
    return SearchHit.model_construct(
        score=round(score, 4),
        layer="base" if row.visibility is None else "private",
        key=row.key,
        revision=str(row.revision),
        scope=row.scope,
        visibility=row.visibility or "shareable",
        content_hash=hash_text(row.content_hash),
        snippet=snippet(text_of(json.loads(body)), weights),
        source_locators=origin.source_locators,
        origin_runs=origin.origin_runs,
        validated_at=origin.validated_at,
        state=origin.state if row.visibility is None else "claim",
        retracted_sources=origin.retracted_sources,
        found_by=("words",),
    )
