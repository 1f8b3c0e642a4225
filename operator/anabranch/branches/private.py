"""Writing to the private overlay: what a run knows and keeps to itself until it submits it.

A write fixes the record's visibility; where the agent says none, the branch's sharing policy of this moment does. The
first one also notes which revision of the key the agent sees beneath its overlay, so that a finding made of it later
names the base that the agent in fact worked from. That stays, whatever moves beneath: after a rebase, or where updates
are taken over, the agent has to say that it has seen what is there now.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from anabranch.branches import layers
from anabranch.model.canonical import canonical_bytes, check_json, sha256
from anabranch.model.errors import ConflictError, InvalidInputError, TooLargeError
from anabranch.model.limits import CONTENT_BYTES
from anabranch.store import branches, kv_namespaces, private

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.wire import Visibility
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.private import PrivateRow


async def put(  # noqa: PLR0913  (the members of a record)
    db: Database,
    *,
    branch: BranchRow,
    key: str,
    content: Any,
    scope: str,
    visibility: Visibility | None,
    expected: int | None,
    readable: Sequence[str],
    based_on: str | None = None,
) -> PrivateRow:
    """Write a private record.

    Args:
        db: The store.
        branch: The branch, of which the caller is the agent.
        key: The record's, checked.
        content: Any JSON value.
        scope: The record's, checked.
        visibility: None: what the branch's sharing policy says.
        expected: The revision that the agent saw; 0: it must be absent; None: whatever is there.
        readable: Scopes that the agent may read: the base revision of a record elsewhere is not told.
        based_on: The revision beneath the overlay that this settles; None: what the first write was based on stays.

    Raises:
        InvalidInputError: If the content has no canonical form, or the key belongs to a key-value namespace.
        TooLargeError: If it is larger than 1 MiB.
        ConflictError: If the run is over, or another revision is beneath than the one that is to be settled.
        PreconditionFailedError: If the record is not at the expected revision.
    """
    branches.check_live(branch.phase)
    _check_own(key)
    # A megabyte of small values takes the better part of a second, in which nobody else would be answered.
    body = await asyncio.to_thread(_canonical, content)
    if len(body) > CONTENT_BYTES:
        raise TooLargeError(
            f"The content has {len(body)} bytes, the limit is {CONTENT_BYTES}.",
            hint="Split it into several records, or upload it as evidence.",
            limit=CONTENT_BYTES,
        )
    async with db.transaction() as conn:
        await branches.hold_live(conn, line=branch.line, branch_id=branch.branch_id)
        base = await layers.beneath(conn, branch, key, scopes=readable)
        if based_on is not None and int(based_on) != base:
            raise ConflictError(
                f"Beneath the overlay {key!r} is at revision {base}, and the record is said to be based on {based_on}.",
                hint="View the layers beneath again, and write what is true with them in mind.",
                reason="BaseMoved",
                base_revision=str(base),
            )
        return await private.put(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            key=key,
            scope=scope,
            visibility=visibility or branch.sharing_policy.get("default", "private"),
            content_hash=sha256(body),
            body=body,
            base_revision=base,
            settle=based_on is not None,
            expected=expected,
        )


async def delete(db: Database, *, branch: BranchRow, key: str, expected: int | None) -> int:
    """Delete a private record; the revision of the deletion.

    Raises:
        InvalidInputError: If the key belongs to a key-value namespace.
        ConflictError: If the run is over.
        NotFoundError: If there is none.
        PreconditionFailedError: If it is not at the expected revision.
    """
    branches.check_live(branch.phase)
    _check_own(key)
    async with db.transaction() as conn:
        await branches.hold_live(conn, line=branch.line, branch_id=branch.branch_id)
        return await private.delete(conn, line=branch.line, branch_id=branch.branch_id, key=key, expected=expected)


def _canonical(content: Any) -> bytes:
    check_json(content, path="content")
    return canonical_bytes(content)


def _check_own(key: str) -> None:
    """Check that a key is not kept for the namespaces of the key-value contract, which know more of it."""
    if key.startswith(kv_namespaces.PREFIX):
        raise InvalidInputError(
            f"Keys that begin with {kv_namespaces.PREFIX} are written through the branch's key-value namespaces.",
            hint="Use …/kv/v1/namespaces/{namespace}/records/{key}, or another key.",
        )
