"""Merges: somebody writes one text of several candidates, and it becomes a candidate that reviewers decide.

A person who merges, or a model that proposes, is believed the text and nothing else: where it comes from, who may see
it and who counts as its authors is taken from what it was made of. Whoever proposes one writes a row and knocks; the
candidate is made by whoever holds the job, since nobody else may add to what a job decides. What it was made of stays
open until it is accepted, and is open again if it is not published after all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.consolidation import merge_inputs
from anabranch.domain.merging import inherit
from anabranch.model.canonical import canonical_bytes, check_json, hash_text, sha256
from anabranch.model.errors import ConflictError, QuotaExceededError, TooLargeError
from anabranch.model.ids import LineId, new_candidate_id
from anabranch.model.limits import CONTENT_BYTES, JOB_DRAFTS, JOB_DRAFTS_BYTES
from anabranch.model.merging import Merge
from anabranch.store import candidates, jobs, merges, reviews

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from pydantic import JsonValue

    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow
    from anabranch.store.merges import MergeRow, NewMerge, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A merge that stands in a job's resource, in its author's own entry.

    Attributes:
        author: Username.
        content_hash: Of the text, 32 bytes.
        inputs: Ids of the candidates that it was made of.
        base_revision: Of the record, as its author saw it; 0 for none.
        with_record: Whether that record is an input, too.
    """

    author: str
    content_hash: bytes
    inputs: tuple[str, ...]
    base_revision: int
    with_record: bool


async def propose(  # noqa: PLR0913  (what a merge is)
    db: Database,
    *,
    job: JobRow,
    author: str,
    body: bytes,
    inputs: Collection[str],
    base_revision: int = 0,
    with_record: bool = False,
    origin: Origin = "merge",
    key: str | None = None,
    model: str | None = None,
    also: Callable[[Connection, str], Awaitable[None]] | None = None,
) -> MergeRow:
    """Propose one text made of some candidates of a waiting job; the same again is the same merge.

    Nothing of the store is held while its author thinks, so all of it is looked at here, and again when the candidate
    is made.

    Args:
        db: The store.
        job: The job.
        author: Username; of a model, a name that no user has.
        body: The text, as canonical JSON.
        inputs: Ids of the candidates that it was made of.
        base_revision: Of the record of its key, as the author saw it; 0 for none.
        with_record: Whether it was made of that record, too.
        origin: ``merge``: of candidates for one key, which it takes the place of. ``summary``: of candidates for any,
            which it stands beside.
        key: Of a summary; a merge has that of its inputs.
        model: That wrote it; None: a person did.
        also: What is to be done in the same transaction, with the candidate's id; if it raises, nothing is.

    Raises:
        NotFoundError: If an input is none of this job.
        ConflictError: If the job, or an input, does not wait for a review, or they cannot be made one of.
        QuotaExceededError: If too much was written for the job already.
    """
    async with db.connection() as conn:
        rows = await merge_inputs.waiting(conn, job, inputs)
        at = key if key is not None else merge_inputs.common_key(rows)
        record = await merge_inputs.record(conn, job.line, at, base_revision) if with_record else None
    if len(rows) + (record is not None) < 2:
        raise ConflictError(
            "A merge is made of two sides at least.",
            hint="Name another candidate, or the record that it would replace.",
        )
    inherit(rows, record)
    new = _new(
        job,
        author=author,
        content_hash=sha256(body),
        inputs=inputs,
        base_revision=base_revision,
        with_record=with_record,
        origin=origin,
        key=at,
        model=model,
    )
    async with db.transaction() as conn:
        await _knock(conn, job, inputs)
        row = await merges.same(conn, line=job.line, digest=new.digest)
        if row is None:
            if model is not None:
                await _check_wanted(conn, job, inputs)
            await _keep(conn, job, body=body, author=author)
            row = await merges.propose(conn, new)
        if row is not None and also is not None:
            await also(conn, row.candidate_id)
    if row is None:
        raise ConflictError("The same was being proposed at the same moment.", hint="Try again.")
    db.notify("work")
    return row


async def canonical(content: JsonValue) -> bytes:
    """A text as canonical JSON.

    Raises:
        InvalidInputError: If it is more deeply nested than any content may be.
        TooLargeError: If it is larger.
    """
    body = await asyncio.to_thread(_canonical, content)
    if len(body) > CONTENT_BYTES:
        raise TooLargeError(
            f"The content has {len(body)} bytes, the limit is {CONTENT_BYTES}.", hint="Shorten it.", limit=CONTENT_BYTES
        )
    return body


async def draft(db: Database, *, job: JobRow, author: str, body: bytes) -> bytes:
    """Keep a text, as canonical JSON, for a merge that a resource will name, or names already; its hash, 32 bytes.

    Raises:
        ConflictError: If the job does not wait for a review.
        QuotaExceededError: If too much was written for the job already.
    """
    async with db.transaction() as conn:
        await _knock(conn, job, ())
        await _keep(conn, job, body=body, author=author)
    db.notify("work")
    return sha256(body)


async def claim(conn: Connection, job: JobRow, claims: Sequence[Claim]) -> bool:
    """Take over the merges that stand in a job's resource, each once; whether there are new ones.

    One whose text is not there yet waits for it. One that was void stays so, however often the resource is read.

    Args:
        conn: Inside the transaction that wakes the job.
        job: The job.
        claims: All that stand in it. One that names nothing of this job is none.
    """
    found = [new for one in claims if (new := await _claimed(conn, job, one)) is not None]
    known = await merges.known(conn, line=job.line, job_id=job.job_id, digests={new.digest for new in found})
    return any([await merges.propose(conn, new) is not None for new in found if new.digest not in known])


async def page(db: Database, job: JobRow, *, after: str, limit: int) -> list[Merge]:
    """The merges of a job, the oldest first, after one."""
    async with db.connection() as conn:
        return [
            wire(row) for row in await merges.page(conn, line=job.line, job_id=job.job_id, after=after, limit=limit)
        ]


def wire(row: MergeRow) -> Merge:
    """A merge as it travels."""
    return Merge(
        candidate_id=row.candidate_id,
        job_id=row.job_id,
        origin=row.origin,
        author=row.author,
        model=row.model,
        key=row.key,
        content_hash=hash_text(row.content_hash),
        inputs=row.inputs,
        base_revision=str(row.base_revision),
        with_record=row.with_record,
        state=row.state,
        detail=row.detail,
        proposed_at=row.proposed_at,
    )


def _canonical(content: JsonValue) -> bytes:
    check_json(content, path="content")
    return canonical_bytes(content)


def _new(  # noqa: PLR0913  (what a merge is)
    job: JobRow,
    *,
    author: str,
    content_hash: bytes,
    inputs: Collection[str],
    base_revision: int,
    with_record: bool,
    origin: Origin,
    key: str,
    model: str | None,
) -> NewMerge:
    named = tuple(sorted(set(inputs)))
    same = [origin, author, model, key, hash_text(content_hash), list(named), str(base_revision), with_record]
    return merges.NewMerge(
        line=job.line,
        candidate_id=new_candidate_id(LineId(job.line)),
        job_id=job.job_id,
        digest=sha256(canonical_bytes(same)),
        origin=origin,
        author=author,
        model=model,
        key=key,
        content_hash=content_hash,
        inputs=named,
        base_revision=base_revision,
        with_record=with_record,
    )


async def _claimed(conn: Connection, job: JobRow, one: Claim) -> NewMerge | None:
    rows = await candidates.of_job_by_id(conn, line=job.line, job_id=job.job_id, candidate_ids=one.inputs)
    if not rows:
        return None
    return _new(
        job,
        author=one.author,
        content_hash=one.content_hash,
        inputs=one.inputs,
        base_revision=one.base_revision,
        with_record=one.with_record,
        origin="merge",
        key=rows[0].key,
        model=None,
    )


async def _knock(conn: Connection, job: JobRow, inputs: Collection[str]) -> None:
    """Wake the job, so that nobody ends it until the transaction does.

    Raises:
        ConflictError: If it has gone on.
    """
    await jobs.wake(conn, line=job.line, job_id=job.job_id)
    now = await jobs.get(conn, job.job_id)
    ids = set(inputs)
    if (
        now is None
        or now.state != "awaiting_review"
        or now.finished_at is not None
        or await candidates.count_waiting(conn, line=job.line, job_id=job.job_id, candidate_ids=ids) < len(ids)
    ):
        raise ConflictError(
            "The job does not wait for a review, or no longer for one of these candidates.",
            hint="List the job's candidates, and merge those that wait still.",
        )


async def _check_wanted(conn: Connection, job: JobRow, inputs: Collection[str]) -> None:
    """Make sure that what a model has written holds up nothing: who has decided on all of it waits for no text.

    Raises:
        ConflictError: If there is a decision on each of some candidates of the locked job.
    """
    said = await reviews.effective(conn, line=job.line, job_id=job.job_id)
    if {decision.candidate_id for decision in said}.issuperset(inputs):
        raise ConflictError("Reviewers have decided on all of it meanwhile.", hint="Nothing is to be proposed.")


async def _keep(conn: Connection, job: JobRow, *, body: bytes, author: str) -> None:
    """Keep a text; the job is locked. What one person may write for it takes nothing from the others.

    Raises:
        QuotaExceededError: If its author has written too much for the job already.
    """
    digest = sha256(body)
    had = await merges.written(conn, line=job.line, job_id=job.job_id, content_hash=digest, by=author)
    if had.drafts >= JOB_DRAFTS or had.merges >= JOB_DRAFTS or had.size + len(body) > JOB_DRAFTS_BYTES:
        raise QuotaExceededError(
            f"A job keeps {JOB_DRAFTS} texts and merges of one author, of {JOB_DRAFTS_BYTES >> 20} MiB together.",
            hint="Decide on what was proposed.",
        )
    await merges.put_draft(conn, line=job.line, job_id=job.job_id, content_hash=digest, body=body, uploaded_by=author)
