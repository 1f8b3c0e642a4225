"""What a changed source proposes: the records in which it differs from what it said before.

Three sides are compared, as in a merge. What the source said before is the first import, and what later imports
changed of it. Where the source says the same as before it proposes nothing, so that agents' findings of the meantime
stand; where it says something else, and the record is still what the source had said, the candidate replaces it;
where both have changed, the candidate is a conflict and a person sees both. Nothing is replaced without a review.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from anabranch.domain.facts import Fact
from anabranch.domain.trie import NULL_HASH
from anabranch.model.errors import TooLargeError
from anabranch.model.ids import LineId, new_candidate_id
from anabranch.model.limits import BATCH_CHANGES
from anabranch.store import candidates, contents, database, import_base, lines, openings, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from anabranch.baselines.sources import Source
    from anabranch.store.database import Connection, Database
    from anabranch.store.importing import ImportRecord
    from anabranch.store.jobs import JobRow
    from anabranch.store.lines import LineState
    from anabranch.store.records import RecordRow

AUTHOR: Final = "anabranch:import"
"""The author of what an import proposes: nobody's username, so that every reviewer is another."""

_PAGE: Final = 500
_BYTES: Final = 64 << 20


class ImportTooDifferentError(TooLargeError):
    """The source differs in more records than one review can hold."""

    code = "ImportTooDifferent"


class _OvertakenError(Exception):
    """Another operator has dealt with the source meanwhile."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What the source said of a key before."""

    key: str
    scope: str
    content_hash: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class _Difference:
    """A key of which the source says something else than before; None: nothing."""

    before: _Said | None
    now: ImportRecord | None

    @property
    def key(self) -> str:
        found = self.now or self.before
        if found is None:
            raise ValueError("a difference without sides")
        return found.key


async def propose(db: Database, *, state: LineState, source: Source) -> None:
    """Make a job of what a changed source proposes; none if it proposes nothing.

    Raises:
        ImportTooDifferentError: If there is too much of it.
        InvalidInputError: If the source is not as its format demands.
    """
    found = [difference async for difference in _bounded(_differences(db, state, source))]
    try:
        async with db.transaction() as conn:
            await _keep(conn, state, source, found)
    except _OvertakenError:
        return
    db.notify("work")


async def _keep(conn: Connection, state: LineState, source: Source, found: Sequence[_Difference]) -> None:
    """Write the job, its candidates and the source's digest, unless somebody else has."""
    line = state.line.line
    head = await lines.lock_head(conn, line)
    if (await lines.get(conn, line)).line.import_digest != state.line.import_digest:
        raise _OvertakenError
    await lines.set_import_digest(conn, line=line, digest=source.digest)
    keys = [difference.key for difference in found]
    standing = await records.current_of(conn, line=line, generation=head.head_generation, keys=keys)
    proposed = [difference for difference in found if not _stands(difference, standing.get(difference.key))]
    if not proposed:
        return
    job = await openings.open_made(
        conn,
        line=line,
        namespace=state.line.namespace,
        name=f"{state.line.name[:40].rstrip('-.')}-import-{secrets.token_hex(4)}",
        origin="Import",
        detail=f"The source has changed in {len(proposed)} records.",
    )
    bodies = {one.now.content_hash: one.now.content_body for one in proposed if one.now is not None}
    await contents.put_many(conn, line=line, bodies=bodies)
    moment = await database.now(conn)
    await candidates.insert(
        conn,
        [_row(job, ordinal, one, standing.get(one.key), moment) for ordinal, one in enumerate(proposed)],
    )


def _stands(difference: _Difference, record: RecordRow | None) -> bool:
    """Whether the head already says what the source says now."""
    if difference.now is None:
        return record is None or record.tombstone
    return record is not None and not record.tombstone and _equal(difference.now, record)


def _row(
    job: JobRow, ordinal: int, difference: _Difference, record: RecordRow | None, moment: datetime
) -> candidates.CandidateRow:
    """The candidate for a difference."""
    now, before = difference.now, difference.before
    # Where the record is what the source had said, the source knows what it replaces; else somebody has changed it.
    untouched = record is None if before is None else record is not None and _equal(before, record)
    known = record.revision if record is not None else 0
    sources = Fact.parse(now.fact_body).source_locators if now is not None else ()
    return candidates.CandidateRow(
        line=job.line,
        candidate_id=new_candidate_id(LineId(job.line)),
        job_id=job.job_id,
        origin_job=job.job_id,
        ordinal=ordinal,
        branch_id=None,
        run_id=None,
        author=AUTHOR,
        op="tombstone" if now is None else "put",
        key=difference.key,
        scope=now.scope if now is not None else (record.scope if record is not None else "shared"),
        visibility="shareable",
        content_hash=NULL_HASH if now is None else now.content_hash,
        base_revision=known if untouched else (before.revision if before is not None else 0),
        # The import has the bytes in hand: its locators are verified by their digests.
        sources=tuple({"locator": text, "status": "verified", "detail": ""} for text in sources),
        origin_runs=(),
        observed_at=moment,
    )


async def _differences(db: Database, state: LineState, source: Source) -> AsyncIterator[_Difference]:
    """The keys of which the source says something else than before, in order."""
    said = _said(db, state)
    before = await anext(said, None)
    async for now in source.records():
        while before is not None and before.key < now.key:
            yield _Difference(before, None)
            before = await anext(said, None)
        if before is None or before.key != now.key:
            yield _Difference(None, now)
            continue
        if not _equal(now, before):
            yield _Difference(before, now)
        before = await anext(said, None)
    while before is not None:
        yield _Difference(before, None)
        before = await anext(said, None)


async def _said(db: Database, state: LineState) -> AsyncIterator[_Said]:
    """What the source said before, in the order of the keys: the first import, and what later ones changed of it."""
    async with db.connection() as conn:
        later = await candidates.import_changes(conn, line=state.line.line)
    changed = {change.key for change in later}
    pending = deque(change for change in later if change.op == "put")
    async for row in _first_import(db, state.line.line):
        while pending and pending[0].key < row.key:
            yield _of_change(pending.popleft())
        if row.key not in changed:
            yield _Said(row.key, row.scope, row.content_hash, row.revision)
    for change in pending:
        yield _of_change(change)


async def _first_import(db: Database, line: str) -> AsyncIterator[import_base.ImportedRow]:
    after = ""
    while True:
        async with db.connection() as conn:
            page = await import_base.page(conn, line=line, after=after, limit=_PAGE)
        for row in page:
            yield row
        if len(page) < _PAGE:
            return
        after = page[-1].key


def _of_change(change: candidates.ImportChange) -> _Said:
    return _Said(change.key, change.scope, change.content_hash, 0)


async def _bounded(differences: AsyncIterator[_Difference]) -> AsyncIterator[_Difference]:
    """The same, as long as one review can hold them."""
    count = size = 0
    async for difference in differences:
        count += 1
        size += len(difference.now.content_body) if difference.now is not None else 0
        if count > BATCH_CHANGES or size > _BYTES:
            raise ImportTooDifferentError(
                f"The source has changed in more than {BATCH_CHANGES} records, or by more than {_BYTES >> 20} MiB.",
                hint="Change it in several steps, or make a new Baseline of it.",
            )
        yield difference


class _Statement(Protocol):
    """Content in a scope."""

    @property
    def scope(self) -> str: ...

    @property
    def content_hash(self) -> bytes: ...


def _equal(one: _Statement, other: _Statement) -> bool:
    return (one.scope, one.content_hash) == (other.scope, other.content_hash)
