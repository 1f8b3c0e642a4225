"""Records of a namespace: written under its lock, read as they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anabranch.branches import layers
from anabranch.kv.values import check_memory_key, check_record_key, read
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.model.kv import KvReceipt, KvRecordInfo, KvStats
from anabranch.model.limits import IN_LOOP_BYTES
from anabranch.store import branches, kv, kv_namespaces
from anabranch.store.kv_namespaces import Place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.kv import Held, KvRow, Value, Written


def place_of(branch: BranchRow, namespace: str) -> Place:
    """A namespace of a branch; its name is checked."""
    return Place(line=branch.line, branch_id=branch.branch_id, namespace=namespace)


async def put(  # noqa: PLR0913  (all but the store and the branch by keyword)
    db: Database,
    branch: BranchRow,
    *,
    namespace: str,
    key: str,
    raw: bytes,
    ttl_seconds: int | None,
    expected: int | None,
    readable: Sequence[str],
) -> KvReceipt:
    """Write a record.

    Args:
        db: The store.
        branch: The branch, of which the caller is the agent.
        namespace: Its name, checked.
        key: The record's.
        raw: The value.
        ttl_seconds: Until it is seen by nobody; None: for ever.
        expected: The revision that the agent saw; 0: it must be absent; None: whatever is there.
        readable: Scopes that the agent may read: the base revision of a record elsewhere is not told.

    Raises:
        InvalidInputError: If the key does not do.
        TooLargeError: If the value is larger than 1 MiB.
        ConflictError: If the record is at another revision, or the run is over.
        QuotaExceededError: If the namespace, or the branch, holds as much as it may.
    """
    place = place_of(branch, namespace)
    check_record_key(place, key)
    value = read(raw) if len(raw) <= IN_LOOP_BYTES else await asyncio.to_thread(read, raw)
    if value.labels is not None:
        check_memory_key(place, key)
    written = await write(
        db, branch, place, key, value=value, ttl_seconds=ttl_seconds, expected=expected, readable=readable
    )
    return KvReceipt(
        revision=written.revision,
        bytes=len(raw),
        written_at_ms=millis(written.written_at),
        expires_at_ms=written.expires_at and millis(written.expires_at),
    )


async def write(  # noqa: PLR0913  (all but what is written by keyword)
    db: Database,
    branch: BranchRow,
    place: Place,
    key: str,
    *,
    value: Value,
    ttl_seconds: int | None,
    expected: int | None,
    readable: Sequence[str],
) -> Written:
    """Write a value that was read; arguments and errors as `put` has them."""
    branches.check_live(branch.phase)

    async def work(conn: Connection) -> Written:
        usage = await kv_namespaces.lock(conn, place)
        held = await kv.held(conn, place, key)
        _check(expected, held)
        entries, size = (1, len(key.encode()) + len(value.raw)) if held is None else (0, len(value.raw) - held.size)
        base = await layers.beneath(conn, branch, place.private_key(key), scopes=readable)
        return await kv.put(
            conn,
            place,
            key,
            value=value,
            usage=usage.with_more(writes=1, entries=entries, size=size),
            visibility=branch.sharing_policy.get("default", "private"),
            base_revision=base,
            ttl_seconds=ttl_seconds,
        )

    return await db.run(work)


async def get(db: Database, branch: BranchRow, *, namespace: str, key: str) -> KvRow:
    """A record.

    Raises:
        InvalidInputError: If the key does not do.
        NotFoundError: If there is none, or it has expired.
    """
    place = place_of(branch, namespace)
    check_record_key(place, key)
    async with db.connection() as conn:
        row = await kv.get(conn, place, key)
    if row is None:
        raise absent(place, key)
    return row


async def delete(  # noqa: PLR0913  (all but the store and the branch by keyword)
    db: Database,
    branch: BranchRow,
    *,
    namespace: str,
    key: str,
    expected: int | None,
    only_memory: bool = False,
) -> None:
    """Delete a record.

    Args:
        db: The store.
        branch: The branch, of which the caller is the agent.
        namespace: Its name, checked.
        key: The record's.
        expected: The revision that the agent saw; None: whatever is there.
        only_memory: A record that is no structured memory counts as none.

    Raises:
        InvalidInputError: If the key does not do.
        NotFoundError: If there is none.
        ConflictError: If it is at another revision, or the run is over.
    """
    branches.check_live(branch.phase)
    place = place_of(branch, namespace)
    check_record_key(place, key)

    async def work(conn: Connection) -> None:
        usage = await kv_namespaces.lock(conn, place)
        held = await kv.held(conn, place, key)
        if held is None or held.expired or (only_memory and not held.is_memory):
            raise absent(place, key)
        _check(expected, held)
        left = usage.with_more(writes=0, entries=-1, size=-len(key.encode()) - held.size)
        await kv.remove(conn, place, key, usage=left)

    await db.run(work)


async def page(  # noqa: PLR0913  (all but the store and the branch by keyword)
    db: Database, branch: BranchRow, *, namespace: str, prefix: str, after: str, limit: int
) -> list[KvRecordInfo]:
    """Records by key, those that begin with a prefix, beginning after one."""
    async with db.connection() as conn:
        found = await kv.page(conn, place_of(branch, namespace), prefix=prefix, after=after, limit=limit)
    return [
        KvRecordInfo(
            key=row.key,
            revision=row.revision,
            bytes=row.size,
            expires_at_ms=row.expires_at and millis(row.expires_at),
        )
        for row in found
    ]


async def stats(db: Database, branch: BranchRow, *, namespace: str) -> KvStats:
    """What a namespace holds."""
    async with db.connection() as conn:
        usage = await kv_namespaces.stats(conn, place_of(branch, namespace))
    return KvStats(entries=usage.entries, bytes=usage.bytes, revision=usage.revision)


def millis(moment: datetime) -> int:
    """Milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def absent(place: Place, key: str, *, what: str = "record") -> NotFoundError:
    """What is said of a record, or something else, that is not there."""
    return NotFoundError(
        f"The namespace {place.namespace} has no {what} {key!r}.", hint="Check the namespace, and the name."
    )


def _check(expected: int | None, held: Held | None) -> None:
    at = 0 if held is None or held.expired else held.revision
    if expected is None or expected == at:
        return
    wanted = "be absent" if expected == 0 else f"be at revision {expected}"
    raise ConflictError(
        f"The record should {wanted}, and {f'is at revision {at}' if at else 'is absent'}.",
        hint="Read it again, and repeat the change on what is there now.",
        revision=str(at),
    )
