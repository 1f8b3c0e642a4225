"""The outbox: what the run has to tell the API, in the order in which it was decided, until the API has it.

A batch gets its sequence and its bytes in the transaction that makes it durable. The same bytes go out until they are
acknowledged, whatever happened in between, and the API answers the same sequence and digest with the same receipt: so
nothing is lost and nothing is submitted twice. A batch that the API refuses keeps its place, for nothing behind it is
consolidated before the place is filled: the agent tries it again, or withdraws it, which leaves an empty batch there.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from anabranch.client.worker import layers
from anabranch.client.worker.values import Evidence, Finding, Refused, Submitted
from anabranch.model.canonical import canonical_bytes, check_json, content_hash, hash_text, sha256
from anabranch.model.errors import ConflictError, NotFoundError, NotReadyError, TooLargeError
from anabranch.model.limits import BATCH_BYTES, EVIDENCE_BYTES
from anabranch.model.misfits import invalid
from anabranch.model.objects import BranchManifest, Change, FindingBatch, RunCompletion, batch_hash

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.model.errors import AnabranchError

_TOLD: Final = {"record": ("private", "key"), "checkpoint": ("checkpoints", "id")}


def submit(
    db: sqlite3.Connection, findings: Sequence[Finding], *, observed_at: datetime | None, final: bool
) -> Submitted:
    """Make a batch of findings durable, with the evidence that they cite.

    Args:
        db: In a transaction.
        findings: What is proposed.
        observed_at: When it was found.
        final: Whether it is the run's last batch.

    Raises:
        InvalidInputError: If the batch can never be accepted.
        TooLargeError: If the batch, or evidence, is over its limit.
        ConflictError: If the run is closed.
        NotReadyError: If the branch is not known yet, or what a finding is based on.
    """
    branch = forked(db)
    if db.execute("SELECT 1 FROM completion").fetchone():
        raise ConflictError("The run is completed: it takes no more findings.", hint="Fork a new branch.")
    sequence = int(layers.run(db)["next_sequence"])
    bases = [finding.base_revision or _base(db, finding.key) for finding in findings]
    sources = [[_cite(db, source) for source in finding.sources] for finding in findings]
    for finding in findings:
        check_json(finding.content)
    changes = tuple(
        Change.model_construct(  # checked with the batch
            op=finding.op,
            key=finding.key,
            content=finding.content,
            scope=finding.scope,
            visibility=finding.visibility,
        )
        for finding in findings
    )
    unsigned = FindingBatch.model_construct(
        branch_id=branch.branch_id,
        sequence=sequence,
        content_hash="",
        changes=changes,
        source_locators=tuple(map(tuple, sources)),
        base_revisions=tuple(bases),
        observed_at=observed_at,
        final=final,
        last_acknowledged_sequence=_acknowledged(db) if final else None,
    )
    return _add(db, unsigned)


def _add(db: sqlite3.Connection, unsigned: FindingBatch) -> Submitted:
    """Sign a batch, check it as the API does, and put it at its place."""
    value = unsigned.model_dump(mode="json")
    digest = batch_hash(value)
    body = canonical_bytes({**value, "content_hash": digest})
    try:
        FindingBatch.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False), hint="Change the findings: nothing was kept.") from None
    if len(body) > BATCH_BYTES:
        raise TooLargeError(
            f"The batch has {len(body)} bytes, the limit is {BATCH_BYTES}.", hint="Submit the findings in several."
        )
    db.execute(
        "INSERT OR REPLACE INTO batches (sequence, content_hash, body, made_at) VALUES (?, ?, ?, ?)",
        (unsigned.sequence, digest, body, time.time()),
    )
    db.execute("UPDATE run SET next_sequence = max(next_sequence, ?)", (unsigned.sequence + 1,))
    return Submitted(unsigned.sequence, digest)


def complete(db: sqlite3.Connection, *, checkpoint: str | None) -> None:
    """Decide that the run is over: nothing is submitted any more, and the API is told once it has all batches.

    Deciding it again changes nothing.

    Raises:
        NotReadyError: If the branch is not known yet.
    """
    if db.execute("SELECT 1 FROM completion").fetchone():
        return
    branch = forked(db)
    completion = RunCompletion(
        run_id=branch.run_id,
        branch_id=branch.branch_id,
        agent_id=branch.agent_id,
        baseline_id=branch.parent_snapshot_id,
        checkpoint_locator=checkpoint and f"checkpoint:{checkpoint}",
        last_submitted_sequence=int(layers.run(db)["next_sequence"]) - 1,
        delta_hash=content_hash([]),
    )
    db.execute(
        "INSERT INTO completion (one, body) VALUES (1, ?)", (canonical_bytes(completion.model_dump(mode="json")),)
    )


def refused(db: sqlite3.Connection) -> list[Refused]:
    """What the API will not take as it is."""
    found = [
        _refusal("batch", str(row["sequence"]), row["answer"], FindingBatch.model_validate_json(row["body"]).changes)
        for row in db.execute("SELECT * FROM batches WHERE state = 'refused' ORDER BY sequence")
    ]
    for what, (table, name) in _TOLD.items():
        rows = db.execute(f"SELECT {name} AS name, problem FROM {table} WHERE problem IS NOT NULL ORDER BY 1")  # noqa: S608  (two constants)
        found += [_refusal(what, row["name"], row["problem"]) for row in rows]
    return found


def _refusal(what: Any, name: str, problem: str, changes: Sequence[Change] = ()) -> Refused:
    return Refused(what=what, name=name, changes=changes, **json.loads(problem))


def told(error: AnabranchError) -> str:
    """A problem as the file keeps it."""
    return json.dumps({"code": error.code, "detail": error.detail, "hint": error.hint})


def retry(db: sqlite3.Connection, sequence: int | None) -> int:
    """Let what was refused be sent again as it is: one batch, or (None) everything; how much it is."""
    batches = db.execute(
        "UPDATE batches SET state = 'waiting' WHERE state = 'refused' AND (? IS NULL OR sequence = ?)",
        (sequence, sequence),
    ).rowcount
    if sequence is not None:
        return batches
    records = db.execute("UPDATE private SET problem = NULL WHERE problem IS NOT NULL").rowcount
    return batches + records + db.execute("UPDATE checkpoints SET problem = NULL WHERE problem IS NOT NULL").rowcount


def withdraw(db: sqlite3.Connection, sequence: int) -> None:
    """Give up the findings of a refused batch: an empty one takes its place.

    Raises:
        NotFoundError: If no batch was refused there.
    """
    row = db.execute("SELECT * FROM batches WHERE sequence = ? AND state = 'refused'", (sequence,)).fetchone()
    if row is None:
        raise NotFoundError(f"No batch {sequence} was refused.", hint="Look at `refused`.")
    if json.loads(row["answer"])["code"] == "Conflict":  # the place is filled: by a batch that is not from this file
        db.execute("UPDATE batches SET state = 'received', body = NULL WHERE sequence = ?", (sequence,))
        return
    batch = FindingBatch.model_validate_json(row["body"])
    empty = {"content_hash": "", "changes": (), "source_locators": (), "base_revisions": ()}
    _add(db, batch.model_copy(update=empty))


def forked(db: sqlite3.Connection) -> BranchManifest:
    """The branch.

    Raises:
        NotReadyError: If it has not forked yet, or the file does not know yet what the API has of it.
    """
    row = layers.run(db)
    if row["branch"] is None or not row["recovered"]:
        raise NotReadyError("The branch is not known yet.", hint="Sync while the API can be reached, then try again.")
    return BranchManifest.model_validate_json(row["branch"])


def _base(db: sqlite3.Connection, key: str) -> str:
    """What a finding about a key is based on: the revision that its private record was written over, or what shows."""
    row = db.execute("SELECT base_revision FROM private WHERE key = ? AND NOT deleted", (key,)).fetchone()
    if row is not None:
        return str(row["base_revision"])
    layers.readable(db)
    return str(layers.beneath(db, key))


def _cite(db: sqlite3.Connection, source: str | Evidence) -> str:
    if isinstance(source, str):
        return source
    if len(source.body) > EVIDENCE_BYTES:
        raise TooLargeError(
            f"The evidence has {len(source.body)} bytes, the limit is {EVIDENCE_BYTES}.", hint="Cite an excerpt of it."
        )
    digest = hash_text(sha256(source.body))
    db.execute(
        "INSERT INTO evidence (digest, media_type, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (digest, source.media_type, source.body),
    )
    return f"evidence:{digest}"


def _acknowledged(db: sqlite3.Connection) -> int:
    (last,) = db.execute("SELECT coalesce(max(sequence), 0) FROM batches WHERE state = 'received'").fetchone()
    return int(last)
