"""Asks a generation an evaluation set, and what it would be if some of its records were others.

Both are asked of one snapshot, by the ranking that searches go by, so the difference is what the changed records make
of it and nothing else. What is about to be published is in memory, as what is published and not yet indexed is for a
search; the keys that it changes are left out of the index. All scopes are searched: what is measured is the memory,
and not what one reader may see of it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.domain import recall
from anabranch.domain.words import text_of
from anabranch.model.errors import InvalidInputError, UnavailableError
from anabranch.search import scoring
from anabranch.search.asking import Search, not_indexed, wanted_words
from anabranch.store import contents, lines, searching

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.domain.bm25 import Scale
    from anabranch.model.recall import RecallTask
    from anabranch.search.scoring import Counted
    from anabranch.store.database import Connection, Database
    from anabranch.store.searching import FoundRow, Having, IndexRow

_AT_ONCE: Final = 500
"""Words that one statement looks up, and records from which on ranking leaves the event loop."""

_NO_CONTENT: Final = -1
"""No content is as small: hits are told by their keys, and contents are read of those few that must say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A record as it would be.

    Attributes:
        key: Its key.
        scope: Where it is visible.
        content_hash: Of its content, which is stored; 32 bytes.
        removed: Whether it would not be there.
    """

    key: str
    scope: str
    content_hash: bytes
    removed: bool


@dataclass(frozen=True, slots=True)
class _Side:
    """What is searched beside the index.

    Attributes:
        counted: Records with the counts of their words.
        without: Keys to leave out of the index.
    """

    counted: Counted
    without: Collection[str] = field(default=())


async def measure(  # noqa: PLR0913  (what is asked of what)
    db: Database, *, line: str, generation: int, tasks: Sequence[RecallTask], k: int, changes: Sequence[Changed] = ()
) -> tuple[list[recall.Outcome], list[recall.Outcome]]:
    """Ask a generation a set of questions, as it is and as it would be.

    Args:
        db: The database.
        line: The line.
        generation: Of a manifest that is kept.
        tasks: The set.
        k: How many hits count.
        changes: What would be other; none: only as it is.

    Returns:
        The outcomes as it is, and as it would be.

    Raises:
        UnavailableError: If much of the generation is not indexed yet, or the database cannot be reached.
    """
    async with searching.snapshot(db) as conn:
        asked = Search(line=line, ref=generation, scopes=await lines.scopes(conn, line), text="")
        index = await searching.index(conn, line=line, scopes=asked.scopes)
        late, complete = await not_indexed(conn, asked, index=index, generation=generation)
        if not complete:
            raise UnavailableError(
                f"The index of words is at generation {index.through} of {generation}.",
                hint="Recall is measured once it has caught up.",
            )
        base = _Side(await scoring.counted(late))
        sides = [base]
        if changes:
            without = {one.key for one in changes}
            kept = [(row, counts) for row, counts in base.counted if row.key not in without]
            sides.append(_Side([*kept, *await _counted(conn, line, changes)], without))
        # Before the first is ranked: from then on the planner is told to join by hashing.
        having = await _having(conn, asked, {word for task in tasks for word in _wanted(task)})
        outcomes = [
            [await _ask(conn, asked, task, index=index, having=having, side=side, k=k) for task in tasks]
            for side in sides
        ]
    return outcomes[0], outcomes[-1]


def _wanted(task: RecallTask) -> list[str]:
    """The words of a question; none where a search would refuse it, so that nobody finds anything."""
    try:
        return wanted_words(task.query)
    except InvalidInputError:
        return []


async def _having(conn: Connection, asked: Search, words: Iterable[str]) -> dict[str, Having]:
    """How frequent words are, some at a time."""
    ordered = sorted(words)
    found: dict[str, Having] = {}
    for first in range(0, len(ordered), _AT_ONCE):
        some = ordered[first : first + _AT_ONCE]
        found |= await searching.having(conn, line=asked.line, scopes=asked.scopes, words=some)
    return found


async def _counted(conn: Connection, line: str, changes: Iterable[Changed]) -> Counted:
    """The words of records as they would be, some contents at a time: only counts stay in memory."""
    some = [one for one in changes if not one.removed]
    counted: Counted = []
    async for part, bodies in contents.in_pieces(conn, line=line, having=some):
        read = await scoring.counted([_row(one, bodies.get(one.content_hash)) for one in part])
        counted += [(_row(one), counts) for one, (_, counts) in zip(part, read, strict=True)]
    return counted


def _row(one: Changed, body: bytes | None = None) -> FoundRow:
    return searching.FoundRow(key=one.key, revision=0, scope=one.scope, content_hash=one.content_hash, body=body)


async def _ask(  # noqa: PLR0913  (what all tasks share)
    conn: Connection,
    asked: Search,
    task: RecallTask,
    *,
    index: IndexRow,
    having: Mapping[str, Having],
    side: _Side,
    k: int,
) -> recall.Outcome:
    if not (wanted := _wanted(task)):
        return recall.judge(task, [], texts={})
    own = {word: having[word] for word in wanted if word in having}
    scale = scoring.scale(wanted, index, own, late=side.counted, own=[])
    ranked = await scoring.ranked(
        conn,
        line=asked.line,
        generation=int(asked.ref),
        scopes=asked.scopes,
        branch_id=None,
        scale=scale,
        having=own,
        limit=k,
        without=side.without,
        large=_NO_CONTENT,
    )
    best = scoring.merged(ranked, await _scored(side.counted, scale))[:k]
    return recall.judge(
        task,
        [recall.Hit(row.key, round(score, 4)) for score, row in best],
        texts=await _texts(conn, asked.line, task, [row for _, row in best]),
    )


async def _scored(counted: Counted, scale: Scale) -> list[tuple[float, FoundRow]]:
    if len(counted) < _AT_ONCE:
        return scoring.scored(counted, scale)
    return await asyncio.to_thread(scoring.scored, counted, scale)


async def _texts(conn: Connection, line: str, task: RecallTask, found: Sequence[FoundRow]) -> dict[str, str]:
    """What the answers say that were found, if the task is about what they say."""
    if task.says is None:
        return {}
    hashes = {row.key: row.content_hash for row in found if row.key in task.answers}
    bodies = await contents.get_many(conn, line=line, hashes=set(hashes.values())) if hashes else {}
    return {key: text_of(json.loads(bodies[digest])) for key, digest in hashes.items() if digest in bodies}
