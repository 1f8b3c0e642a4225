"""What the tests of the proposal's gates share: a run with five findings, its end, and its review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.store.world import decisions

from anabranch.branches import completion
from anabranch.model.canonical import content_hash
from anabranch.model.objects import RunCompletion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.store.world import World

    from anabranch.store.branches import BranchRow
    from anabranch.store.candidates import CandidateRow
    from anabranch.store.jobs import JobRow

FIVE = [{"key": f"k{number}", "content": number} for number in range(1, 6)]


async def published_once(world: World, line: str) -> None:
    """Check that each of the five findings was published, and none twice."""
    events = await world.events(line)
    assert sorted(key for _, key, _ in events) == [change["key"] for change in FIVE]
    assert {kind for kind, _, _ in events} == {"published"}
    assert {change["key"]: str(change["content"]) for change in FIVE}.items() <= (await world.contents(line)).items()
    await world.check_roots(line)


async def complete(world: World, branch: BranchRow, last: int) -> None:
    """Say that a run is over with its batch of this number."""
    raw = {
        "run_id": branch.run_id,
        "branch_id": branch.branch_id,
        "agent_id": branch.agent_id,
        "baseline_id": branch.parent_baseline_id,
        "last_submitted_sequence": last,
        "delta_hash": content_hash([]),
    }
    await completion.submit(world.db, branch=branch, completion=RunCompletion.model_validate(raw), raw=raw)


async def review(
    world: World, job: JobRow, *, accept: Iterable[CandidateRow] = (), reject: Iterable[CandidateRow] = ()
) -> None:
    """Decide on candidates in the job's own resource."""
    branch = next(name for name in ("one", "two") if name in job.name)
    spec: dict[str, Any] = {"branchRef": {"namespace": "agents", "name": branch}, "origin": job.origin}
    if job.origin == "Branch":
        spec["batches"] = {"from": job.from_sequence, "through": job.through_sequence}
    said = [*decisions(accept), *decisions(reject, "reject")]
    await world.apply_job(job.name, reviews=[{"reviewer": "ada", "decisions": said}], **spec)
    await world.work()
