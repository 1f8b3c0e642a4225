"""What becomes of findings: duplicates, sources, conflicts, what is held, and what a revoked grant keeps out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.store.world import AGENTS, AUTOMATIC, World, decisions

from anabranch.consolidation.sources import Found, SourceChecker, UnreachableSourceError
from anabranch.domain.facts import Fact
from anabranch.identity import grants
from anabranch.store import leases, records

pytestmark = pytest.mark.long

TEAM_BUILD = {"scope": "team/build"}


@pytest.fixture
async def world(db):
    return World(db)


async def started(world, **spec):
    """A line with three records, and a branch of it."""
    texts = {"a": "first", "b": "first", "c": "first"}
    line = (await world.import_documents(texts, **(AUTOMATIC | spec))).line.line
    return line, await world.apply_branch("run")


async def fact(world, line, key):
    async with world.db.connection() as conn:
        _, record = await records.read(conn, line=line, key=key, scopes=None)
    return Fact.parse(record.fact_body)


# ------------------------------------------------------------------------------------------------------ duplicates


async def test_the_same_finding_twice_is_one_with_both_sources(world):
    line, branch = await started(world)
    one, other = await world.evidence(branch, "one log"), await world.evidence(branch, "another log")

    await world.submit(
        branch,
        1,
        {"key": "new", "content": "found", "sources": [one]},
        {"key": "new", "content": "found", "sources": [other]},
    )
    await world.work()

    assert (await fact(world, line, "new")).source_locators == (one, other)
    assert (await fact(world, line, "new")).origin_runs == (branch.run_id,)
    assert (await world.outcomes())["new"] == [("duplicate", "ExactDuplicate"), ("published", "")]


async def test_of_equal_findings_the_one_that_knew_the_record_counts(world):
    line, branch = await started(world)

    await world.submit(branch, 1, {"key": "a", "content": "second"}, {"key": "a", "content": "second", "base": 1})
    await world.work()

    assert (await world.contents(line))["a"] == '"second"'


async def test_a_new_source_for_what_is_known_confirms_it_without_a_conflict(world):
    line, branch = await started(world)
    before = await fact(world, line, "a")

    await world.submit(branch, 1, {"key": "a", "content": "first"})
    await world.work()

    after = await fact(world, line, "a")
    assert after.source_locators == (*before.source_locators, await world.evidence(branch))
    assert await world.events(line) == [("published", "a", 2)]


async def test_nothing_new_publishes_nothing(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"key": "a", "content": "first"})
    await world.work()

    again = await world.apply_branch("again")
    locator = (await fact(world, line, "a")).source_locators[0]
    await world.submit(again, 1, {"key": "a", "content": "first", "sources": [locator]})
    await world.work()

    (job,) = [job for job in await world.jobs() if job.branch_id == again.branch_id]
    assert (job.state, job.reason, job.published_generation) == ("published", "NothingToPublish", None)
    assert job.counts["duplicates"] == 1
    publication = await world.submit(again, 1, {"key": "a", "content": "first", "sources": [locator]})
    assert (publication.ack, publication.published_baseline_id, publication.generation) == ("publication", None, None)
    assert (await world.state(line)).head.head_generation == 2


# --------------------------------------------------------------------------------------------------------- sources


async def test_a_finding_without_a_verified_source_is_refused_as_unsupported(world):
    line, branch = await started(world)
    other = await world.apply_branch("other")
    others = await world.evidence(other, "seen by the other only")

    await world.submit(
        branch,
        1,
        {"key": "none", "content": 1, "sources": []},
        {"key": "others", "content": 1, "sources": [others]},
        {"key": "absent", "content": 1, "sources": ["evidence:sha256:" + "0" * 64]},
        {"key": "posing", "content": 1, "sources": ["import:a.json@sha256:" + "0" * 64]},
        {"key": "checkpoint", "content": 1, "sources": ["checkpoint:c1"]},
    )
    await world.work()

    outcomes = await world.outcomes()
    assert set(outcomes) == {"none", "others", "absent", "posing", "checkpoint"}
    assert all(outcome == [("rejected", "Unsupported")] for outcome in outcomes.values())
    assert (await world.state(line)).head.head_generation == 1


async def test_another_branchs_evidence_and_absent_evidence_read_the_same(world):
    _, branch = await started(world)
    others = await world.evidence(await world.apply_branch("other"), "seen by the other only")

    await world.submit(branch, 1, {"key": "k", "content": 1, "sources": [others, "evidence:sha256:" + "0" * 64]})
    await world.work()

    (job,) = await world.jobs()
    (row,) = await world.candidates(job)
    one, other = row.sources
    assert (one["status"], one["detail"]) == (other["status"], other["detail"]) == ("unresolved", one["detail"])


async def test_a_record_supports_a_finding_of_an_agent_that_may_read_it(world):
    _, branch = await started(world)
    world.permissions.deny(grants.SCOPE_READ, account="blind")
    blind = await world.apply_branch("blind")

    cite = {"content": 1, "sources": ["record:a@1"]}
    await world.submit(branch, 1, {"key": "seen", **cite}, {"key": "never", "content": 1, "sources": ["record:a@7"]})
    await world.submit(blind, 1, {"key": "unseen", **cite})
    await world.work()

    outcomes = await world.outcomes()
    assert outcomes["seen"] == [("published", "")]
    assert outcomes["never"] == outcomes["unseen"] == [("rejected", "Unsupported")]


async def test_a_fact_cites_only_what_was_verified_where_sources_are_required(world):
    line, branch = await started(world)
    good, bad = await world.evidence(branch), "evidence:sha256:" + "0" * 64

    await world.submit(branch, 1, {"key": "k", "content": 1, "sources": [bad, good]})
    await world.work()

    assert (await fact(world, line, "k")).source_locators == (good,)


async def test_a_fact_keeps_what_its_author_named_where_sources_are_not_required(world):
    line, branch = await started(world, review={"mode": "Automatic", "requireSources": False})
    bad = "evidence:sha256:" + "0" * 64

    await world.submit(branch, 1, {"key": "k", "content": 1, "sources": [bad]})
    await world.work()
    (held,) = [job for job in await world.jobs() if job.state == "awaiting_review"]  # nobody else could vouch for it
    await world.decide(held.job_id)
    await world.work()

    assert (await fact(world, line, "k")).source_locators == (bad,)


async def test_a_source_that_cannot_be_asked_is_tried_again_and_at_last_counts_as_not_verified(db):
    asked = []

    async def unreachable(citation, locator):
        asked.append(locator.text)
        raise UnreachableSourceError("The host is away.", hint="It is tried again.")

    world = World(db, sources=SourceChecker({"https": unreachable}))
    _, branch = await started(world)
    await world.submit(branch, 1, {"key": "k", "content": 1, "sources": ["https://example.org/k"]})

    for attempt in range(5):
        with pytest.raises(UnreachableSourceError):
            await world.work_once()
        (job,) = await world.jobs()
        assert (job.state, job.attempt) == ("validating", attempt)
        async with db.connection() as conn:  # as the worker does
            await leases.fail(conn, job=job, error="The host is away.", retry_in=timedelta())
    await world.work()

    assert await world.outcomes() == {"k": [("rejected", "Unsupported")]}
    assert len(asked) == 6


async def test_each_locator_of_a_job_is_looked_up_once(db):
    asked = []

    async def resolve(citation, locator):
        asked.append(locator.text)
        return Found(verified=True)

    world = World(db, sources=SourceChecker({"https": resolve}))
    _, branch = await started(world)
    source = {"sources": ["https://example.org/page"]}
    await world.submit(branch, 1, {"key": "k", "content": 1, **source}, {"key": "l", "content": 1, **source})
    await world.work()

    assert asked == ["https://example.org/page"]


# ------------------------------------------------------------------------------------------------ conflicts, holding


async def test_a_conflict_holds_nothing_else_up_and_later_batches_go_on(world):
    line, branch = await started(world)

    await world.submit(branch, 1, {"key": "a", "content": "mine"}, {"key": "x", "content": 1})
    await world.work()
    await world.submit(branch, 2, {"key": "y", "content": 1})
    await world.work()

    assert {"x", "y"} <= (await world.contents(line)).keys()
    origin, held, later = sorted(await world.jobs(), key=lambda job: job.created_at)
    assert (origin.held_job, held.held_from, held.origin) == (held.name, origin.job_id, "Held")
    assert (origin.counts["received"], origin.counts["held"], origin.counts["accepted"]) == (2, 1, 1)
    assert held.counts == {
        "received": 1, "duplicates": 0, "accepted": 0, "rejected": 0, "conflicting": 1, "held": 0,
    }  # fmt: skip
    assert later.state == "published"


async def test_a_later_finding_of_the_run_for_a_held_key_is_held_too(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"key": "a", "content": "mine"})
    await world.work()

    await world.submit(branch, 2, {"key": "a", "content": "mine, mended", "base": 1})
    await world.work()

    assert (await world.contents(line))["a"] == '"first"'
    assert (await world.outcomes())["a"] == [("waiting", "KeyExists"), ("waiting", "KeyHeld")]


async def test_how_batches_are_cut_into_jobs_does_not_matter(world):
    line, branch = await started(world)
    changes = [{"key": "a", "content": text, "base": 1} for text in ("second", "third")]

    together = await world.apply_branch("together", baseline="facts")
    await world.submit(together, 1, *changes)
    await world.work()
    once = (await world.contents(line))["a"], (await world.outcomes())["a"]

    other = (await world.import_documents({"a": "first"}, name="other", **AUTOMATIC)).line.line
    apart = await world.apply_branch("apart", baseline="other")
    for sequence, change in enumerate(changes, start=1):
        await world.submit(apart, sequence, change)
        await world.work()

    assert once == ('"second"', [("published", ""), ("waiting", "BaseRevisionSuperseded")])
    assert (await world.contents(other))["a"] == '"second"'
    assert branch.phase == "Active"


async def test_findings_wait_in_manual_mode_until_somebody_decides(world):
    line, branch = await started(world, review={})
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()

    (job,) = await world.jobs()
    assert (job.state, job.due_at, job.holder) == ("awaiting_review", None, None)
    assert await world.outcomes() == {"k": [("waiting", "ReviewRequired")]}
    assert (await world.state(line)).head.head_generation == 1


async def test_findings_of_agents_that_the_policy_does_not_trust_wait_in_automatic_mode(world):
    trusted = {"mode": "Automatic", "autoAccept": {"agents": [f"{AGENTS}/trusted", "other"]}}
    line = (await world.import_documents({"a": "first"}, review=trusted)).line.line
    for name in ("trusted", "other"):  # "other" alone would be one of the Baseline's own namespace
        await world.submit(await world.apply_branch(name), 1, {"key": f"by-{name}", "content": 1})
    await world.work()

    assert await world.outcomes() == {
        "by-trusted": [("published", "")],
        "by-other": [("waiting", "AgentNotAutomatic")],
    }
    assert "by-trusted" in await world.contents(line)


async def test_a_deletion_is_reviewed_and_then_announced(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"op": "tombstone", "key": "a", "base": 1})
    await world.work()
    assert await world.outcomes() == {"a": [("waiting", "DeletionProposed")]}

    await accept_all(world)

    assert "a" not in await world.contents(line)
    assert await world.events(line) == [("tombstone", "a", 2)]
    await world.check_roots(line)


async def test_a_key_that_changes_scope_is_reviewed_and_the_old_scope_learns_of_it(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"key": "a", "content": "second", "base": 1, **TEAM_BUILD})
    await world.work()
    assert await world.outcomes() == {"a": [("waiting", "ScopeChange")]}

    await accept_all(world)

    assert await world.events(line) == [("superseded", "a", 1), ("published", "a", 2)]


async def accept_all(world, reviewer="ada", action="accept"):
    """Accept whatever waits, through the resources of the jobs."""
    for job in await world.jobs():
        waiting = [row for row in await world.candidates(job) if row.state == "waiting"]
        if waiting:
            await world.apply_job(
                job.name,
                generation=job.observed_generation + 1,
                uid=job.uid or "",
                origin=job.origin,
                **({} if job.branch_id is None else {"branchRef": {"namespace": "agents", "name": "run"}}),
                **(
                    {"batches": {"from": job.from_sequence, "through": job.through_sequence}}
                    if job.from_sequence
                    else {}
                ),
                reviews=[{"reviewer": reviewer, "decisions": decisions(waiting, action)}],
            )
    await world.work()


# ---------------------------------------------------------------------------------------------------------- grants


async def test_a_grant_that_is_revoked_before_publication_keeps_the_finding_out(world):
    line, branch = await started(world, review={})
    await world.submit(branch, 1, {"key": "k", "content": 1}, {"key": "l", "content": 1, **TEAM_BUILD})
    await world.work()
    world.permissions.deny(grants.SCOPE_WRITE, name="team/build")

    await accept_all(world)

    assert await world.outcomes() == {"k": [("published", "")], "l": [("rejected", "GrantRevoked")]}
    assert "l" not in await world.contents(line)


async def test_who_may_not_write_in_a_records_scope_cannot_take_it_out_of_there(world):
    line, branch = await started(world)
    world.permissions.deny(grants.SCOPE_WRITE, name="shared")
    await world.submit(branch, 1, {"key": "a", "content": "taken", "base": 1, **TEAM_BUILD})
    await world.work()

    await accept_all(world)

    assert await world.outcomes() == {"a": [("rejected", "GrantRevoked")]}
    assert (await world.contents(line))["a"] == '"first"'


async def test_a_deletion_needs_its_verb_when_it_is_published(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"op": "tombstone", "key": "a", "base": 1})
    await world.work()
    world.permissions.deny(grants.SCOPE_TOMBSTONE)

    await accept_all(world)

    assert await world.outcomes() == {"a": [("rejected", "GrantRevoked")]}
    assert "a" in await world.contents(line)


@pytest.mark.parametrize(
    ("policy", "denied", "outcome"),
    [
        ({"exportPrivate": True}, False, ("published", "")),
        ({"exportPrivate": True}, True, ("rejected", "ExportNotGranted")),
        ({"exportPrivate": False}, False, ("rejected", "ExportNotPermitted")),
        ({"exportPrivate": True, "scopes": ["team/build"]}, False, ("rejected", "ScopeNotShared")),
    ],
)
async def test_a_private_change_leaves_only_by_policy_and_by_grant(world, policy, denied, outcome):
    line, _ = await started(world)
    branch = await world.apply_branch("exporting", sharingPolicy=policy)
    if denied:
        world.permissions.deny(grants.SCOPE_EXPORT)
    await world.submit(branch, 1, {"key": "k", "content": "mine", "visibility": "private"})
    await world.work()

    assert await world.outcomes() == {"k": [outcome]}
    async with world.db.connection() as conn:
        copies = await conn.fetchval("SELECT count(*) FROM contents WHERE line = $1 AND body = $2", line, b'"mine"')
    assert copies == (outcome[0] == "published")


# ------------------------------------------------------------------------------------------- pause, limits, the head


async def test_a_paused_line_publishes_nothing_and_goes_on_afterwards(world):
    line, branch = await started(world)
    source = {"import": {"configMap": {"name": "facts"}}, **AUTOMATIC}
    await world.apply_baseline(generation=2, suspend=True, **source)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    await world.work()
    assert (await world.state(line)).head.head_generation == 1
    assert await world.conditions(line) == {"ConsolidationPaused": "Suspended"}

    await world.apply_baseline(generation=3, **source)
    await world.work()

    assert "k" in await world.contents(line)
    assert await world.conditions(line) == {}


async def test_a_line_that_is_paused_while_a_job_publishes_lets_go_of_it(world):
    line, branch = await started(world)
    await world.submit(branch, 1, {"key": "k", "content": 1})
    ask = world.permissions.allowed

    async def paused_meanwhile(*args, **kwargs):  # grants are asked after the plan began, before the lock
        async with world.db.connection() as conn:
            await conn.execute("UPDATE line_heads SET suspended = true")
        return await ask(*args, **kwargs)

    world.permissions.allowed = paused_meanwhile
    await world.work()

    (job,) = await world.jobs()
    assert (job.state, job.holder) == ("publishing", None)
    assert (await world.state(line)).head.head_generation == 1
    world.permissions.allowed = ask
    async with world.db.connection() as conn:
        await conn.execute("UPDATE line_heads SET suspended = false")
    await world.work()
    assert "k" in await world.contents(line)


async def test_a_publication_that_was_overtaken_plans_again_and_returns_what_moved(world):
    line, branch = await started(world)
    rival = await world.apply_branch("rival")
    await world.submit(
        branch, 1, {"key": "a", "content": "mine", "base": 1}, {"key": "b", "content": "mine", "base": 1}
    )
    ask, overtaken = world.permissions.allowed, []

    async def overtake(*args, **kwargs):
        if not overtaken:
            overtaken.append(True)
            await world.submit(rival, 1, {"key": "a", "content": "theirs", "base": 1})
            await world.work(services=world.another_operator())
        return await ask(*args, **kwargs)

    world.permissions.allowed = overtake
    await world.work()

    assert (await world.contents(line)) == {"a": '"theirs"', "b": '"mine"', "c": '"first"'}
    assert (await world.outcomes())["a"] == [("published", ""), ("waiting", "BaseRevisionSuperseded")]
    held = [job for job in await world.jobs() if job.origin == "Held"]
    assert [(job.state, job.branch_id) for job in held] == [("awaiting_review", branch.branch_id)]
    await world.check_roots(line)


async def test_a_job_whose_records_all_moved_waits_for_a_review_again(world):
    line, branch = await started(world, review={})
    rival = await world.apply_branch("rival")
    await world.submit(branch, 1, {"key": "a", "content": "mine", "base": 1})
    await world.work()
    (job,) = await world.jobs()
    ask, overtaken = world.permissions.allowed, []

    async def overtake(*args, **kwargs):
        if not overtaken:
            overtaken.append(True)
            await world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}, **AUTOMATIC})
            await world.submit(rival, 1, {"key": "a", "content": "theirs", "base": 1})
            await world.work(services=world.another_operator())
        return await ask(*args, **kwargs)

    world.permissions.allowed = overtake
    await accept_all(world)

    job = await world.job(job.name)
    assert (job.state, job.published_generation, job.held_job) == ("awaiting_review", None, None)
    assert (await world.contents(line))["a"] == '"theirs"'
    (row,) = await world.candidates(job)
    assert (row.state, row.conflicting, row.canonical_revision) == ("waiting", True, 2)


async def test_a_baseline_refuses_what_is_beyond_its_own_limits(world):
    line, branch = await started(world, limits={"records": 4, "scopes": 1})

    await world.submit(
        branch, 1, {"key": "x", "content": 1}, {"key": "y", "content": 1}, {"key": "a", "content": 2, "base": 1}
    )
    await world.submit(branch, 2, {"key": "b", "content": 2, "base": 1, **TEAM_BUILD})
    await world.work()
    await accept_all(world)

    outcomes = await world.outcomes()
    assert outcomes["x"] == outcomes["a"] == [("published", "")]
    assert outcomes["y"] == [("rejected", "RecordLimit")]
    assert outcomes["b"] == [("rejected", "ScopeLimit")]
    assert len(await world.contents(line)) == 4


async def test_several_batches_that_came_together_are_one_job_and_one_generation(world):
    line, branch = await started(world)
    for sequence in (3, 1, 2):
        await world.submit(branch, sequence, {"key": f"k{sequence}", "content": sequence})
    await world.work()

    (job,) = await world.jobs()
    assert (job.from_sequence, job.through_sequence, job.published_generation) == (1, 3, 2)
    assert {"k1", "k2", "k3"} <= (await world.contents(line)).keys()


async def test_a_batch_waits_for_those_before_it(world):
    line, branch = await started(world)
    await world.submit(branch, 2, {"key": "later", "content": 1})
    await world.work()
    assert await world.jobs() == []

    await world.submit(branch, 1, {"key": "sooner", "content": 1})
    await world.work()

    assert {"sooner", "later"} <= (await world.contents(line)).keys()
