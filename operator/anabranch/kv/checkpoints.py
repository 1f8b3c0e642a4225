"""Checkpoints of a namespace, as the key-value contract has them; each is a checkpoint of the branch too.

In the branch a checkpoint has the id ``<namespace>.<id>``, so a finding cites it as ``checkpoint:<namespace>.<id>``.
Those are never removed; what is deleted here is only no longer told of here, and its id is not given again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from anabranch.kv.records import absent, place_of
from anabranch.model.canonical import canonical_bytes, sha256
from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, QuotaExceededError, TooLargeError
from anabranch.model.kv import KvCapsule, KvCheckpointReceipt, KvResolvedReference, KvRestore
from anabranch.model.limits import CAPSULE_BYTES
from anabranch.store import branches, checkpoints, kv_checkpoints, kv_namespaces
from anabranch.store.kv_checkpoints import KvCheckpointRow

if TYPE_CHECKING:
    from anabranch.model.kv import KvCheckpointRequest
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.kv_namespaces import Place

_NEEDED: Final = ("goal", "summary", "next_action")


async def save(db: Database, branch: BranchRow, *, namespace: str, request: KvCheckpointRequest) -> KvCheckpointReceipt:
    """Keep a checkpoint, and make it its session's latest. The same again changes nothing.

    Raises:
        InvalidInputError: If the capsule is too large, or does not say what matters.
        ConflictError: If the id has another content or was deleted, the session's latest is another one, or the run
            is over.
        QuotaExceededError: If the namespace or the branch holds as much as it may.
    """
    branches.check_live(branch.phase)
    place = place_of(branch, namespace)
    _check_capsule(request.capsule)
    raw = canonical_bytes(request.model_dump(mode="json"))

    async def work(conn: Connection) -> KvCheckpointReceipt:
        usage = await kv_namespaces.lock(conn, place)
        if (known := await kv_checkpoints.get(conn, place, request.id)) is not None:
            return _receipt(place, _same(known, sha256(raw)))
        latest = await kv_checkpoints.latest(conn, place, agent_id=request.agent_id, session_id=request.session_id)
        _check_latest(request, None if latest is None else latest.latest_revision)
        pointer = f"__latest/{request.agent_id}/{request.session_id}"
        was = 0 if latest is None else len(pointer) + len(latest.checkpoint_id)
        size = _footprint(request.id, len(raw)) + len(pointer) + len(request.id) - was
        used = usage.with_more(writes=2, entries=1 if latest else 2, size=size)
        await _keep(conn, place, request)
        row = KvCheckpointRow(
            checkpoint_id=request.id,
            agent_id=request.agent_id,
            session_id=request.session_id,
            revision=used.revision - 1,
            latest_revision=used.revision,
            is_latest=True,
            refs=[reference.model_dump(mode="json") for reference in request.references],
            size=len(raw),
            content_hash=sha256(raw),
            deleted=False,
        )
        await kv_checkpoints.add(conn, place, row)
        await kv_checkpoints.count(conn, place, used)
        return _receipt(place, row)

    return await db.run(work)


async def restore(db: Database, branch: BranchRow, *, namespace: str, checkpoint_id: str, max_bytes: int) -> KvRestore:
    """A checkpoint, and what has become of the records that it stands on.

    Raises:
        NotFoundError: If there is none.
        InvalidInputError: If it has more bytes than the caller wants.
    """
    place = place_of(branch, namespace)
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        return await _restored(conn, place, checkpoint_id, max_bytes=max_bytes)


async def restore_latest(  # noqa: PLR0913  (all but the store and the branch by keyword)
    db: Database, branch: BranchRow, *, namespace: str, agent_id: str, session_id: str, max_bytes: int
) -> KvRestore:
    """A session's latest checkpoint; errors as `restore` has them."""
    place = place_of(branch, namespace)
    async with db.transaction(readonly=True, isolation="repeatable_read") as conn:
        latest = await kv_checkpoints.latest(conn, place, agent_id=agent_id, session_id=session_id)
        if latest is None:
            raise NotFoundError(
                f"The session {agent_id}/{session_id} has no checkpoint in {place.namespace}.", hint="Save one first."
            )
        return await _restored(conn, place, latest.checkpoint_id, max_bytes=max_bytes)


async def delete(db: Database, branch: BranchRow, *, namespace: str, checkpoint_id: str) -> None:
    """Tell of an old checkpoint no longer.

    Raises:
        NotFoundError: If there is none.
        ConflictError: If it is its session's latest, or the run is over.
    """
    branches.check_live(branch.phase)
    place = place_of(branch, namespace)

    async def work(conn: Connection) -> None:
        usage = await kv_namespaces.lock(conn, place)
        row = await _require(conn, place, checkpoint_id)
        if row.is_latest:
            raise ConflictError(
                f"The checkpoint {checkpoint_id!r} is its session's latest.", hint="Save a newer one first."
            )
        await kv_checkpoints.delete(conn, place, checkpoint_id)
        size = -_footprint(checkpoint_id, row.size)
        await kv_checkpoints.count(conn, place, usage.with_more(writes=0, entries=-1, size=size))

    await db.run(work)


async def _keep(conn: Connection, place: Place, request: KvCheckpointRequest) -> None:
    """Keep the capsule as a checkpoint of the branch."""
    session = f"{request.agent_id}.{request.session_id}"
    body = canonical_bytes(
        {"session_id": session, "capsule": request.capsule.model_dump(mode="json"), "references": []}
    )
    try:
        await checkpoints.add(
            conn,
            line=place.line,
            branch_id=place.branch_id,
            checkpoint_id=_branch_wide(place, request.id),
            session_id=session,
            content_hash=sha256(body),
            body=body,
        )
    except TooLargeError as error:
        raise QuotaExceededError(error.detail, hint=error.hint, **error.extra) from error


async def _restored(conn: Connection, place: Place, checkpoint_id: str, *, max_bytes: int) -> KvRestore:
    row = await _require(conn, place, checkpoint_id)
    kept = await checkpoints.require(
        conn, line=place.line, branch_id=place.branch_id, checkpoint_id=_branch_wide(place, checkpoint_id)
    )
    named = [(reference["namespace"], reference["key"]) for reference in row.refs]
    now = await kv_checkpoints.revisions(conn, place, named)
    found = KvRestore(
        checkpoint_id=checkpoint_id,
        revision=row.revision,
        latest_revision=row.latest_revision,
        capsule=KvCapsule.model_validate(json.loads(kept.body)["capsule"]),
        references=tuple(
            KvResolvedReference(
                **reference,
                status="missing" if at is None else "available" if at == reference["revision"] else "stale",
            )
            for reference, at in zip(row.refs, now, strict=True)
        ),
    )
    if (size := len(found.model_dump_json().encode())) > max_bytes:
        raise InvalidInputError(
            f"The checkpoint has {size} bytes, which is more than max_bytes.", hint="Ask with a larger max_bytes."
        )
    return found


async def _require(conn: Connection, place: Place, checkpoint_id: str) -> KvCheckpointRow:
    row = await kv_checkpoints.get(conn, place, checkpoint_id)
    if row is None or row.deleted:
        raise absent(place, checkpoint_id, what="checkpoint")
    return row


def _check_capsule(capsule: KvCapsule) -> None:
    if empty := [name for name in _NEEDED if not getattr(capsule, name).strip()]:
        raise InvalidInputError(
            f"The capsule's {', '.join(empty)} is empty.", hint="Say what the task is, how far it is, and what is next."
        )
    if (size := len(canonical_bytes(capsule.model_dump(mode="json")))) > CAPSULE_BYTES:
        raise InvalidInputError(
            f"The capsule has {size} bytes, the limit is {CAPSULE_BYTES}.",
            hint="Keep details in records, and refer to them.",
        )


def _check_latest(request: KvCheckpointRequest, latest_revision: int | None) -> None:
    if request.expected_latest_revision != latest_revision:
        raise ConflictError(
            f"The session's latest checkpoint is at revision {latest_revision or 'none'}, "
            f"not {request.expected_latest_revision or 'none'}.",
            hint="Restore the latest one: another instance of the agent has gone on from there.",
        )


def _same(known: KvCheckpointRow, content_hash: bytes) -> KvCheckpointRow:
    if known.deleted or known.content_hash != content_hash:
        state = "was deleted" if known.deleted else "has another content"
        raise ConflictError(f"The checkpoint {known.checkpoint_id!r} {state}.", hint="Take a new id for each.")
    return known


def _receipt(place: Place, row: KvCheckpointRow) -> KvCheckpointReceipt:
    return KvCheckpointReceipt(
        id=row.checkpoint_id,
        revision=row.revision,
        latest_revision=row.latest_revision,
        locator=f"instantkv://{place.namespace}/checkpoints/{row.checkpoint_id}",
        is_latest=row.is_latest,
    )


def _branch_wide(place: Place, checkpoint_id: str) -> str:
    """The id that a namespace's checkpoint has in its branch."""
    return f"{place.namespace}.{checkpoint_id}"


def _footprint(checkpoint_id: str, size: int) -> int:
    """What a checkpoint counts in its namespace, bytes: a key and a value, as that contract stores it."""
    return len(f"__checkpoint/{checkpoint_id}") + size
