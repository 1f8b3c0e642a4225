"""Retraction: what was found to be wrong is withdrawn, and whatever was derived from it says so, in one generation.

Somebody asks; the operator makes one job of it, which always waits for a review: a tombstone for the record, and for
each live record that was derived from it, over any number of steps, a mark. Reviewers decide on each. What becomes of
it then is told in `withdrawing`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.consolidation import deriving
from anabranch.consolidation.consequences import STEPS, Consequences, consequences, marking
from anabranch.domain.trie import NULL_HASH
from anabranch.model.errors import ConflictError, NotFoundError, UnavailableError
from anabranch.model.ids import LineId, new_retraction_id
from anabranch.model.limits import BATCH_CHANGES
from anabranch.store import candidates, database, lines, openings, records, retractions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.identity import Caller
    from anabranch.model.requests import RetractionRequest
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Database
    from anabranch.store.jobs import JobRow
    from anabranch.store.retractions import RetractionRow

_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 20


async def request(
    db: Database, *, line: str, scopes: Sequence[str], caller: Caller, body: RetractionRequest
) -> RetractionRow:
    """Ask for something to be withdrawn: what the key says now, or what a revision of it said.

    The same again, as long as it is not decided, is the same retraction.

    Args:
        db: The store.
        line: The line.
        scopes: Those that the caller may read.
        caller: Who asks; counts as the author of all that is proposed for it.
        body: What for, and why.

    Raises:
        NotFoundError: If there is no such record or revision, or not in these scopes.
        ConflictError: If the record is deleted, and no revision was named.
    """
    async with db.connection() as conn:
        if body.revision is None:
            _, record = await records.read(conn, line=line, key=body.key, scopes=scopes)
        else:
            revision = int(body.revision)
            record = await records.at_revision(conn, line=line, key=body.key, revision=revision)
        if record is None or record.scope not in scopes:
            raise NotFoundError(
                f"There is no such version of {body.key!r} that you may read.",
                hint="Check the key and the revision, or ask for `read` on its scope.",
            )
        if record.tombstone:
            raise ConflictError(
                f"{body.key!r} is deleted at revision {record.revision}.",
                hint="Name the revision whose content is to be withdrawn: what was derived from it will be marked.",
            )
        row = await retractions.request(
            conn,
            line=line,
            retraction_id=new_retraction_id(LineId(line)),
            key=body.key,
            revision=record.revision,
            scope=record.scope,
            content_hash=record.content_hash,
            reason=body.reason,
            requested_by=caller.username,
        )
    db.notify("work")
    return row


async def turn(db: Database) -> bool:
    """Make jobs of what was asked for; whether there may be more. What cannot be proposed keeps no other line's back.

    Raises:
        UnavailableError: If the database cannot be reached.
    """
    async with db.connection() as conn:
        found = await retractions.requested(conn, limit=_AT_ONCE)
    proposed = 0
    for line, retraction_id in found:
        try:
            await propose(db, line=line, retraction_id=retraction_id)
        except UnavailableError:
            raise
        except Exception:  # noqa: BLE001  (it comes up again, and is one line's alone)
            _log.exception("a retraction cannot be proposed yet", line=line, retraction=retraction_id)
        else:
            proposed += 1
    return proposed > 0 and len(found) == _AT_ONCE


async def propose(db: Database, *, line: str, retraction_id: str) -> None:
    """Make the job of a retraction, once, whoever else is at it: job, candidates and retraction go together."""
    await deriving.catch_up(db, line)
    async with db.transaction() as conn:
        row = await retractions.take(conn, line=line, retraction_id=retraction_id)
        if row is None:
            return
        state = await lines.get(conn, line)
        found = await consequences(conn, row, generation=state.head.head_generation)
        refusal = _refusal(found)
        if refusal or found is None:
            await retractions.void(conn, line=line, retraction_id=retraction_id, detail=refusal)
            return
        job = await openings.open_made(
            conn,
            line=line,
            namespace=state.line.namespace,
            name=f"{state.line.name[:40].rstrip('-.')}-retraction-{retraction_id[-8:]}",
            origin="Retraction",
            detail=f"{row.requested_by} asks for {row.key} to be withdrawn as of revision {row.revision}: {row.reason}",
        )
        moment = await database.now(conn)
        await candidates.insert(conn, _proposed(job, row, found, moment))
        await retractions.propose(conn, line=line, retraction_id=retraction_id, job_id=job.job_id)
    db.notify("work")
    db.notify("status")


def _refusal(found: Consequences | None) -> str:
    """Why a retraction is none; empty if it is one."""
    if found is None:
        return f"more than {STEPS:,} steps lead away from it"
    if len(found.marked) >= BATCH_CHANGES:
        return f"more than {BATCH_CHANGES:,} records were derived from it, which is more than one review can hold"
    if found.target is None and not found.marked:
        return "nothing of it is in the baseline any more"
    return ""


def _proposed(job: JobRow, row: RetractionRow, found: Consequences, moment: datetime) -> list[CandidateRow]:
    """The candidates of a retraction: the tombstone first, then the marks by key."""
    made = [marking(job, row, *marked, moment=moment) for marked in found.marked.values()]
    if found.target is not None:
        like = marking(job, row, found.target, (), moment=moment)
        made.insert(0, replace(like, op="tombstone", content_hash=NULL_HASH, mark=None))
    return [replace(one, ordinal=ordinal) for ordinal, one in enumerate(made)]
