"""Merges: what one text of several findings takes over from them, who may decide on it, and what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from tests.store import test_recall_gate
from tests.store.branching import expire_leases
from tests.store.dying import DyingDatabase, KilledError
from tests.store.world import World, decisions

from anabranch.consolidation import gating, holding, merge_making, merging, review, reviewing, telling, work
from anabranch.consolidation.review import SelfReviewError
from anabranch.domain.facts import Fact
from anabranch.identity import Caller
from anabranch.model.canonical import canonical_bytes, hash_text, sha256
from anabranch.model.errors import ConflictError, NotFoundError, QuotaExceededError
from anabranch.model.requests import DecisionRequest
from anabranch.store import candidates, leases, lines, merges, records, reviews

TEXT = canonical_bytes("both are right")
SPEC = {"branchRef": {"namespace": "agents", "name": "run"}, "batches": {"from": 1, "through": 1}}


class Conflict:
    """A record `a`, at revision 1, and a waiting job with two findings for it that contradict it and each other."""

    def __init__(self, world, line, name):
        self.world = world
        self.line = line
        self.name = name

    async def job(self):
        return await self.world.job(self.name)

    async def rows(self):
        return await self.world.candidates(await self.job())

    async def findings(self):
        return [row for row in await self.rows() if row.origin == "finding"]

    async def propose(self, *, by="mia", body=TEXT, inputs=None, base=1, **options):
        named = [row.candidate_id for row in await self.findings()] if inputs is None else inputs
        return await merging.propose(
            self.world.db, job=await self.job(), author=by, body=body, inputs=named, base_revision=base, **options
        )

    async def merged(self, **options):
        """Propose a merge, have the operator make its candidate, and give that."""
        proposed = await self.propose(**options)
        await self.world.work()
        async with self.world.db.connection() as conn:
            return await candidates.get(conn, proposed.candidate_id)

    async def merge(self, candidate_id):
        jobs = await self.world.jobs()
        async with self.world.db.connection() as conn:
            pages = [await merges.page(conn, line=self.line, job_id=job.job_id, after="", limit=9) for job in jobs]
        (found,) = [row for page in pages for row in page if row.candidate_id == candidate_id]
        return found

    async def decide(self, *rows, by="ada", action="accept"):
        async with self.world.db.connection() as conn:
            seen = [await candidates.get(conn, row.candidate_id) for row in rows]
            _, holds = await gating.heard(conn, line=self.line, job_ids=[seen[0].job_id])
        hold = next((held.number for held in holds.values()), None)
        requests = [
            DecisionRequest(
                candidate_id=row.candidate_id,
                content_hash=hash_text(row.content_hash),
                base_revision=str(row.canonical_revision or 0),
                action=action,
                hold=hold,
            )
            for row in seen
        ]
        await review.decide(self.world.db, job=await self.job(), caller=Caller(by), decisions=requests)

    async def record(self, key="a"):
        async with self.world.db.connection() as conn:
            head = await lines.head(conn, self.line)
            found = await records.current_of(
                conn, line=self.line, generation=head.head_generation, keys=[key], bodies=True
            )
        return found[key]


async def conflict(db, *changes, **policy):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, review=policy)).line.line
    branch = await world.apply_branch("run")
    log, trace = await world.evidence(branch, "a log"), await world.evidence(branch, "a trace")
    made = changes or (
        {"key": "a", "content": "second", "sources": [log]},
        {"key": "a", "content": "third", "sources": [log, trace]},
    )
    await world.submit(branch, 1, *made)
    await world.work()
    (job,) = await world.jobs()
    return Conflict(world, line, job.name)


async def test_a_merge_takes_sources_and_runs_and_nothing_else_from_its_author(db):
    case = await conflict(db)
    first, second = await case.findings()

    made = await case.merged(with_record=True)

    assert (made.state, made.origin, made.author, made.model) == ("waiting", "merge", "mia", None)
    assert (made.op, made.key, made.scope, made.visibility) == ("put", "a", "shared", "shareable")
    assert made.inputs == tuple(sorted([first.candidate_id, second.candidate_id]))
    assert made.contributors == (first.author,)
    assert made.origin_runs == first.origin_runs
    imported = Fact.parse((await case.record()).fact_body).source_locators
    named = {source["locator"]: source["status"] for source in made.sources}
    expected = {source["locator"] for row in (first, second) for source in row.sources} | {"record:a@1", *imported}
    assert named == dict.fromkeys(expected, "verified")
    assert made.branch_id is None
    assert not made.conflicting


async def test_a_merge_is_shown_beside_the_record_from_the_moment_that_it_is_there(db):
    case = await conflict(db)
    await case.propose()
    await merge_making.make(case.world.services, await claimed(case))
    (made,) = [row for row in await case.rows() if row.origin == "merge"]
    assert (made.canonical_revision, made.canonical_hash) == (1, sha256(b'"first"'))


async def test_an_accepted_merge_replaces_the_record_and_ends_what_it_was_made_of(db):
    case = await conflict(db)
    made = await case.merged()

    await case.decide(made)
    await case.world.work()

    record = await case.record()
    fact = Fact.parse(record.fact_body)
    assert record.body == TEXT
    assert set(fact.source_locators) == {source["locator"] for source in made.sources}
    assert fact.supersedes == (1,)
    assert await case.world.outcomes() == {"a": [("published", ""), ("rejected", "Merged"), ("rejected", "Merged")]}
    assert (await case.job()).state == "published"
    assert [kind for kind, *_ in await case.world.events(case.line)] == ["superseded", "published"]
    await case.world.check_roots(case.line)


async def test_what_a_merge_was_made_of_stays_open_until_that(db):
    case = await conflict(db)
    made = await case.merged()
    first, second = await case.findings()
    assert (first.state, second.state) == ("waiting", "waiting")

    await case.decide(made, action="reject")
    await case.decide(first)
    await case.decide(second, action="reject")
    await case.world.work()

    assert (await case.record()).body == b'"second"'


async def test_a_finding_that_is_no_input_waits_on_beside_an_accepted_merge(db):
    case = await conflict(db)
    first, second = await case.findings()
    made = await case.merged(inputs=[first.candidate_id], with_record=True)

    await case.decide(made)
    await case.world.work()

    async with case.world.db.connection() as conn:
        kept = await candidates.get(conn, second.candidate_id)
    assert (kept.state, kept.job_id != made.job_id, kept.canonical_revision) == (
        "waiting",
        True,
        (await case.record()).revision,
    )


async def test_whoever_wrote_a_merge_or_part_of_it_does_not_decide_on_it(db):
    case = await conflict(db)
    made = await case.merged()
    for author in ("mia", made.contributors[0]):
        with pytest.raises(SelfReviewError):
            await case.decide(made, by=author)

    await case.world.apply_job(
        case.name,
        generation=2,
        reviews=[{"reviewer": name, "decisions": decisions([made])} for name in ("mia", made.contributors[0])],
        **SPEC,
    )
    await case.world.work()
    assert (await case.job()).state == "awaiting_review"


async def test_a_model_does_not_wash_a_finding_of_its_author(db):
    """An agent that may review must not accept what a model has made of its own findings."""
    case = await conflict(db)
    (agent,) = {row.author for row in await case.findings()}
    made = await case.merged(by="model:small", model="small")
    assert made.model == "small"
    with pytest.raises(SelfReviewError):
        await case.decide(made, by=agent)


async def test_the_same_again_is_the_same_merge_and_another_person_s_is_another(db):
    case = await conflict(db)
    first, again = await asyncio.gather(case.propose(), case.propose(), return_exceptions=True)
    again = again if not isinstance(again, ConflictError) else await case.propose()
    other = await case.propose(by="noa")
    assert first.candidate_id == again.candidate_id != other.candidate_id
    await case.world.work()
    assert (await case.propose()).candidate_id == first.candidate_id
    assert len(await case.rows()) == 4


async def test_a_merge_is_shown_to_no_more_people_than_its_inputs(db):
    case = await conflict(
        db,
        {"key": "k", "content": 1, "scope": "shared"},
        {"key": "k", "content": 2, "scope": "team/build", "base": 7},
    )
    made = await case.merged(base=0)
    assert made.scope == "team/build"


async def test_findings_for_two_teams_make_no_merge(db):
    case = await conflict(
        db, {"key": "k", "content": 1, "scope": "team/test"}, {"key": "k", "content": 2, "scope": "team/build"}
    )
    with pytest.raises(ConflictError, match="none of them is narrower"):
        await case.propose(base=0)


async def test_what_cannot_be_merged_is_refused_by_name(db):
    case = await conflict(
        db, {"key": "a", "content": 1}, {"key": "b", "content": 1}, {"key": "a", "op": "tombstone", "content": None}
    )
    put, other, removal = await case.findings()
    absent = f"{put.candidate_id[:-1]}{'1' if put.candidate_id.endswith('0') else '0'}"
    refused = [
        (NotFoundError, "has no candidate", {"inputs": [put.candidate_id, absent]}),
        (ConflictError, "for one key", {"inputs": [put.candidate_id, other.candidate_id]}),
        (ConflictError, "propos", {"inputs": [put.candidate_id, removal.candidate_id]}),
        (ConflictError, "two sides", {"inputs": [put.candidate_id]}),
        (NotFoundError, "no revision 9", {"inputs": [put.candidate_id], "with_record": True, "base": 9}),
    ]
    for error, words, options in refused:
        with pytest.raises(error, match=words):
            await case.propose(**options)
    await case.decide(*await case.findings(), action="reject")
    await case.world.work()
    with pytest.raises(ConflictError, match="does not wait"):
        await case.propose(inputs=[put.candidate_id], with_record=True)


async def test_a_summary_stands_beside_what_it_was_made_of(db):
    case = await conflict(db, {"key": "b", "content": 1}, {"key": "c", "content": 2})
    made = await case.merged(origin="summary", key="topics/bc", base=0, model="small", by="model:small")
    assert (made.key, made.origin) == ("topics/bc", "summary")

    await case.decide(made, *await case.findings())
    await case.world.work()

    assert set(await case.world.contents(case.line)) == {"a", "b", "c", "topics/bc"}


async def test_a_model_s_text_holds_up_nothing_that_reviewers_have_decided(db):
    case = await conflict(db, {"key": "b", "content": 1}, {"key": "c", "content": 2})
    await case.decide(*await case.findings())
    with pytest.raises(ConflictError, match="decided"):
        await case.propose(origin="summary", key="topics/bc", base=0, model="small", by="model:small")
    await case.world.work()
    assert set(await case.world.contents(case.line)) == {"a", "b", "c"}


async def claimed(case):
    async with case.world.db.connection() as conn:
        (job,) = (await leases.claim(conn, holder="somebody", limit=1)).jobs
    return job


@pytest.mark.parametrize("action", ["withdraw", "reject"])
async def test_what_went_into_a_merge_is_open_again_when_that_is_not_published(db, action):
    """A reviewer thinks better of it after it was accepted, and before it was published."""
    case = await conflict(db)
    made = await case.merged()
    await case.decide(made)
    step = await reviewing.review(case.world.services, await claimed(case))
    assert step.state == "publishing"
    assert {row.reason for row in await case.findings()} == {"Merged"}

    said = reviews.Decision(
        candidate_id=made.candidate_id,
        reviewer="ada",
        content_hash=made.content_hash,
        base_revision=1,
        action=action,
    )
    async with db.connection() as conn:
        await reviews.append(conn, line=case.line, job_id=made.job_id, decisions=[said])
    await work.advance(case.world.services, step)
    await case.world.work()

    found = [row for job in await case.world.jobs() for row in await case.world.candidates(job)]
    assert [row.state for row in found if row.origin == "finding"] == ["waiting", "waiting"]
    assert (await case.record()).revision == 1


@pytest.mark.parametrize("before", [True, False])
async def test_whoever_dies_over_a_merge_leaves_one_candidate_of_it(db, before):
    case = await conflict(db)
    await case.propose()
    dying = replace(case.world.services, db=DyingDatabase(db, at=2, before=before))
    job = await claimed(case)
    with pytest.raises(KilledError):
        await work.advance(dying, job)
    await expire_leases(db)
    await case.world.work()
    with contextlib.suppress(leases.FencedError):
        await work.advance(case.world.services, job)  # it was only paused, and comes back
    assert [row.origin for row in await case.rows()] == ["finding", "finding", "merge"]


@pytest.mark.parametrize("decided", [1, 2])
async def test_a_merge_that_comes_while_its_job_goes_on_is_lost_to_nobody(db, monkeypatch, decided):
    """It goes along with what it was made of; and where all of that is decided, its author is told."""
    case = await conflict(db)
    first, second = await case.findings()
    leave = holding.leave
    proposed = []

    async def propose_and_leave(*args, **options):
        if not proposed:
            proposed.append(await case.propose(inputs=[second.candidate_id], with_record=True))
        return await leave(*args, **options)

    monkeypatch.setattr(holding, "leave", propose_and_leave)
    await case.decide(first)
    if decided == 2:
        await case.decide(second, action="reject")
    await case.world.work()

    found = await case.merge(proposed[0].candidate_id)
    if decided == 2:
        assert (found.state, found.job_id) == ("void", second.job_id)
        assert "had been decided" in found.detail
    else:
        assert (found.state, found.job_id != second.job_id) == ("made", True)


async def test_a_merge_of_what_was_decided_meanwhile_is_void_and_says_why(db, monkeypatch):
    case = await conflict(db)
    first, second = await case.findings()
    proposed = await case.propose()
    async with db.connection() as conn:
        await conn.execute("UPDATE candidates SET state = 'rejected' WHERE candidate_id = $1", first.candidate_id)
    await case.world.work()
    found = await case.merge(proposed.candidate_id)
    assert found.state == "void"
    assert first.candidate_id in found.detail
    assert (await case.propose(inputs=[second.candidate_id], with_record=True)).state == "requested"


async def test_a_job_keeps_so_many_texts_and_the_same_one_once(db, monkeypatch):
    monkeypatch.setattr(merging, "JOB_DRAFTS", 2)
    case = await conflict(db)
    for number in (1, 2, 2):
        await merging.draft(db, job=await case.job(), author="mia", body=canonical_bytes(number))
    with pytest.raises(QuotaExceededError):
        await merging.draft(db, job=await case.job(), author="mia", body=canonical_bytes(3))
    await merging.draft(db, job=await case.job(), author="ada", body=canonical_bytes(3))


async def test_one_text_makes_so_many_merges_of_one_author(db, monkeypatch):
    monkeypatch.setattr(merging, "JOB_DRAFTS", 2)
    case = await conflict(db)
    for base in (1, 2, 2):
        await case.propose(base=base)
    with pytest.raises(QuotaExceededError):
        await case.propose(base=3)
    await case.propose(base=3, by="ada")


async def test_what_went_into_a_merge_of_a_merge_ends_with_it(db):
    case = await conflict(db)
    first = await case.merged()
    last = await case.merged(body=canonical_bytes("better"), inputs=[first.candidate_id], with_record=True)
    await case.decide(last)
    await case.world.work()
    assert (await case.record()).body == b'"better"'
    assert {row.reason for row in await case.rows() if row.candidate_id != last.candidate_id} == {"Merged"}
    assert len(await case.world.jobs()) == 1, "nothing is left to decide"


async def test_a_retraction_finds_a_merge_however_many_sources_it_has(db):
    findings = (
        {"key": "a", "content": one, "sources": [f"https://docs.example/{one}/{number}" for number in range(31)]}
        for one in range(9)
    )
    case = await conflict(db, *findings, requireSources=False)
    made = await case.merged(with_record=True)
    assert len(made.sources) == 256
    assert made.sources[0]["locator"] == "record:a@1"


async def test_an_agent_is_told_of_its_findings_and_not_of_what_others_make_of_them(db):
    case = await conflict(db, {"key": "a", "content": "second", "base": 9})
    made = await case.merged(with_record=True, base=1)
    (finding,) = await case.findings()
    assert telling.notices(await case.job(), [replace(made, conflicting=True), replace(made, state="rejected")]) == []
    (told,) = telling.notices(await case.job(), [replace(finding, state="rejected", reason="Merged")])
    assert told.details["findings"] == [{"candidate_id": finding.candidate_id, "key": "a", "reason": "Merged"}]


async def test_what_went_into_a_merge_that_costs_answers_is_open_again_with_it(db):
    world = await test_recall_gate.set_up(db, test_recall_gate.MANUAL)
    noise = test_recall_gate.NOISE
    job = await test_recall_gate.found_out(world, noise, noise | {"content": "exit code 137"})
    case = Conflict(world, world.line, job.name)
    made = await case.merged(body=canonical_bytes(noise["content"]), base=0)
    await case.decide(made)
    await world.work()
    async with db.connection() as conn:
        held = await candidates.get(conn, made.candidate_id)
    assert (held.state, held.reason) == ("waiting", "RecallRegressed")
    assert [(row.state, row.reason) for row in await case.findings()] == [("waiting", "MergeNotPublished")] * 2
    await case.decide(made)
    await world.work()
    assert (await case.record("noise")).body == canonical_bytes(noise["content"])
    assert {row.reason for row in await case.findings()} == {"Merged"}


async def test_what_people_made_of_an_import_is_not_taken_for_what_its_source_says(db):
    world = World(db)
    line = (await world.import_documents({"a": "first", "b": "first"})).line.line
    world.config_maps_of("facts", {"a": "second", "b": "first"})
    await world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}})
    await world.work()
    (job,) = await world.jobs()
    case = Conflict(world, line, job.name)
    made = await case.merged(with_record=True)
    async with db.connection() as conn:
        said = await candidates.import_changes(conn, line=line)
    assert made.origin == "merge"
    assert [change.content_hash for change in said] == [sha256(b'"second"')]


def claims(case, rows, *, body=TEXT, **changed):
    """A merge as a job's resource has it."""
    made = {"contentHash": hash_text(sha256(body)), "inputs": [row.candidate_id for row in rows], "baseRevision": "1"}
    return [made | changed]


async def applied(case, generation, **entries):
    merges_by = [{"reviewer": name, "decisions": [], "merges": found} for name, found in entries.items()]
    await case.world.apply_job(case.name, generation=generation, reviews=merges_by, **SPEC)
    await case.world.work()


@pytest.mark.parametrize("text_first", [True, False])
async def test_a_merge_in_a_resource_is_its_reviewer_s_and_waits_for_its_text(db, text_first):
    case = await conflict(db)
    claimed_ = claims(case, await case.findings(), withRecord=True)

    async def upload():
        await merging.draft(db, job=await case.job(), author="somebody's token", body=TEXT)
        await case.world.work()

    if text_first:
        await upload()
    await applied(case, 2, rosa=claimed_)
    if not text_first:
        assert len(await case.rows()) == 2
        await upload()
    for generation in (3, 4):
        await applied(case, generation, rosa=claimed_)  # read again, it is the same
    (made,) = [row for row in await case.rows() if row.origin == "merge"]
    assert (made.author, len(made.inputs), made.content_hash) == ("rosa", 2, sha256(TEXT))
    assert "record:a@1" in {source["locator"] for source in made.sources}


async def test_a_merge_in_an_unguarded_resource_counts_for_nothing(db):
    case = await conflict(db)
    await merging.draft(db, job=await case.job(), author="somebody's token", body=TEXT)
    case.world.guard.missing.append("the policy")
    await applied(case, 2, rosa=claims(case, await case.findings()))
    assert len(await case.rows()) == 2


async def test_a_void_merge_of_a_resource_stays_void_however_often_it_is_read(db):
    case = await conflict(db, {"key": "a", "content": 1}, {"key": "b", "content": 1})
    await merging.draft(db, job=await case.job(), author="somebody's token", body=TEXT)
    for generation in (2, 3):
        await applied(case, generation, rosa=claims(case, await case.findings()))
    async with db.connection() as conn:
        found = await merges.page(conn, line=case.line, job_id=(await case.job()).job_id, after="", limit=9)
    assert [row.state for row in found] == ["void"]
    assert "for one key" in found[0].detail
