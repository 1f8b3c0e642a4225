"""Finds out which candidates are alike when they come to wait for a review, and keeps it for those who review them.

It suggests and never decides, so it is no part of the transaction that moves a job: it is written before, and again if
whoever did so dies in between. The work is bounded for a job and for a line: of a flood the first ten thousand are
looked at, and each is compared with the newest of its scope that wait.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.likeness import ALIKE, MOST_SHOWN, Match, Shelf, Sketch, groups
from anabranch.model.canonical import parse_json
from anabranch.store import contents, likenesses
from anabranch.store.likenesses import Likeness
from anabranch.telemetry import of_operator as telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection, Database

MOST: Final = 10_000
"""Candidates of a job that are looked at."""

MOST_BYTES: Final = 16 << 20
"""Of their contents."""

NEWEST: Final = 1_000
"""Candidates of other jobs, by scope, that they are compared with."""


async def keep(db: Database, rows: Sequence[CandidateRow]) -> None:
    """Keep what a job's candidates that wait are like.

    Args:
        db: The store, as the operator.
        rows: The job's candidates as they are to be. Deletions and marks say nothing that could be alike.
    """
    looked_at = [row for row in rows if row.state == "waiting" and row.op == "put" and row.mark is None][:MOST]
    if not looked_at:
        return
    line = looked_at[0].line
    async with db.connection() as conn:
        sketches = await _sketches(conn, looked_at)
        ids = list(sketches)
        others = {
            scope: await likenesses.waiting(conn, line=line, scope=scope, without=ids, limit=NEWEST)
            for scope in sorted({row.scope for row in looked_at})
        }
    found = await asyncio.to_thread(
        _compared, [row for row in looked_at if row.candidate_id in sketches], sketches, others
    )
    earlier = [
        (match.name, Match(like.candidate_id, match.likeness))
        for like in found
        for match in like.similar
        if match.name not in sketches
    ]
    async with db.connection() as conn:
        await likenesses.put(conn, line=line, rows=found)
        await likenesses.add(conn, line=line, found=earlier)
    telemetry.SUGGESTIONS.inc(sum(bool(like.similar) for like in found))
    telemetry.GROUPED.inc(sum(like.group_id is not None for like in found))


async def _sketches(conn: Connection, rows: Sequence[CandidateRow]) -> dict[str, Sketch]:
    """The candidates' sketches by id, of as many as have so much content."""
    found: dict[str, Sketch] = {}
    room = MOST_BYTES
    async for part, bodies in contents.in_pieces(conn, line=rows[0].line, having=rows):
        room -= sum(map(len, bodies.values()))
        found |= await asyncio.to_thread(_drawn, part, bodies)
        if room < 0:
            break
    return found


def _drawn(rows: Sequence[CandidateRow], bodies: Mapping[bytes, bytes]) -> dict[str, Sketch]:
    drawn = {digest: Sketch.of(parse_json(body)) for digest, body in bodies.items()}
    return {row.candidate_id: drawn[row.content_hash] for row in rows if row.content_hash in drawn}


def _compared(
    rows: Sequence[CandidateRow],
    sketches: Mapping[str, Sketch],
    others: Mapping[str, Sequence[tuple[str, Sketch]]],
) -> list[Likeness]:
    """What each candidate is like: its group, and what else; of a group its first member tells what else."""
    gathered = groups((row.candidate_id, (row.scope, row.visibility), sketches[row.candidate_id]) for row in rows)
    group_of = {member: members[0] for members in gathered for member in members}
    by_scope = sorted(rows, key=lambda row: row.scope)
    return [
        Likeness(
            candidate_id=row.candidate_id,
            scope=scope,
            sketch=sketches[row.candidate_id],
            group_id=group_of.get(row.candidate_id),
            similar=similar,
        )
        for scope, own in groupby(by_scope, key=lambda row: row.scope)
        for row, similar in _suggested(list(own), sketches, others.get(scope, ()), group_of)
    ]


def _suggested(
    rows: Sequence[CandidateRow],
    sketches: Mapping[str, Sketch],
    others: Sequence[tuple[str, Sketch]],
    group_of: Mapping[str, str],
) -> Iterator[tuple[CandidateRow, list[Match]]]:
    """Candidates of a scope with what to show beside each."""

    def speaks(row: CandidateRow) -> bool:
        return group_of.get(row.candidate_id, row.candidate_id) == row.candidate_id

    shelf = Shelf()
    for name, sketch in reversed(others):
        shelf.put(name, sketch)
    for row in rows:
        if speaks(row):
            shelf.put(row.candidate_id, sketches[row.candidate_id])
    for row in rows:
        like: list[Any] = shelf.like(sketches[row.candidate_id], least=ALIKE) if speaks(row) else []
        yield row, [match for match in like if match.name != row.candidate_id][:MOST_SHOWN]
