"""Writing to the private overlay: what a run knows and keeps to itself until it submits it.

A write fixes the record's visibility; where the agent says none, the branch's sharing policy of this moment does. It
also notes which revision of the key the parent manifest shows, so that a finding made of it later names the base
that the agent in fact worked from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.model.canonical import canonical_bytes, check_json, sha256
from anabranch.model.errors import ConflictError, TooLargeError
from anabranch.model.limits import CONTENT_BYTES
from anabranch.store import private, records

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

    Raises:
        InvalidInputError: If the content has no canonical form.
        TooLargeError: If it is larger than 1 MiB.
        ConflictError: If the run is over.
        PreconditionFailedError: If the record is not at the expected revision.
    """
    _check_open(branch)
    check_json(content, path="content")
    body = canonical_bytes(content)
    if len(body) > CONTENT_BYTES:
        raise TooLargeError(
            f"The content has {len(body)} bytes, the limit is {CONTENT_BYTES}.",
            hint="Split it into several records, or upload it as evidence.",
            limit=CONTENT_BYTES,
        )
    async with db.connection() as conn:
        _, base = await records.read(
            conn, line=branch.line, generation=branch.parent_generation, key=key, scopes=readable
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
            base_revision=0 if base is None else base.revision,
            expected=expected,
        )


async def delete(db: Database, *, branch: BranchRow, key: str, expected: int | None) -> int:
    """Delete a private record; the revision of the deletion.

    Raises:
        ConflictError: If the run is over.
        NotFoundError: If there is none.
        PreconditionFailedError: If it is not at the expected revision.
    """
    _check_open(branch)
    async with db.connection() as conn:
        return await private.delete(conn, line=branch.line, branch_id=branch.branch_id, key=key, expected=expected)


def _check_open(branch: BranchRow) -> None:
    if branch.phase not in ("Active", "Stale"):
        raise ConflictError(f"The run is over: the branch is {branch.phase}.", hint="Fork a new branch.")
