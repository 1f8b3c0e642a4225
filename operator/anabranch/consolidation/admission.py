"""Whether an agent may submit what its batch would do, asked when the batch comes.

An agent that lacks a grant learns it at once, from the door, and not from a rejected candidate hours later. The door is
not what keeps anything out: publication asks again. So while the API server cannot be asked, receipt goes on without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.identity import grants
from anabranch.kube.errors import RightMissingError
from anabranch.model.errors import ForbiddenError, UnavailableError

if TYPE_CHECKING:
    from anabranch.consolidation.receipt import Submission
    from anabranch.identity import Caller, Grant, Grants
    from anabranch.store.branches import BranchRow


async def admit(asked: Grants, caller: Caller, *, branch: BranchRow, submission: Submission) -> None:
    """Refuse a batch that touches a scope which its agent may not write, or deletes where it may not.

    Private changes are no matter of the door: validation refuses them one by one, by name.

    Args:
        asked: Answers what the caller may do.
        caller: The branch's agent.
        branch: Its branch.
        submission: The batch.

    Raises:
        ForbiddenError: Naming each missing grant.
    """
    needed: dict[tuple[Grant, str], None] = {}
    for touch in sorted(submission.touches, key=lambda touch: (touch.scope, touch.op)):
        needed[grants.SCOPE_WRITE, touch.scope] = None
        if touch.op == "tombstone":
            needed[grants.SCOPE_TOMBSTONE, touch.scope] = None
    try:
        missing = [
            f"`{grant.verb}` on scope {scope}"
            for grant, scope in needed
            if not await asked.allowed(caller, grant, namespace=branch.baseline_namespace, name=scope, stale=True)
        ]
    except RightMissingError:
        raise
    except UnavailableError:
        return
    if missing:
        raise ForbiddenError(
            f"{caller.username} lacks {', '.join(missing)} in namespace {branch.baseline_namespace}.",
            hint="Ask for a Role that allows it, or leave those changes out. Nothing of the batch was received.",
            missing=missing,
        )
