"""Candidates that are alike: what is told beside them, and one decision on many."""

from __future__ import annotations

import pytest
from tests.store.world import TEAM, World

from anabranch.consolidation import grouping, likening, review, showing
from anabranch.consolidation.grouping import MixedGroupError, StaleGroupError
from anabranch.consolidation.review import SelfReviewError
from anabranch.identity import Caller
from anabranch.model.canonical import hash_text
from anabranch.model.errors import NotFoundError
from anabranch.model.requests import DecisionRequest, GroupDecisionRequest
from anabranch.store import jobs, likenesses, reviews

ADA = Caller("ada")
SENTENCE = "The flaky build fails with exit code {} because the linker runs out of memory; use thin linking."
OTHER = {"key": "deploy", "content": "Deploys are rolled back with helm rollback within five minutes."}
SPEC = {"branchRef": {"namespace": "agents", "name": "run"}, "batches": {"from": 1, "through": 1}}


def junk(number, **changes):
    return {"key": f"junk/{number}", "content": {"text": SENTENCE.format(100 + number)}} | changes


@pytest.fixture
async def world(db):
    world = World(db)
    await world.import_documents({"a": "first"})
    return world


async def handed_in(world, *changes, name="run"):
    """A job of these findings that waits for a review."""
    branch = await world.apply_branch(name)
    await world.submit(branch, 1, *changes)
    await world.work()
    (job,) = [job for job in await world.jobs() if job.branch_id == branch.branch_id]
    return job


async def shown(world, job, *, branch_id=None):
    """The job's candidates by key, as a reviewer or (``branch_id``) its agent is shown them."""
    found, _ = await showing.candidate_page(
        world.db, job, caller=ADA, branch_id=branch_id, readable=None, after="", limit=100
    )
    return {candidate.key: candidate for candidate in found}


async def groups(world, job, **place):
    return await grouping.page(world.db, job, **({"branch_id": None, "after": "", "limit": 10} | place))


async def the_group(world, job):
    (group,) = await groups(world, job)
    return group


def on(group, action="reject", reason="the run was broken"):
    return GroupDecisionRequest(group_id=group.group_id, digest=group.digest, action=action, reason=reason)


async def decide(world, job, group, *singly, by=ADA):
    return await review.decide(world.db, job=job, caller=by, decisions=singly, groups=[group])


def singly(candidate, action, reason="so it is"):
    return DecisionRequest(
        candidate_id=candidate.candidate_id,
        content_hash=candidate.content_hash,
        base_revision="0",
        action=action,
        reason=reason,
    )


async def history(world, job):
    async with world.db.connection() as conn:
        return await reviews.history(conn, line=job.line, job_id=job.job_id)


# --------------------------------------------------------------------------------------------------- what is alike


async def test_near_identical_findings_of_a_run_are_a_group_and_the_others_are_not(world):
    job = await handed_in(world, OTHER, *map(junk, range(4)))

    found = await shown(world, job)
    group = await the_group(world, job)
    assert found["deploy"].group_id is None
    assert {found[f"junk/{number}"].group_id for number in range(4)} == {group.group_id}
    assert (group.members, group.acceptable, len(group.candidate_ids)) == (4, True, 4)
    assert job.state == "awaiting_review"  # it suggests, and decides nothing


async def test_a_deletion_is_in_no_group(world):
    deletions = [{"key": f"junk/{number}", "op": "tombstone", "base": 1} for number in range(4)]
    job = await handed_in(world, *deletions)

    assert await groups(world, job) == []


async def test_like_findings_of_two_runs_are_shown_beside_each_other_whichever_came_first(world):
    earlier = await handed_in(world, junk(1), name="earlier")
    later = await handed_in(world, junk(2), OTHER, name="later")

    first, second = (await shown(world, earlier))["junk/1"], (await shown(world, later))["junk/2"]
    assert [(like.candidate_id, like.job_id) for like in second.similar] == [(first.candidate_id, earlier.job_id)]
    assert [(like.candidate_id, like.state) for like in first.similar] == [(second.candidate_id, "waiting")]
    assert 0.8 < second.similar[0].likeness < 1
    assert (await shown(world, later))["deploy"].similar == ()


async def test_an_agent_is_shown_nothing_of_other_runs_findings(world):
    await handed_in(world, junk(1), name="others")
    job = await handed_in(world, junk(2), junk(3), name="own")

    own = (await shown(world, job, branch_id=job.branch_id))["junk/2"]
    assert {like.job_id for like in own.similar} == {job.job_id}
    assert await groups(world, job, branch_id="br_other") == []


async def test_findings_of_another_scope_are_not_shown_beside(world):
    await handed_in(world, junk(1, scope="team/build"), name="theirs")
    job = await handed_in(world, junk(2), name="ours")

    assert (await shown(world, job))["junk/2"].similar == ()


async def test_no_more_than_five_are_kept_with_a_candidate_however_many_came_later(world):
    job = await handed_in(world, junk(0), name="first")
    for number in range(1, 8):
        await handed_in(world, junk(number), name=f"run-{number}")

    assert len((await shown(world, job))["junk/0"].similar) == 5


async def test_what_was_found_alike_is_found_again_by_whoever_does_the_work_again(world):
    job = await handed_in(world, *map(junk, range(3)))
    before = await shown(world, job)

    await likening.keep(world.db, await world.candidates(job))

    assert await shown(world, job) == before


async def test_of_a_flood_so_much_is_looked_at_and_no_more(world, monkeypatch):
    monkeypatch.setattr(likening, "MOST", 3)
    job = await handed_in(world, *map(junk, range(5)))

    assert (await the_group(world, job)).members == 3


async def test_likeness_goes_with_the_candidate(world, db):
    job = await handed_in(world, *map(junk, range(3)))
    async with db.connection() as conn:
        await conn.execute("DELETE FROM candidates WHERE line = $1", job.line)
        assert await conn.fetchval("SELECT count(*) FROM likenesses WHERE line = $1", job.line) == 0


# ------------------------------------------------------------------------------------------------ decided as one


async def test_a_flood_is_rejected_by_one_decision_that_is_noted_on_each(world):
    job = await handed_in(world, OTHER, *map(junk, range(4)))
    await decide(world, job, on(await the_group(world, job)))
    await world.decide(job.job_id, keys=["deploy"])
    await world.work()

    outcomes = await world.outcomes()
    assert outcomes.pop("deploy") == [("published", "")]
    assert set(map(tuple, outcomes.values())) == {(("rejected", "RejectedByReview"),)}
    rows = {row.candidate_id: row for row in await world.candidates(job)}
    noted = [entry for entry in await history(world, job) if entry.action == "reject"]
    assert len(noted) == 4
    assert all(entry.content_hash == rows[entry.candidate_id].content_hash for entry in noted)


async def test_a_group_is_accepted_as_one_where_nothing_conflicts(world):
    job = await handed_in(world, *map(junk, range(3)))
    await decide(world, job, on(await the_group(world, job), "accept"))
    await world.work()

    assert {f"junk/{number}" for number in range(3)} <= set(await world.contents(job.line))


@pytest.mark.parametrize(
    "changes",
    [
        [junk(0), junk(1), junk(2, key="a", base=0)],  # the key has a record that its author did not know
        [junk(0), junk(1), junk(2, key="junk/1")],
    ],
)
async def test_a_group_with_a_conflict_or_a_key_twice_is_rejected_as_one_and_not_accepted(world, changes):
    job = await handed_in(world, *changes)
    group = await the_group(world, job)
    assert not group.acceptable

    with pytest.raises(MixedGroupError):
        await decide(world, job, on(group, "accept"))
    assert await history(world, job) == []
    await decide(world, job, on(group))
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_a_decision_on_a_group_that_is_another_by_now_decides_nothing(world):
    job = await handed_in(world, *map(junk, range(4)), OTHER)
    seen = await the_group(world, job)
    await world.import_documents({"a": "first"})
    # Somebody else publishes one of its keys: that member conflicts now.
    other = await handed_in(world, {"key": "junk/1", "content": "known"}, name="other")
    await world.decide(other.job_id)
    await world.work()

    with pytest.raises(StaleGroupError) as refused:
        await decide(world, job, on(seen))
    assert await history(world, job) == []
    assert refused.value.extra["digest"] == (await the_group(world, job)).digest != seen.digest


async def test_a_group_of_which_nothing_waits_cannot_be_decided(world):
    job = await handed_in(world, *map(junk, range(3)), OTHER)
    seen = await the_group(world, job)
    stranger = seen.model_copy(update={"group_id": (await shown(world, job))["deploy"].candidate_id})

    with pytest.raises(NotFoundError):
        await decide(world, job, on(stranger))


async def test_what_is_said_of_one_candidate_comes_before_what_is_said_of_its_group(world):
    job = await handed_in(world, *map(junk, range(3)))
    kept = (await shown(world, job))["junk/1"]
    await decide(world, job, on(await the_group(world, job)), singly(kept, "accept"))
    await world.work()

    outcomes = await world.outcomes()
    assert outcomes["junk/1"] == [("published", "")]
    assert outcomes["junk/0"] == outcomes["junk/2"] == [("rejected", "RejectedByReview")]


async def test_an_author_decides_on_no_group_of_its_own(world):
    job = await handed_in(world, *map(junk, range(3)))
    with pytest.raises(SelfReviewError):
        await decide(
            world, job, on(await the_group(world, job), "accept"), by=Caller("system:serviceaccount:agents:run")
        )


# --------------------------------------------------------------------------------------------- in a job's resource


def entry(group, action="reject", reason="junk"):
    return {"groupId": group.group_id, "digest": group.digest, "action": action, "reason": reason}


async def applied(world, job, generation, *entries, decisions=()):
    """The resource's reviews become these, and the operator takes them over."""
    said = [{"reviewer": "ada", "decisions": list(decisions), "groups": list(entries)}]
    await world.apply_job(job.name, generation=generation, reviews=said, **SPEC)
    return [(row.action, row.candidate_id) for row in await history(world, job)]


async def test_a_decision_on_a_group_in_the_resource_counts_for_each_member_and_once(world):
    job = await handed_in(world, *map(junk, range(3)), OTHER)
    group = await the_group(world, job)

    noted = await applied(world, job, 2, entry(group))
    assert sorted(noted) == sorted(("reject", candidate) for candidate in group.candidate_ids)
    assert await applied(world, job, 3, entry(group)) == noted
    await world.work()
    assert (await world.job(job.name)).state == "awaiting_review"  # for the other one
    assert await applied(world, job, 4, entry(group)) == noted


async def test_a_decision_on_a_group_that_is_taken_out_of_the_resource_is_withdrawn_from_each(world):
    job = await handed_in(world, *map(junk, range(3)), OTHER)
    noted = await applied(world, job, 2, entry(await the_group(world, job)))

    after = await applied(world, job, 3)
    assert sorted(after[len(noted) :]) == sorted(("withdraw", candidate) for _, candidate in noted)


async def test_what_was_taken_over_stands_though_the_group_is_another_by_now(world, db):
    job = await handed_in(world, *map(junk, range(4)), OTHER)
    noted = await applied(world, job, 2, entry(seen := await the_group(world, job)))
    async with db.connection() as conn:  # one of them is none of the group any more
        await conn.execute(
            "UPDATE likenesses SET group_id = NULL WHERE line = $1 AND candidate_id = $2",
            job.line,
            seen.candidate_ids[-1],
        )

    after = await applied(world, job, 3, entry(seen))
    assert after[len(noted) :] == [("withdraw", seen.candidate_ids[-1])]


async def test_a_decision_in_the_resource_on_a_group_as_it_never_was_counts_for_nothing(world):
    job = await handed_in(world, *map(junk, range(3)), OTHER)
    forged = (await the_group(world, job)).model_copy(update={"digest": hash_text(b"x" * 32)})

    assert await applied(world, job, 2, entry(forged)) == []
    assert (await world.job(job.name)).state == "awaiting_review"


async def test_in_the_resource_too_one_candidate_comes_before_its_group(world):
    job = await handed_in(world, *map(junk, range(3)), OTHER)
    group, kept = await the_group(world, job), (await shown(world, job))["junk/1"]
    mine = {
        "candidateId": kept.candidate_id,
        "contentHash": kept.content_hash,
        "baseRevision": "0",
        "action": "accept",
    }

    noted = await applied(world, job, 2, entry(group), decisions=[mine])
    assert ("accept", kept.candidate_id) in noted
    assert ("reject", kept.candidate_id) not in noted
    assert len(noted) == 3


async def test_the_api_may_read_likeness_and_write_none(world, api_db):
    job = await handed_in(world, *map(junk, range(3)))
    async with api_db.connection() as conn:
        assert await likenesses.members(conn, line=job.line, job_id=job.job_id)
        assert (await jobs.by_name(conn, namespace=TEAM, name=job.name)) is not None
