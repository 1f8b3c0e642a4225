"""The work on one job: one durable step after the other, as far as it can go now.

Whoever claims a job keeps its lease meanwhile, and records it when this raises. It may be killed between any two
statements: the lease runs out, another claim goes on from the last durable state, and whatever the first one still
tries is fenced off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from anabranch.consolidation.importing import begin, import_batches
from anabranch.consolidation.publishing import publish_accepted
from anabranch.consolidation.reviewing import review
from anabranch.consolidation.validating import validate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anabranch.consolidation.services import Services
    from anabranch.model.objects import JobState
    from anabranch.store.jobs import JobRow

    Step: TypeAlias = Callable[[Services, JobRow], Awaitable[JobRow | None]]

_STEPS: Final[Mapping[JobState, Step]] = {
    "received": begin,
    "importing": import_batches,
    "validating": validate,
    "awaiting_review": review,
    "publishing": publish_accepted,
}


async def advance(services: Services, job: JobRow) -> None:
    """Take a claimed job as far as it can go: until it waits for somebody else, or is done.

    Args:
        services: The parts.
        job: As `leases.claim` or `leases.claim_one` gave it.

    Raises:
        FencedError: If somebody else has the job by now; nothing was written.
        UnreachableSourceError: If a source could not be asked, and the job has another try.
        UnavailableError: If Postgres or the API server cannot be reached.
    """
    held: JobRow | None = job
    while held is not None and held.state != "published":
        held = await _STEPS[held.state](services, held)
