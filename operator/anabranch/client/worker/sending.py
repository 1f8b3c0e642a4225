"""Carries the outbox to the API: what batches cite before them, batches in order, the completion last.

Nothing is marked as done before the API has said so, and everything may be sent again, so it does not matter where a
round ends. What the API refuses for good is set aside with its problem and the rest goes on; what it refuses for the
moment, or to this agent as such, ends the round.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from anabranch.client.worker import checkpoints, layers, outbox, overlay
from anabranch.client.worker.passing import passes
from anabranch.model.errors import (
    AnabranchError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
)
from anabranch.model.limits import BULK_BATCHES, BULK_BYTES, SEQUENCE_WINDOW
from anabranch.model.objects import BranchManifest, RunCompletion

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.model.answers import CompletionState, PrivateRecord
    from anabranch.model.objects import Publication, Receipt

_ROOM: Final = BULK_BYTES - (64 << 10)
"""Bytes of batches in one request; the rest is for what is around them."""


class Sender:
    """Sends for one worker.

    Args:
        file: The worker's.
        client: Of the API.
        namespace: Of the Branch.
    """

    def __init__(self, file: WorkerFile, client: AnabranchClient, namespace: str) -> None:
        self._file = file
        self._client = client
        self._namespace = namespace

    async def send(self, branch: BranchManifest) -> tuple[int, int]:
        """Send everything that waits; how many batches were acknowledged, and how much was refused.

        Raises:
            AnabranchError: If the API cannot be reached, or takes nothing from this agent. What waits goes on waiting.
        """
        refused = await self._send_records(branch.branch_id)
        await self._send_evidence(branch.branch_id)
        refused += await self._send_checkpoints(branch.branch_id)
        sent, more = await self._send_batches(branch.branch_id)
        await self._send_completion(branch.branch_id)
        return sent, refused + more

    async def _send_records(self, branch_id: str) -> int:
        refused = 0
        while rows := await self._file.read(overlay.unsaved, 100):
            for row in rows:
                try:
                    known = await self._send_record(branch_id, row)
                except AnabranchError as error:
                    if not _is_for_good(error):
                        raise
                    refused += 1
                    known = int(error.extra.get("revision", row["known"]))
                    await self._file.write(
                        overlay.refused, row["key"], revision=row["revision"], known=known, problem=outbox.told(error)
                    )
                else:
                    await self._file.write(overlay.saved, row["key"], revision=row["revision"], known=known)
        return refused

    async def _known(self, branch_id: str, row: sqlite3.Row) -> int:
        """The revision that the API has of a record, as far as it is of this worker's making.

        The answer to what was sent last may have been lost, and the record been written again since.
        """
        known = int(row["known"])
        if row["sent"] is None or row["sent"] == overlay.sent_of(row):
            return known
        try:
            found = await self._client.get_private(self._namespace, branch_id, row["key"])
        except NotFoundError:
            await self._client.branch(self._namespace, branch_id)  # it is the record that is absent, and not the branch
            return 0 if row["sent"] == "" else known
        own = overlay.was_sent(row, found) and int(found.revision) > known
        return int(found.revision) if own else known

    async def _send_record(self, branch_id: str, row: sqlite3.Row) -> int:
        """Send a private record as it is now; the revision that the API has then, 0 for none."""
        key, known = row["key"], await self._known(branch_id, row)
        await self._file.write(overlay.sending, key, overlay.sent_of(row), known=known)
        try:
            if row["deleted"]:
                if known:
                    await self._client.delete_private(self._namespace, branch_id, key, if_match=str(known))
                return 0
            record = await self._client.put_private(
                self._namespace,
                branch_id,
                key,
                json.loads(row["content"]),
                scope=row["scope"],
                visibility=row["visibility"],
                if_match=str(known) if known else None,
                if_none_match=not known,
            )
        except (PreconditionFailedError, NotFoundError) as error:
            return await self._settled(branch_id, row, error)
        return int(record.revision)

    async def _settled(self, branch_id: str, row: sqlite3.Row, error: AnabranchError) -> int:
        """Whether a refused request had happened already; else the refusal stands."""
        found: PrivateRecord | None
        try:
            found = await self._client.get_private(self._namespace, branch_id, row["key"])
        except NotFoundError:
            await self._client.branch(self._namespace, branch_id)  # it is the record that is absent, and not the branch
            found = None
        if row["deleted"] and found is None:
            return 0
        if found is not None and overlay.same(row, found):
            return int(found.revision)
        if found is None:
            error.extra["revision"] = "0"
        raise error

    async def _send_checkpoints(self, branch_id: str) -> int:
        refused = 0
        while (waiting := await self._file.read(checkpoints.unsent)) is not None:
            checkpoint_id, write = waiting
            try:
                await self._client.put_checkpoint(
                    self._namespace,
                    branch_id,
                    checkpoint_id,
                    write.capsule,
                    session_id=write.session_id,
                    references=write.references,
                )
            except AnabranchError as error:
                if not _is_for_good(error):
                    raise
                refused += 1
                await self._file.write(checkpoints.refused, checkpoint_id, outbox.told(error))
            else:
                await self._file.write(checkpoints.sent, checkpoint_id)
        return refused

    async def _send_evidence(self, branch_id: str) -> None:
        while (row := await self._file.read(_unsent_evidence)) is not None:
            await self._client.put_evidence(self._namespace, branch_id, row["body"], media_type=row["media_type"])
            await self._file.write(_evidence_sent, row["digest"])

    async def _send_batches(self, branch_id: str) -> tuple[int, int]:
        sent = refused = 0
        while rows := await self._file.read(_waiting_batches):
            answers = await self._client.submit_bulk(self._namespace, branch_id, [row["body"] for row in rows])
            for answer in answers:
                if isinstance(answer, AnabranchError) and not _is_for_good(answer):
                    raise answer
            received = await self._file.write(_batches_answered, [row["sequence"] for row in rows], answers)
            sent += received
            refused += len(rows) - received
        return sent, refused

    async def _send_completion(self, branch_id: str) -> None:
        body = await self._file.read(_unsent_completion)
        if body is not None:
            completion = RunCompletion.model_validate_json(body)
            answer = await self._client.complete(self._namespace, branch_id, completion)
            await self._file.write(_completed, answer)


def _is_for_good(error: AnabranchError) -> bool:
    """Whether the same batch would be refused again, while others may be taken.

    A branch that was denied or has expired takes none of them; that they wait costs nothing, and a grant may come back.
    """
    if isinstance(error, ForbiddenError):
        return "missing" in error.extra  # scopes of this batch
    if isinstance(error, InvalidInputError) and "contiguous_through" in error.extra:
        return False
    return not (passes(error) or isinstance(error, NotFoundError | GoneError))


def _waiting_batches(db: sqlite3.Connection) -> Sequence[sqlite3.Row]:
    """As many batches as a request takes, in order, none farther ahead than the API keeps."""
    (first,) = db.execute("SELECT min(sequence) FROM batches WHERE state <> 'received'").fetchone()
    rows = db.execute(
        "SELECT sequence, body FROM batches WHERE state = 'waiting' AND sequence < ? ORDER BY sequence LIMIT ?",
        ((first or 0) + SEQUENCE_WINDOW, BULK_BATCHES),
    ).fetchall()
    size, taken = 0, 0
    for row in rows:
        size += len(row["body"]) + 1
        if taken and size > _ROOM:
            break
        taken += 1
    return rows[:taken]


def _batches_answered(
    db: sqlite3.Connection, sequences: Sequence[int], answers: Sequence[Receipt | Publication | AnabranchError]
) -> int:
    """Keep what became of batches; how many were received. Of those the bytes are needed no more."""
    received = 0
    for sequence, answer in zip(sequences, answers, strict=True):
        if isinstance(answer, AnabranchError):
            state, text = "refused", outbox.told(answer)
        else:
            state, text = "received", answer.model_dump_json()
            received += 1
        db.execute(
            "UPDATE batches SET state = ?, answer = ?, body = iif(? = 'received', NULL, body) WHERE sequence = ?",
            (state, text, state, sequence),
        )
    return received


def _unsent_evidence(db: sqlite3.Connection) -> Any:
    return db.execute("SELECT * FROM evidence WHERE body IS NOT NULL LIMIT 1").fetchone()


def _evidence_sent(db: sqlite3.Connection, digest: str) -> None:
    db.execute("UPDATE evidence SET body = NULL WHERE digest = ?", (digest,))


def _unsent_completion(db: sqlite3.Connection) -> bytes | None:
    """The completion, once every batch before it is received."""
    if db.execute("SELECT 1 FROM batches WHERE state <> 'received'").fetchone():
        return None
    row = db.execute("SELECT body FROM completion WHERE answer IS NULL").fetchone()
    return None if row is None else bytes(row["body"])


def _completed(db: sqlite3.Connection, answer: CompletionState) -> None:
    db.execute("UPDATE completion SET answer = ?", (answer.model_dump_json(),))
    branch = BranchManifest.model_validate_json(layers.run(db)["branch"])
    db.execute("UPDATE run SET branch = ?", (branch.model_copy(update={"phase": "Completed"}).model_dump_json(),))
