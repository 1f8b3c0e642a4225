"""Makes branches, batches, jobs and candidates for tests, by the functions that the services use."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.store.building import import_records, new_line

from anabranch.kv import checkpoints as kv_checkpoints
from anabranch.kv import records as kv_records
from anabranch.model.errors import AnabranchError
from anabranch.model.ids import new_branch_id, new_candidate_id, new_job_id, new_receipt_id, new_run_id
from anabranch.model.kv import KvCapsule, KvCheckpointRequest
from anabranch.store import branches, candidates, leases, openings, receipts

if TYPE_CHECKING:
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow

NAMESPACE = "team"
AGENTS = "agents"


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def line_with_records(db: Database, *, name: str = "facts") -> str:
    line = await new_line(db, name=name, namespace=NAMESPACE)
    await import_records(db, line, {"a": {"text": "first"}})
    return line


async def fork(
    conn: Connection, line: str, *, name: str = "run-1", uid: str | None = None, generation: int | None = None
) -> BranchRow:
    return await branches.fork(
        conn,
        line=line,
        branch_id=new_branch_id(line),
        run_id=new_run_id(line),
        namespace=AGENTS,
        name=name,
        uid=uid or f"uid-of-{name}",
        observed_generation=1,
        agent_id="agent",
        agent_instance="0",
        service_account="agent",
        task="look into it",
        sharing_policy={"default": "private"},
        generation=generation,
    )


async def new_branch(db: Database, *, name: str = "run-1") -> BranchRow:
    """A branch of a new line."""
    line = await line_with_records(db, name=f"facts-{name}")
    async with db.transaction() as conn:
        return await fork(conn, line, name=name)


async def receive(
    conn: Connection, branch: BranchRow, sequence: int, *, text: str = "finding", changes: int = 1
) -> receipts.ReceiptRow:
    (answer,) = await receipts.receive(conn, [arrival(branch, sequence, text=text, changes=changes)])
    if isinstance(answer, AnabranchError):
        raise answer
    return answer


def arrival(branch: BranchRow, sequence: int, *, text: str = "finding", changes: int = 1) -> receipts.Arrival:
    body = f"{text} {sequence}"
    return receipts.Arrival(
        line=branch.line,
        branch_id=branch.branch_id,
        sequence=sequence,
        receipt_id=new_receipt_id(branch.line),
        content_hash=digest(body),
        body=body.encode(),
        changes=changes,
        final=False,
    )


async def receive_all(db: Database, branch: BranchRow, *sequences: int) -> None:
    async with db.connection() as conn:
        for sequence in sequences:
            await receive(conn, branch, sequence)


async def open_automatic(conn: Connection, branch: BranchRow) -> JobRow | None:
    return await openings.open_automatic(conn, line=branch.line, branch_id=branch.branch_id, namespace=NAMESPACE)


async def register(
    conn: Connection, branch: BranchRow, first: int, last: int, *, name: str = "by-hand", uid: str | None = None
) -> JobRow:
    return await openings.register_manual(
        conn,
        line=branch.line,
        job_id=new_job_id(branch.line),
        namespace=NAMESPACE,
        name=name,
        uid=uid or f"uid-of-{name}",
        observed_generation=1,
        branch_id=branch.branch_id,
        from_sequence=first,
        through_sequence=last,
        lease_seconds=30,
        retry_limit=5,
    )


async def new_job(db: Database, *, name: str = "run-1") -> JobRow:
    """A due job with one batch."""
    branch = await new_branch(db, name=name)
    await receive_all(db, branch, 1)
    async with db.connection() as conn:
        job = await open_automatic(conn, branch)
    assert job is not None
    return job


async def claimed(db: Database, *, name: str = "run-1", holder: str = "worker") -> JobRow:
    """A job that a worker holds."""
    job = await new_job(db, name=name)
    async with db.connection() as conn:
        found = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder=holder)
    assert found is not None
    return found


async def expire_leases(db: Database) -> None:
    async with db.connection() as conn:
        await conn.execute(
            "UPDATE jobs SET due_at = now() - interval '1 s', lease_deadline = now() - interval '1 s'"
            " WHERE holder IS NOT NULL"
        )


async def finish(conn: Connection, job: JobRow, *, holder: str = "worker") -> JobRow:
    """Take a job through to its end."""
    held = await leases.claim_one(conn, line=job.line, job_id=job.job_id, holder=holder)
    assert held is not None
    return await leases.advance(conn, job=held, to_state="published", reason="NothingToPublish")


def candidate(job: JobRow, ordinal: int, **values: Any) -> candidates.CandidateRow:
    text = values.pop("text", f"content {ordinal}")
    return candidates.CandidateRow(
        **{
            "line": job.line,
            "candidate_id": new_candidate_id(job.line),
            "job_id": job.job_id,
            "origin_job": job.job_id,
            "ordinal": ordinal,
            "branch_id": job.branch_id,
            "run_id": "run",
            "author": "system:serviceaccount:agents:agent",
            "op": "put",
            "key": f"key-{ordinal}",
            "scope": "shared",
            "visibility": "shareable",
            "content_hash": digest(text),
            "base_revision": 0,
            "sources": ({"locator": "https://example.org/x", "status": "pending", "detail": ""},),
            "origin_runs": ("run",),
            "observed_at": datetime(2025, 1, 2, tzinfo=UTC),
            **values,
        }
    )


async def blocked(db: Database, task: asyncio.Task[Any]) -> None:
    """Wait until a task of this database waits for a lock; fail if it ends first."""
    async with db.connection() as conn:
        while not await conn.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock')"
        ):
            assert not task.done(), "it did not wait"
            await asyncio.sleep(0.01)


async def fill_namespace(db: Database, branch: BranchRow) -> None:
    """A record and a checkpoint in a key-value namespace of a branch."""
    place = {"namespace": "space"}
    await kv_records.put(db, branch, key="k", raw=b"1", ttl_seconds=60, expected=None, readable=(), **place)
    request = KvCheckpointRequest(
        id="cp", agent_id="a", session_id="s", capsule=KvCapsule(goal="g", summary="s", next_action="n")
    )
    await kv_checkpoints.save(db, branch, request=request, **place)
