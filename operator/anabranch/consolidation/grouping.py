"""Groups of near-identical candidates, and one decision on all that wait of one.

A decision on a group is a short way of saying the same of each of its members, and weighs no more than that: it names a
digest over every member's id, content and record, so it counts for exactly those that its reviewer was shown, and it is
noted as a decision on each. Where one of them has gone, or its record has moved, nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from anabranch.consolidation.read import check_whole
from anabranch.domain import gate
from anabranch.domain.likeness import group_digest
from anabranch.model.canonical import hash_text
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.model.reviewing import CandidateGroup
from anabranch.store import likenesses, reviews

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection, Database
    from anabranch.store.jobs import JobRow


_NAMED: Final = 20
"""Members of a group that are told with it."""


class StaleGroupError(ConflictError):
    """The group has other members, or other records, than the reviewer saw."""

    code = "ReviewStale"


class MixedGroupError(ConflictError):
    """The group cannot be accepted as one."""

    code = "GroupMixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """One reviewer's decision on a group.

    Attributes:
        digest: Of the members that the reviewer saw (see `group_digest`).
    """

    group_id: str
    reviewer: str
    digest: str
    action: Literal["accept", "reject"]
    reason: str = ""

    def on(self, rows: Iterable[CandidateRow]) -> list[reviews.Decision]:
        """The same decision on each of some candidates."""
        return [
            reviews.Decision(
                candidate_id=row.candidate_id,
                reviewer=self.reviewer,
                content_hash=row.content_hash,
                base_revision=row.canonical_revision or 0,
                action=self.action,
                reason=self.reason,
            )
            for row in rows
        ]


def digest_of(rows: Iterable[CandidateRow]) -> str:
    """The digest of a group's members that wait."""
    return group_digest(
        (row.candidate_id, hash_text(row.content_hash), str(row.canonical_revision or 0)) for row in rows
    )


def may_be_accepted(rows: Sequence[CandidateRow]) -> bool:
    """Whether a group's members can be accepted as one.

    A conflict is judged beside its own record, and what the recall gate holds knowing what it costs; and of two for one
    key nobody can have meant both.
    """
    return not any(row.conflicting or row.reason in gate.REASONS for row in rows) and len(
        {row.key for row in rows}
    ) == len(rows)


async def waiting(
    conn: Connection, job: JobRow, group_ids: Collection[str] | None = None
) -> dict[str, list[CandidateRow]]:
    """The members of a job's groups that wait for a review, by group; of some groups, or of all (None)."""
    found = await likenesses.members(conn, line=job.line, job_id=job.job_id, group_ids=group_ids)
    members = {group: [row for row in rows if row.state == "waiting"] for group, rows in found.items()}
    return {group: rows for group, rows in members.items() if rows}


async def page(db: Database, job: JobRow, *, branch_id: str | None, after: str, limit: int) -> list[CandidateGroup]:
    """The groups of a job's candidates of which something waits, by id.

    Args:
        db: The store.
        job: The job.
        branch_id: Only of those that this branch submitted; None: of all.
        after: The last id of the page before.
        limit: How many at most.

    Raises:
        ReclaimedError: If retention has removed them.
    """
    check_whole(job, "candidates")
    async with db.connection() as conn:
        found = await waiting(conn, job)
    return [
        CandidateGroup(
            group_id=group,
            members=len(rows),
            digest=digest_of(rows),
            acceptable=may_be_accepted(rows),
            candidate_ids=tuple(row.candidate_id for row in rows[:_NAMED]),
        )
        for group, rows in sorted(found.items())
        if group > after and branch_id in {None, rows[0].branch_id}
    ][:limit]


async def spelled_out(conn: Connection, job: JobRow, said: Sequence[GroupDecision]) -> list[reviews.Decision]:
    """A caller's decisions on groups as decisions on their members.

    Raises:
        NotFoundError: If nothing of a group waits in the job.
        StaleGroupError: If a group is another than its reviewer saw; ``extra`` has its digest.
        MixedGroupError: If it cannot be accepted as one.
    """
    groups = await waiting(conn, job, {decision.group_id for decision in said})
    decisions: list[reviews.Decision] = []
    for decision in said:
        rows = groups.get(decision.group_id)
        if rows is None:
            raise NotFoundError(
                f"Nothing of the group {decision.group_id} waits in this job.", hint="List the job's groups again."
            )
        if digest_of(rows) != decision.digest:
            raise StaleGroupError(
                f"The group {decision.group_id} has other members, or records, than you saw.",
                hint="List the job's groups and candidates again, and decide on what you see.",
                group_id=decision.group_id,
                digest=digest_of(rows),
            )
        if decision.action == "accept" and not may_be_accepted(rows):
            raise MixedGroupError(
                f"The group {decision.group_id} has conflicts, or several candidates for a key.",
                hint="Accept those that you mean one by one. It may be rejected as one.",
                group_id=decision.group_id,
            )
        decisions += decision.on(rows)
    return decisions


async def in_resource(conn: Connection, job: JobRow, said: Sequence[GroupDecision]) -> list[reviews.Decision]:
    """Decisions on groups that stand in a job's resource as decisions on candidates, each time that it is looked at.

    A resource says for ever what was once decided, while candidates come and go. So what was taken over from it while
    the group was as its reviewer saw it stands for as long as the resource says so; more than that counts for nothing.
    """
    if not said:
        return []
    members = await likenesses.members(
        conn, line=job.line, job_id=job.job_id, group_ids={decision.group_id for decision in said}
    )
    standing = await _standing(conn, job)
    decisions: list[reviews.Decision] = []
    for decision in said:
        rows = members.get(decision.group_id, [])
        waiting_ones = [row for row in rows if row.state == "waiting"]
        if (
            waiting_ones
            and digest_of(waiting_ones) == decision.digest
            and (decision.action == "reject" or may_be_accepted(waiting_ones))
        ):
            decisions += decision.on(waiting_ones)
            continue
        before = (standing.get((row.candidate_id, decision.reviewer)) for row in rows)
        decisions += [
            each
            for each in before
            if each is not None and (each.action, each.reason) == (decision.action, decision.reason)
        ]
    return decisions


async def _standing(conn: Connection, job: JobRow) -> Mapping[tuple[str, str], reviews.Decision]:
    """What was taken over from the job's resource and stands, by candidate and reviewer."""
    found = await reviews.standing(conn, line=job.line, job_id=job.job_id, via="resource")
    return {(decision.candidate_id, decision.reviewer): decision for decision in found}
