"""The completion of a run: its agent's word that nothing more comes.

It may overtake the last batches on their way. It is kept at once, and the run closes when all that it speaks of is
in. What the run leaves behind (``shareable_changes``) is kept with it for the record; findings come by batches
alone, which have sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.model.canonical import canonical_bytes, content_hash, sha256
from anabranch.model.errors import ConflictError, DigestMismatchError
from anabranch.store import completions

if TYPE_CHECKING:
    from anabranch.model.objects import RunCompletion
    from anabranch.store.branches import BranchRow
    from anabranch.store.completions import CompletionRow
    from anabranch.store.database import Database


async def submit(db: Database, *, branch: BranchRow, completion: RunCompletion, raw: dict[str, Any]) -> CompletionRow:
    """Keep a run's completion, and close the run if all its batches are in.

    Args:
        db: The store.
        branch: The branch, of which the caller is the agent.
        completion: The completion.
        raw: The same as it was sent: what is hashed is what the agent hashed.

    Raises:
        ConflictError: If it speaks of another run, branch, agent or parent; or the run was completed otherwise.
        DigestMismatchError: If ``delta_hash`` is not that of ``shareable_changes``.
        ForbiddenError: If the branch's grant was revoked.
        GoneError: If the branch has expired.
    """
    _check(branch, completion)
    delta = content_hash(raw.get("shareable_changes", []))
    if completion.delta_hash != delta:
        raise DigestMismatchError(
            f"delta_hash is {completion.delta_hash}, and shareable_changes has {delta}.",
            hint="Hash the RFC 8785 form of shareable_changes; if you did, send it again.",
            submitted=completion.delta_hash,
            received=delta,
        )
    body = canonical_bytes(raw)
    async with db.connection() as conn:
        row = await completions.submit(
            conn,
            line=branch.line,
            branch_id=branch.branch_id,
            run_id=branch.run_id,
            content_hash=sha256(body),
            body=body,
            last_submitted_sequence=completion.last_submitted_sequence,
        )
    db.notify("work")
    db.notify("status")
    return row


def _check(branch: BranchRow, completion: RunCompletion) -> None:
    """Check that a completion speaks of this very run."""
    own = {
        "run_id": branch.run_id,
        "branch_id": branch.branch_id,
        "agent_id": branch.agent_id,
        "baseline_id": branch.parent_baseline_id,
    }
    for name, value in own.items():
        if (said := getattr(completion, name)) != value:
            raise ConflictError(
                f"The completion says {name} {said}, and this run's is {value}.",
                hint="Send each completion to its own branch; baseline_id is that of the parent manifest.",
            )
