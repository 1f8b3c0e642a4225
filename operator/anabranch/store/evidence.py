"""Evidence: the blobs that a branch's findings cite by digest.

A digest resolves only for the branch that uploaded it, so no answer tells whether somebody else holds the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.model.errors import NotFoundError, TooLargeError
from anabranch.model.limits import EVIDENCE_BRANCH_BYTES
from anabranch.store import branches, durability, queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from anabranch.store.database import Connection

_sql = queries.load("evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """A blob.

    Attributes:
        digest: SHA-256 of the body, 32 bytes.
        size: Bytes.
    """

    line: str
    branch_id: str
    digest: bytes
    size: int
    media_type: str
    body: bytes
    created_at: datetime


async def put(  # noqa: PLR0913  (the columns of a blob)
    conn: Connection, *, line: str, branch_id: str, digest: bytes, media_type: str, body: bytes
) -> bool:
    """Keep a blob under its digest, which the caller has checked; the same bytes again change nothing.

    Returns:
        Whether it is new.

    Raises:
        TooLargeError: If the branch would hold more than 256 MiB.
        NotFoundError: If there is no such branch.
        ReclaimedError: If retention has removed what the run brought.
    """
    if await exists(conn, line=line, branch_id=branch_id, digests=[digest]):
        await durability.settle(conn)
        return False
    async with conn.transaction():
        kept = await _sql.lock(conn, line=line, branch_id=branch_id)
        if kept is None:
            raise NotFoundError(f"There is no branch {branch_id}.", hint="Use the id in the Branch's status.")
        if kept != "whole":
            raise branches.reclaimed()
        if await exists(conn, line=line, branch_id=branch_id, digests=[digest]):
            return False
        added = await _sql.put(
            conn,
            line=line,
            branch_id=branch_id,
            digest=digest,
            size=len(body),
            media_type=media_type,
            body=body,
            budget=EVIDENCE_BRANCH_BYTES,
        )
    if not added:
        raise TooLargeError(
            f"With these {len(body)} bytes the branch's evidence would exceed {EVIDENCE_BRANCH_BYTES} bytes.",
            hint="Cite a Git commit or a configured https host instead of uploading, or fork a new branch.",
            limit=EVIDENCE_BRANCH_BYTES,
        )
    return True


async def get(conn: Connection, *, line: str, branch_id: str, digest: bytes) -> EvidenceRow | None:
    """A blob that this branch uploaded."""
    row = await _sql.get(conn, line=line, branch_id=branch_id, digest=digest)
    return row and EvidenceRow(**row)


async def exists(conn: Connection, *, line: str, branch_id: str, digests: Iterable[bytes]) -> set[bytes]:
    """Which of these digests this branch has uploaded."""
    found = _sql.present(conn, line=line, branch_id=branch_id, digests=list(digests))
    return set(await queries.rows(found, lambda row: row["digest"]))
