"""Whether an agent may still work with the memory that it forked.

Consent is the agent's grant in the Baseline's namespace, and an owner may take it back while the run goes on. That
makes no noise, so it is asked when the branch is reconciled and when findings of it are about to be published. A branch
that is denied takes no more findings; what it has submitted is judged by the grants on scopes, as always. It is looked
at again from time to time, and goes on when the grant is back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from anabranch.identity import Caller, grants
from anabranch.store import branches, presence, waiting

if TYPE_CHECKING:
    from anabranch.identity import Grants
    from anabranch.store.branches import BranchRow
    from anabranch.store.database import Database

GRANT_REVOKED: Final = "GrantRevoked"
"""Why a branch is denied."""

REVOKED: Final = (
    "The agent's grant to fork was revoked: the branch takes no more findings. It goes on when the grant is back."
)

_LIVE: Final = {"Active", "Stale"}


async def check(db: Database, branch: BranchRow, *, asked: Grants) -> bool:
    """Ask whether a branch's agent may still fork its Baseline, and let the branch's phase say so.

    Args:
        db: The store.
        branch: As read; one that has ended is not asked about.
        asked: Answers what the agent may do.

    Returns:
        Whether it may.

    Raises:
        UnavailableError: If the API server or Postgres cannot be reached.
    """
    if branch.phase != "Denied" and branch.phase not in _LIVE:
        return True
    agent = Caller.for_service_account(branch.namespace, branch.service_account)
    granted = await asked.allowed(agent, grants.FORK, namespace=branch.baseline_namespace, name=branch.baseline_name)
    if granted == (branch.phase in _LIVE):
        return granted
    async with db.transaction() as conn:
        await branches.set_phase(
            conn, line=branch.line, branch_id=branch.branch_id, phase="Active" if granted else "Denied"
        )
        if granted:
            await presence.wake(conn, line=branch.line, branch_id=branch.branch_id)
        if not granted and branch.deleted_at is None:
            # Whoever visits what waits goes on from here: nothing else would notice that the grant is back.
            await waiting.upsert(
                conn,
                namespace=branch.namespace,
                kind="Branch",
                name=branch.name,
                uid=branch.uid,
                observed_generation=branch.observed_generation,
                condition="Stalled",
                reason=GRANT_REVOKED,
                message=REVOKED,
                needs_namespace=branch.baseline_namespace,
                needs_name=branch.baseline_name,
                due_in=timedelta(),
            )
    db.notify("status")
    return granted
