"""Whether the authors of accepted candidates may still do what they propose.

Grants were asked at receipt; a review may have taken days. They are asked again just before the publishing
transaction (not in it: a transaction does not wait for a network), so a revoked grant keeps out what it would have
let in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anabranch.branches import consent
from anabranch.domain.sharing import Sharing
from anabranch.identity import Caller, Grant, grants
from anabranch.store import branches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anabranch.consolidation.services import Services
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow
    from anabranch.store.records import RecordRow


async def refusals(
    services: Services, job: JobRow, rows: Sequence[CandidateRow], records: Mapping[str, RecordRow]
) -> dict[str, tuple[str, str]]:
    """Which accepted candidates may not be published any more.

    Args:
        services: The parts.
        job: Their job.
        rows: The candidates.
        records: What they would replace, by key: to take a key out of a scope is to write there too.

    Returns:
        Reason and detail by candidate id; those that may be published are left out.
    """
    if job.branch_id is None:
        return {}  # proposed by the Baseline's own import, which no agent wrote
    async with services.db.connection() as conn:
        branch = await branches.get(conn, job.branch_id)
    if branch is None:
        return {}
    # Whether it may still fork decides over what comes, not over this; but here is where it is noticed.
    await consent.check(services.db, branch, asked=services.grants)
    agent = Caller.for_service_account(branch.namespace, branch.service_account)
    sharing = Sharing.parse(branch.sharing_policy)
    needs = {row.candidate_id: _needs(row, records.get(row.key)) for row in rows}
    held = await _held(services, agent, job.namespace, {need for one in needs.values() for need in one})
    refused: dict[str, tuple[str, str]] = {}
    for row in rows:
        if refusal := sharing.refusal(scope=row.scope, visibility=row.visibility):
            refused[row.candidate_id] = refusal
        elif lacking := [need for need in needs[row.candidate_id] if not held[need]]:
            what = ", ".join(f"`{grant.verb}` on {_named(scope, row)}" for grant, scope in lacking)
            refused[row.candidate_id] = ("GrantRevoked", f"{agent.username} lacks {what} in namespace {job.namespace}")
    return refused


def _needs(row: CandidateRow, record: RecordRow | None) -> list[tuple[Grant, str]]:
    """The grants that publishing a candidate takes."""
    needs = [(grants.SCOPE_WRITE, row.scope)]
    if record is not None and record.scope != row.scope:
        needs.append((grants.SCOPE_WRITE, record.scope))
    if row.op == "tombstone":
        needs += [
            (grants.SCOPE_TOMBSTONE, scope)
            for scope in dict.fromkeys((row.scope, record.scope if record else row.scope))
        ]
    if row.visibility == "private":
        needs.append((grants.SCOPE_EXPORT, row.scope))
    return needs


def _named(scope: str, row: CandidateRow) -> str:
    """A scope in words for the candidate's author, who may not know where else its key is."""
    return f"scope {scope}" if scope == row.scope else "the scope that the key is in"


async def _held(
    services: Services, agent: Caller, namespace: str, needs: Iterable[tuple[Grant, str]]
) -> dict[tuple[Grant, str], bool]:
    """For each grant whether the agent holds it, asked together."""
    asked = sorted(needs, key=lambda need: (need[0].verb, need[1]))
    answers = await asyncio.gather(
        *(services.grants.allowed(agent, grant, namespace=namespace, name=scope) for grant, scope in asked)
    )
    return dict(zip(asked, answers, strict=True))
