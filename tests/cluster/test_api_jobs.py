"""Jobs over HTTP: both sides of a conflict, and who may decide on it."""

from __future__ import annotations

import contextlib
import secrets

import pytest
from tests.cluster.places import BASELINE, eventually, finding, told

from anabranch.model.canonical import content_hash
from anabranch.model.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from anabranch.model.merging import MergeRequest
from anabranch.model.requests import DecisionRequest

KEY = "build/exit-137"


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


@pytest.fixture(scope="module")
async def other(place):
    return await place.client("other", "anabranch-agent")


@pytest.fixture(scope="module")
async def reviewer(place):
    return await place.client("reviewer", "anabranch-reviewer")


@pytest.fixture
async def conflict(place, agent, reviewer):
    """A job that holds a finding against what became current while its agent worked, and that candidate."""
    late, early = await place.branch(agent), await place.branch(agent)
    now = await reviewer.record(place.namespace, BASELINE, KEY)
    await place.submit(agent, early, finding(KEY, secrets.token_hex(4), scope="team/build"), base=now.revision)
    await place.publication(agent, early)
    await place.submit(agent, late, finding(KEY, secrets.token_hex(4), scope="team/build"), base=now.revision)

    async def held():
        waiting = [job async for job in reviewer.jobs(place.namespace, state="awaiting_review")]
        return next((job for job in waiting if job.branch_id == late.branch_id), None)

    job = await eventually(held)
    (candidate,) = [found async for found in reviewer.candidates(place.namespace, job.name)]
    yield job, candidate
    if (await reviewer.job(place.namespace, job.job_id)).state == "awaiting_review":
        with contextlib.suppress(ConflictError):  # the test has, and that is only now being done
            await reviewer.review(place.namespace, job.name, [decision(candidate, "reject")])


def decision(candidate, action="accept", **members) -> DecisionRequest:
    seen = {
        "candidate_id": candidate.candidate_id,
        "content_hash": candidate.content_hash,
        "base_revision": candidate.canonical.revision if candidate.canonical else "0",
        "action": action,
    }
    return DecisionRequest(**{**seen, **members})


async def state_of(place, reviewer, job):
    return (await reviewer.job(place.namespace, job.job_id)).state


async def test_a_reviewer_sees_both_sides_with_their_sources(place, reviewer, conflict):
    job, candidate = conflict
    current = await reviewer.record(place.namespace, BASELINE, KEY)
    assert candidate.conflicting
    assert candidate.canonical == current
    assert candidate.content != current.content
    assert candidate.sources[0].status == "verified"
    assert candidate.source_locators[0].startswith("evidence:sha256:")
    assert job.conflicts == (candidate.candidate_id,)
    steps = await reviewer.transitions(place.namespace, job.name)
    assert steps[-1].to_state == "awaiting_review"


async def test_an_accepted_candidate_is_published_and_names_what_it_superseded(place, reviewer, conflict):
    job, candidate = conflict
    answer = await reviewer.review(place.namespace, job.job_id, [decision(candidate, reason="I tried it.")])
    (entry,) = answer.decisions
    assert (entry.reviewer, entry.action, entry.via, entry.reason) == (
        f"system:serviceaccount:{place.namespace}:reviewer",
        "accept",
        "http",
        "I tried it.",
    )
    assert await reviewer.reviews(place.namespace, job.job_id) == [entry]

    async def published():
        return await state_of(place, reviewer, job) == "published"

    await eventually(published)
    record = await reviewer.record(place.namespace, BASELINE, KEY)
    assert record.content == candidate.content
    assert record.supersedes == (candidate.canonical.revision,)
    with pytest.raises(ConflictError):
        await reviewer.review(place.namespace, job.job_id, [decision(candidate)])


async def test_an_agent_cannot_approve_its_own_finding_even_as_a_reviewer(place, conflict):
    job, candidate = conflict
    agent = await place.client("agent", "anabranch-agent")
    with pytest.raises(ForbiddenError) as caught:
        await agent.review(place.namespace, job.name, [decision(candidate)])
    assert caught.value.extra["grant"] == "consolidationjobs/review:update"


async def test_an_author_who_holds_the_grant_is_refused_as_the_author(place, reviewer):
    author = await place.client("author", "anabranch-agent", "anabranch-reviewer")
    place.baseline("manual")
    branch = await place.branch(author, baseline="manual")
    await place.submit(author, branch, finding("mine", 1))

    async def waits():
        return [job async for job in reviewer.jobs(place.namespace, baseline="manual", state="awaiting_review")]

    (job,) = await eventually(waits)
    (candidate,) = [found async for found in author.candidates(place.namespace, job.name)]
    with pytest.raises(ForbiddenError) as caught:
        await author.review(place.namespace, job.name, [decision(candidate)])
    assert caught.value.code == "SelfReview"
    assert await state_of(place, reviewer, job) == "awaiting_review"
    await reviewer.review(place.namespace, job.name, [decision(candidate, "reject")])


async def test_a_decision_on_what_is_not_there_any_more_is_refused_with_what_is(place, reviewer, conflict):
    job, candidate = conflict
    for stale in ({"content_hash": content_hash("other")}, {"base_revision": "0"}):
        with pytest.raises(ConflictError) as caught:
            await reviewer.review(place.namespace, job.name, [decision(candidate, **stale)])
        assert caught.value.code == "ReviewStale"
        assert caught.value.extra["content_hash"] == candidate.content_hash
        assert caught.value.extra["base_revision"] == candidate.canonical.revision
    assert await state_of(place, reviewer, job) == "awaiting_review"


async def test_of_several_decisions_all_are_recorded_or_none(place, reviewer, conflict):
    job, candidate = conflict
    absent = candidate.candidate_id[:-4] + "zzzz"
    with pytest.raises(NotFoundError):
        await reviewer.review(
            place.namespace, job.name, [decision(candidate), decision(candidate, candidate_id=absent)]
        )
    assert await state_of(place, reviewer, job) == "awaiting_review"
    (again,) = [found async for found in reviewer.candidates(place.namespace, job.name)]
    assert again.state == "waiting"


async def test_a_merge_becomes_a_candidate_which_another_reviewer_accepts(place, agent, reviewer, conflict):
    job, candidate = conflict
    second = await place.client("second", "anabranch-reviewer")
    text = MergeRequest(
        content="Both.",
        inputs=[candidate.candidate_id],
        base_revision=candidate.canonical.revision,
        with_record=True,
    )
    merge = await reviewer.merge(place.namespace, job.name, text)
    assert merge.author == f"system:serviceaccount:{place.namespace}:reviewer"
    assert (await reviewer.merge(place.namespace, job.name, text)).candidate_id == merge.candidate_id

    async def made():
        found = [one async for one in reviewer.candidates(place.namespace, job.name)]
        return next((one for one in found if one.candidate_id == merge.candidate_id), None)

    proposed = await eventually(made)
    assert (proposed.origin, proposed.inputs, proposed.content) == ("merge", (candidate.candidate_id,), "Both.")
    assert set(candidate.source_locators) | set(candidate.canonical.source_locators) < set(proposed.source_locators)
    assert [one.state for one in await reviewer.merges(place.namespace, job.name)] == ["made"]
    # It is for reviewers: the agent whose finding went into it sees that one alone.
    assert [one.candidate_id async for one in agent.candidates(place.namespace, job.name)] == [candidate.candidate_id]
    assert await agent.merges(place.namespace, job.name) == []
    with pytest.raises(ForbiddenError):
        await agent.merge(place.namespace, job.name, text)
    with pytest.raises(ForbiddenError):
        await agent.put_draft(place.namespace, job.name, "Mine.")
    with pytest.raises(ForbiddenError) as caught:
        await reviewer.review(place.namespace, job.name, [decision(proposed)])
    assert caught.value.code == "SelfReview"
    await second.review(place.namespace, job.name, [decision(proposed)])

    async def published():
        return await state_of(place, reviewer, job) == "published"

    await eventually(published)
    assert (await reviewer.record(place.namespace, BASELINE, KEY)).content == "Both."
    outcomes = {one.candidate_id: one.reason async for one in reviewer.candidates(place.namespace, job.name)}
    assert outcomes[candidate.candidate_id] == "Merged"


async def test_an_agent_reads_what_was_decided_on_its_own_findings(place, agent, other, reviewer, conflict):
    job, candidate = conflict
    assert await agent.reviews(place.namespace, job.name) == []
    await reviewer.review(place.namespace, job.name, [decision(candidate, "reject", reason="It is not so.")])
    (entry,) = await agent.reviews(place.namespace, job.name)
    assert (entry.candidate_id, entry.action, entry.reason) == (candidate.candidate_id, "reject", "It is not so.")
    with pytest.raises(NotFoundError):
        await other.reviews(place.namespace, job.name)


async def test_reviewers_read_the_evidence_that_a_finding_cites_and_no_other(place, agent, other, reviewer, conflict):
    job, candidate = conflict
    (cited,) = candidate.source_locators
    body, media_type = await reviewer.cited_evidence(place.namespace, job.name, cited)
    assert (len(body), media_type) == (8, "application/octet-stream")
    assert await agent.cited_evidence(place.namespace, job.name, cited) == (body, media_type)
    uncited = await agent.put_evidence(place.namespace, job.branch_id, b"a draft")
    for client, locator in ((reviewer, uncited), (agent, uncited), (other, cited), (reviewer, f"sha256:{'0' * 64}")):
        with pytest.raises(NotFoundError):
            await client.cited_evidence(place.namespace, job.name, locator)
    answer = await place.raw(reviewer, "GET", f"jobs/{job.name}/evidence/{cited.removeprefix('evidence:')}")
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["content-security-policy"] == "sandbox"


async def test_an_agent_sees_its_own_findings_and_no_others(place, agent, other, conflict):
    job, candidate = conflict
    for ref in (job.name, job.job_id):
        assert (await agent.job(place.namespace, ref)).job_id == job.job_id
    assert [found async for found in agent.candidates(place.namespace, job.name)] == [candidate]
    assert (await agent.transitions(place.namespace, job.name))[-1].to_state == "awaiting_review"
    assert job.name in [found.name async for found in agent.jobs(place.namespace)]
    assert [found async for found in other.jobs(place.namespace)] == []
    said = set()
    for ref in (job.name, job.job_id, "absent"):
        for path in ("", "/candidates", "/transitions", "/review"):
            said.add(told(await place.raw(other, "GET", f"jobs/{ref}{path}"), ref))
        answer = await place.raw(other, "POST", f"jobs/{ref}/review", json={"decisions": []})
        said.add(told(answer, ref))
    assert len(said) == 1
    assert '"status":404' in said.pop()


async def test_who_only_sees_candidates_may_not_decide(place, conflict):
    job, candidate = conflict
    looks = await place.client("looks", "get consolidationjobs/review")
    assert [found async for found in looks.candidates(place.namespace, job.name)] == [candidate]
    with pytest.raises(ForbiddenError) as caught:
        await looks.review(place.namespace, job.name, [decision(candidate)])
    assert caught.value.extra["grant"] == "consolidationjobs/review:update"


async def test_jobs_are_listed_by_state_and_by_baseline_in_pages(place, reviewer, conflict):
    job, _ = conflict
    waiting = [found.name async for found in reviewer.jobs(place.namespace, state="awaiting_review")]
    assert job.name in waiting
    published = [found.name async for found in reviewer.jobs(place.namespace, state="published", baseline=BASELINE)]
    assert job.name not in published
    assert published
    assert [found async for found in reviewer.jobs(place.namespace, baseline="absent")] == []
    every = [found.name async for found in reviewer.jobs(place.namespace)]
    read, cursor = [], ""
    while cursor is not None:
        page = (await place.raw(reviewer, "GET", f"jobs?limit=1{cursor and f'&cursor={cursor}'}")).json()
        read += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert read == every == sorted(every)
    with pytest.raises(InvalidInputError):
        await anext(reviewer.jobs(place.namespace, state="lost"))
