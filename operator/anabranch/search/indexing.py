"""Keeps the index of words: after the fact, a line at a time, by whichever operator gets to it.

Neither an import nor a publication waits for the index. What it lacks follows from the line's head, so nothing has to
be queued: a turn takes the line whose last turn is the longest ago, and brings it on by one transaction. Few new
versions become a segment at once. Where there are many (an import, a restore, a database from an older release) the
line is walked by its keys, a segment and a transaction at a time, and the walk goes on where it was.

Small segments are put together when there are eight of about one size, so that a line has few of them however often it
is published to; each version is read again some four times in its life. Segments are made anew, too, when retention
has removed a quarter of what is in them. That is all the care that the index needs: versions that are gone or not
visible are found out when a search looks at them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.domain import postings
from anabranch.domain.words import text_of, words
from anabranch.store import contents, indexing
from anabranch.telemetry import logs
from anabranch.telemetry.of_operator import INDEX_TURNS, INDEXED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from anabranch.store.database import Connection, Database
    from anabranch.store.indexing import Progress, SegmentSize, Version

_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 4 << 20
"""Bytes of contents that are held at once, unless one is larger,"""

_MOST: Final = 1_000
"""and of how many versions."""

_TOGETHER: Final = 8
"""Segments of about one size that become one."""

_FULL: Final = postings.DOCUMENTS * 3 // 4
"""Documents from which on a segment is left as it is."""

_GONE: Final = 4
"""A segment is made anew once one in so many of its documents is gone."""

_COUNTED_FOR: Final = timedelta(hours=1)
"""How long a segment is not counted again."""


async def turn(db: Database) -> bool:
    """Bring the index of the line whose turn it is on by one step; whether there may be more to do.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    began = time.perf_counter()
    progress: Progress | None = None
    try:
        async with db.transaction() as conn:
            await indexing.be_patient(conn)
            if (progress := await indexing.claim(conn)) is not None:
                with logs.bound(line=progress.line):
                    await _step(conn, progress)
        if progress is None:
            return await _recount(db)
        while await _put_together(db, progress.line):
            pass
    except Exception:
        INDEX_TURNS.labels("failed").observe(time.perf_counter() - began)
        if progress is not None:
            async with db.connection() as conn:
                await indexing.put_off(conn, line=progress.line)
        raise
    INDEX_TURNS.labels("done").observe(time.perf_counter() - began)
    return True


async def _step(conn: Connection, progress: Progress) -> None:
    """Index what is new, or the next part of it if it is much."""
    if progress.target <= progress.through:
        found = await indexing.begun(
            conn,
            line=progress.line,
            after=progress.through,
            through=progress.head_generation,
            limit=postings.DOCUMENTS + 1,
        )
        if len(found) <= postings.DOCUMENTS:
            progress = await _write(conn, progress, found)
            await indexing.advance(conn, _through(progress, progress.head_generation))
            return
        progress = replace(progress, target=progress.head_generation, walked_key="", walked_generation=0)
    found = await indexing.walk(conn, progress, limit=postings.DOCUMENTS)
    progress = await _write(conn, progress, found)
    if len(found) < postings.DOCUMENTS:
        progress = _through(progress, progress.target)
    else:
        progress = replace(progress, walked_key=found[-1].key, walked_generation=found[-1].from_generation)
    await indexing.advance(conn, progress)


def _through(progress: Progress, generation: int) -> Progress:
    return replace(progress, through=generation, target=generation, walked_key="", walked_generation=0)


async def _write(conn: Connection, progress: Progress, versions: Sequence[Version]) -> Progress:
    """Make segments of some versions; the progress with the next number behind them."""
    of_scope: defaultdict[str, list[Version]] = defaultdict(list)
    for version in versions:
        of_scope[version.scope].append(version)
    number = progress.next_segment
    for scope, some in of_scope.items():
        async for segment, documents in _segments(conn, progress.line, some):
            made = await asyncio.to_thread(lambda segment: list(segment.postings()), segment)
            await indexing.add_segment(
                conn,
                line=progress.line,
                segment=number,
                scope=scope,
                words=segment.words,
                versions=documents,
                postings=made,
            )
            INDEXED.inc(len(documents))
            number += 1
    return replace(progress, next_segment=number)


async def _segments(
    conn: Connection, line: str, versions: Sequence[Version]
) -> AsyncIterator[tuple[postings.Segment, list[Version]]]:
    """Segments of some versions, each with its documents."""
    segment = postings.Segment()
    documents: list[Version] = []
    for some in _pieces(versions):
        rest = some
        bodies = await contents.get_many(conn, line=line, hashes={version.content_hash for version in rest})
        while rest:
            taken = await asyncio.to_thread(_fill, segment, rest, bodies)
            documents += rest[:taken]
            rest = rest[taken:]
            if segment.full:
                yield segment, documents
                segment, documents = postings.Segment(), []
    if documents:
        yield segment, documents


def _pieces(versions: Sequence[Version]) -> Iterator[Sequence[Version]]:
    """Versions some at a time, by number and by size."""
    first, size = 0, 0
    for place, version in enumerate(versions):
        if place > first and (size + version.size > _AT_ONCE or place - first == _MOST):
            yield versions[first:place]
            first, size = place, 0
        size += version.size
    if first < len(versions):
        yield versions[first:]


def _fill(segment: postings.Segment, versions: Iterable[Version], bodies: Mapping[bytes, bytes]) -> int:
    """Add versions to a segment until it is full; how many."""
    taken = 0
    for version in versions:
        if segment.full:
            break
        segment.add(words_of(version.key, bodies.get(version.content_hash, b"null")))
        taken += 1
    return taken


def words_of(key: str, body: bytes) -> list[str]:
    """The words by which a record is found: those of its key and of its content.

    Args:
        key: The record's key.
        body: Its content, canonical JSON.
    """
    return words(f"{key}\n{text_of(json.loads(body))}")


async def _put_together(db: Database, line: str) -> bool:
    """Make one segment of eight, if there are eight of one scope and about one size; whether there were."""
    async with db.transaction() as conn:
        await indexing.be_patient(conn)
        if (progress := await indexing.take(conn, line=line)) is None:
            return False
        small = crowded(await indexing.sizes(conn, line=line))
        if small:
            await _rewrite(conn, progress, [one.segment for one in small])
    return bool(small)


def crowded(segments: Iterable[SegmentSize]) -> list[SegmentSize]:
    """The oldest eight segments of one scope and about one size, if there are so many of any."""
    tiers: defaultdict[tuple[str, int], list[SegmentSize]] = defaultdict(list)
    for one in segments:
        if one.documents < _FULL:
            tiers[one.scope, (max(one.documents, _TOGETHER).bit_length() - 1) // 3].append(one)
    return next((tier[:_TOGETHER] for tier in tiers.values() if len(tier) >= _TOGETHER), [])


async def _recount(db: Database) -> bool:
    """Look through a segment of which retention may have removed versions; whether there was one."""
    async with db.transaction() as conn:
        await indexing.be_patient(conn)
        if (found := await indexing.uncounted(conn, older_than=_COUNTED_FOR)) is None:
            return False
        line, segment = found
        if (progress := await indexing.take(conn, line=line)) is None:
            return False
        left = len(await indexing.remaining(conn, line=line, segments=[segment.segment]))
        if (segment.documents - left) * _GONE >= segment.documents:
            await _rewrite(conn, progress, [segment.segment])
        else:
            await indexing.counted(conn, line=line, segment=segment.segment)
    return True


async def _rewrite(conn: Connection, progress: Progress, segments: Sequence[int]) -> None:
    """Put what is left of some segments into new ones."""
    left = await indexing.remaining(conn, line=progress.line, segments=segments)
    await indexing.advance(conn, await _write(conn, progress, left))
    await indexing.drop_segments(conn, line=progress.line, segments=segments)
