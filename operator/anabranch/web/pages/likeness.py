"""What is shown beside a candidate of those that it is near-identical to: they may be decided with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.web.shown import Member, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate
    from anabranch.model.reviewing import CandidateGroup
    from anabranch.web.visit import Visit

_OTHERS: Final = 20
"""Members of a group that a page tells of beside the one that it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The group that a candidate is decided with.

    Attributes:
        group: As the API tells it: its digest is what the visitor decides on.
        others: Some of its other members, each with what differs from the one that is shown.
    """

    group: CandidateGroup
    others: Sequence[tuple[KnowledgeCandidate, Sequence[Member]]]


async def together(
    visit: Visit, job: ConsolidationJob, candidate: KnowledgeCandidate, found: Sequence[KnowledgeCandidate]
) -> Together | None:
    """The group of a candidate that waits; None: it is decided alone.

    Args:
        visit: The request.
        job: The job.
        candidate: Whose page it is.
        found: The job's candidates, as far as they were read.
    """
    if candidate.group_id is None or candidate.state != "waiting":
        return None
    groups = {group.group_id: group for group in await visit.client.groups(job.namespace, job.name)}
    group = groups.get(candidate.group_id)
    if group is None or group.members == 1:
        return None
    others = [
        each for each in found if each.group_id == group.group_id and each.state == "waiting" and each is not candidate
    ]
    return Together(group=group, others=[(each, members(candidate.content, each.content)) for each in others[:_OTHERS]])
