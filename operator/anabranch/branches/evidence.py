"""Evidence that a branch uploads, to be cited by its findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.answers import EvidenceState
from anabranch.model.canonical import hash_text, sha256
from anabranch.model.errors import DigestMismatchError, NotFoundError
from anabranch.store import evidence

if TYPE_CHECKING:
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database
    from anabranch.store.evidence import EvidenceRow


async def keep(
    db: Database, branch: BranchRow, *, digest: bytes, media_type: str, body: bytes
) -> tuple[EvidenceState, bool]:
    """Keep a blob under its digest; the same again changes nothing.

    Args:
        db: The store.
        branch: The branch.
        digest: SHA-256 that the body must have, 32 bytes.
        media_type: What the agent says that it is.
        body: The bytes.

    Returns:
        What is kept, and whether it is new.

    Raises:
        DigestMismatchError: If the body has another digest.
        TooLargeError: If the branch would hold more than 256 MiB.
    """
    if sha256(body) != digest:
        raise DigestMismatchError(
            f"The bytes that arrived are {hash_text(sha256(body))}, not {hash_text(digest)}.",
            hint="Upload it again, whole; if it stays, check that the path names the bytes' own digest.",
        )
    async with db.connection() as conn:
        new = await evidence.put(
            conn, line=branch.line, branch_id=branch.branch_id, digest=digest, media_type=media_type, body=body
        )
    state = EvidenceState(
        locator=f"evidence:{hash_text(digest)}", digest=hash_text(digest), size=len(body), media_type=media_type
    )
    return state, new


async def find(db: Database, branch: BranchRow, *, digest: bytes) -> EvidenceRow:
    """A blob that this branch uploaded.

    Raises:
        NotFoundError: If it uploaded none with this digest.
    """
    async with db.connection() as conn:
        row = await evidence.get(conn, line=branch.line, branch_id=branch.branch_id, digest=digest)
    if row is None:
        raise _absent(digest)
    return row


async def check(db: Database, branch: BranchRow, *, digest: bytes) -> None:
    """Check that this branch uploaded a blob.

    Raises:
        NotFoundError: If it uploaded none with this digest.
    """
    async with db.connection() as conn:
        present = await evidence.exists(conn, line=branch.line, branch_id=branch.branch_id, digests=[digest])
    if not present:
        raise _absent(digest)


def _absent(digest: bytes) -> NotFoundError:
    return NotFoundError(f"The branch has no evidence {hash_text(digest)}.", hint="Upload it.")
