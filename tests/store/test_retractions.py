"""Retractions: what is withdrawn, what is marked, and that nothing derived goes unmarked, whatever comes in between."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from tests.store.branching import expire_leases
from tests.store.dying import DyingDatabase, KilledError
from tests.store.world import AUTOMATIC, World

from anabranch.consolidation import retracting, withdrawing, work
from anabranch.consolidation.review import SelfReviewError
from anabranch.domain.facts import Fact
from anabranch.identity import Caller
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.model.requests import RetractionRequest
from anabranch.store import jobs, leases, lines, publish, records, restoring

pytestmark = pytest.mark.long


class Poisoned:
    """A line with a poisoned finding, `poison`, that `one` was derived from, and `two` from that; `clean` was not."""

    def __init__(self, world, line, branch):
        self.world = world
        self.line = line
        self.branch = branch
        self.sequence = 0

    async def publish(self, key, content, *sources, base=0, scope="shared"):
        """A finding that cites versions of records, accepted by policy; its revision."""
        self.sequence += 1
        change = {"key": key, "content": content, "base": base, "scope": scope}
        if sources:
            change["sources"] = list(sources)
        await self.world.submit(self.branch, self.sequence, change)
        await self.world.work()
        return (await self.at_head(key)).revision

    async def at_head(self, *keys):
        async with self.world.db.connection() as conn:
            head = await lines.head(conn, self.line)
            found = await records.current_of(
                conn, line=self.line, generation=head.head_generation, keys=keys, bodies=True
            )
        return found[keys[0]] if len(keys) == 1 else found

    async def marks(self):
        """The live records that are marked, each with its sources that are withdrawn."""
        async with self.world.db.connection() as conn:
            head = await lines.head(conn, self.line)
            page = await records.page(conn, line=self.line, generation=head.head_generation, limit=1000, scopes=None)
        facts = {record.key: Fact.parse(record.fact_body) for record in page.records}
        return {key: fact.retracted_sources for key, fact in facts.items() if fact.state == "sourceRetracted"}

    async def retract(self, **options):
        """Retract the poisoned finding, and have everything accepted."""
        asked = await self.world.retract(self.line, "poison", **options)
        await self.world.decide(asked.job_id)
        await self.world.work()
        return await self.world.retraction(asked)


async def poisoned(db, *, name="facts", **spec):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, name=name, **(AUTOMATIC | spec))).line.line
    found = Poisoned(world, line, await world.apply_branch(f"run-{name}", baseline=name))
    found.poison = await found.publish("poison", "drink it")
    found.one = await found.publish("one", "it is safe", f"record:poison@{found.poison}")
    found.two = await found.publish("two", "serve it", f"record:one@{found.one}")
    await found.publish("clean", "water is wet", "record:a@1")
    return found


async def test_one_generation_withdraws_a_record_and_marks_all_that_was_derived_from_it(db):
    facts = await poisoned(db)
    before = await facts.world.events(facts.line)
    generation = (await facts.world.state(facts.line)).head.head_generation

    done = await facts.retract()

    assert (done.state, done.generation) == ("published", generation + 1)
    assert (await facts.at_head("poison")).tombstone
    assert await facts.marks() == {
        "one": (f"record:poison@{facts.poison}",),
        "two": (f"record:one@{facts.one}",),
    }
    told = (await facts.world.events(facts.line))[len(before) :]
    revision = (await facts.at_head("poison")).revision
    assert told == [("tombstone", "poison", revision), ("published", "one", revision), ("published", "two", revision)]
    assert await facts.world.check_roots(facts.line) == generation + 1


async def test_a_mark_leaves_what_a_record_says_and_where_it_comes_from(db):
    facts = await poisoned(db)
    before = await facts.at_head("one")
    await facts.retract()
    after = await facts.at_head("one")
    assert (after.body, after.scope) == (before.body, before.scope)
    was, now = Fact.parse(before.fact_body), Fact.parse(after.fact_body)
    assert (now.source_locators, now.origin_runs, now.validated_at) == (
        was.source_locators,
        was.origin_runs,
        was.validated_at,
    )


async def test_a_retraction_waits_for_reviewers_whatever_the_policy(db):
    facts = await poisoned(db)
    before = await facts.world.contents(facts.line)
    asked = await facts.world.retract(facts.line, "poison")
    job = await facts.world.job(next(job.name for job in await facts.world.jobs() if job.origin == "Retraction"))
    assert (asked.state, asked.job_id, job.state) == ("proposed", job.job_id, "awaiting_review")
    rows = {row.key: (row.op, row.mark, row.reason) for row in await facts.world.candidates(job)}
    assert rows == {
        "poison": ("tombstone", None, "DeletionProposed"),
        "one": ("put", "sourceRetracted", "SourceRetracted"),
        "two": ("put", "sourceRetracted", "SourceRetracted"),
    }
    assert await facts.world.contents(facts.line) == before
    assert await facts.marks() == {}


async def test_who_asks_for_a_retraction_does_not_decide_on_it(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    with pytest.raises(SelfReviewError):
        await facts.world.decide(asked.job_id, by="eve")


async def test_a_rejected_retraction_changes_nothing(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    await facts.world.decide(asked.job_id, "reject")
    await facts.world.work()
    assert (await facts.world.retraction(asked)).state == "rejected"
    assert not (await facts.at_head("poison")).tombstone
    assert await facts.marks() == {}


async def test_nothing_is_marked_if_reviewers_keep_the_record(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    await facts.world.decide(asked.job_id, keys=["one", "two"])
    await facts.world.decide(asked.job_id, "reject", keys=["poison"])
    await facts.world.work()
    assert (await facts.world.retraction(asked)).state == "rejected"
    assert await facts.marks() == {}


async def test_a_mark_that_reviewers_reject_is_not_put(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    await facts.world.decide(asked.job_id, keys=["poison", "one"])
    await facts.world.decide(asked.job_id, "reject", keys=["two"])
    await facts.world.work()
    assert (await facts.world.retraction(asked)).state == "published"
    assert list(await facts.marks()) == ["one"]


async def test_what_is_derived_while_reviewers_decide_is_marked_along(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    late = f"record:two@{facts.two}"
    await facts.publish("three", "serve it cold", late)
    await facts.world.decide(asked.job_id)
    await facts.world.work()
    assert (await facts.marks())["three"] == (late,)
    rows = await facts.world.candidates(await facts.world.job(await name_of(facts, asked)))
    assert ("three", "sourceRetracted", "published") in {(row.key, row.mark, row.state) for row in rows}
    await facts.world.check_roots(facts.line)


async def test_what_is_derived_between_the_plan_and_the_lock_is_marked_along(db, monkeypatch):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    late = f"record:two@{facts.two}"
    prepare, others = publish.prepare, World(db)

    async def overtaken(conn, **options):
        prepared = await prepare(conn, **options)
        monkeypatch.setattr(publish, "prepare", prepare)
        await others.submit(facts.branch, facts.sequence + 1, {"key": "three", "content": "late", "sources": [late]})
        await others.work()
        return prepared

    await facts.world.decide(asked.job_id)
    monkeypatch.setattr(publish, "prepare", overtaken)
    await facts.world.work()
    assert (await facts.marks())["three"] == (late,)


async def test_what_is_derived_between_completion_and_the_head_is_marked_along(db, monkeypatch):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    late = f"record:two@{facts.two}"
    complete, others = withdrawing.complete, World(db)

    async def overtaken(conn, job, rows):
        completed = await complete(conn, job, rows)
        if job.origin == "Retraction":
            monkeypatch.setattr(withdrawing, "complete", complete)
            await others.submit(
                facts.branch, facts.sequence + 1, {"key": "three", "content": "late", "sources": [late]}
            )
            await others.work()
        return completed

    await facts.world.decide(asked.job_id)
    monkeypatch.setattr(withdrawing, "complete", overtaken)
    await facts.world.work()
    assert (await facts.marks())["three"] == (late,)


async def test_a_record_that_is_written_anew_meanwhile_is_withdrawn_all_the_same(db, monkeypatch):
    facts = await poisoned(db)
    other = await facts.world.apply_branch("other")
    asked = await facts.world.retract(facts.line, "poison")
    prepare, others = publish.prepare, World(db)

    async def overtaken(conn, **options):
        prepared = await prepare(conn, **options)
        monkeypatch.setattr(publish, "prepare", prepare)
        further = {"sources": ["record:a@1"]}
        await others.submit(other, 1, {"key": "poison", "content": "drink it", "base": facts.poison} | further)
        await others.submit(other, 2, {"key": "one", "content": "it is safe", "base": facts.one} | further)
        await others.work()
        return prepared

    await facts.world.decide(asked.job_id)
    monkeypatch.setattr(publish, "prepare", overtaken)
    await facts.world.work()
    assert (await facts.at_head("poison")).tombstone
    assert set(await facts.marks()) == {"one", "two"}


async def test_a_record_that_says_something_else_by_now_stays_and_what_was_derived_before_is_marked(db):
    facts = await poisoned(db)
    await facts.publish("poison", "do not drink it", base=facts.poison)
    assert (await facts.retract(revision=facts.poison)).state == "published"
    assert (await facts.at_head("poison")).body == b'"do not drink it"'
    assert set(await facts.marks()) == {"one", "two"}


async def test_what_was_replaced_by_something_of_its_own_is_not_marked_but_what_was_derived_before_is(db):
    facts = await poisoned(db)
    await facts.publish("one", "it is deadly", base=facts.one)
    await facts.retract()
    assert await facts.marks() == {"two": (f"record:one@{facts.one}",)}


async def test_a_finding_that_cites_what_was_withdrawn_is_refused_as_unsupported(db):
    facts = await poisoned(db)
    await facts.retract()
    facts.sequence += 1
    change = {"key": "late", "content": "it tastes good", "sources": [f"record:poison@{facts.poison}"]}
    await facts.world.submit(facts.branch, facts.sequence, change)
    await facts.world.work()
    assert (await facts.world.outcomes())["late"] == [("rejected", "Unsupported")]


async def test_a_finding_that_was_derived_from_what_was_withdrawn_is_marked_as_it_is_published(db):
    facts = await poisoned(db)
    await facts.retract()
    marked = (await facts.at_head("one")).revision
    for key, revision in (("of-the-old", facts.one), ("of-the-marked", marked)):
        await facts.publish(key, "derived late", f"record:one@{revision}")
        assert (await facts.marks())[key] == (f"record:one@{revision}",)


async def test_a_finding_that_waited_while_its_source_was_withdrawn_is_marked_as_it_is_published(db):
    facts = await poisoned(db)
    other = await facts.world.apply_branch("other")
    source = f"record:poison@{facts.poison}"
    # A conflict waits, its source verified.
    await facts.world.submit(other, 1, {"key": "a", "content": "other", "sources": [source]})
    await facts.world.work()
    await facts.retract()
    (held,) = [job for job in await facts.world.jobs() if job.state == "awaiting_review"]
    await facts.world.decide(held.job_id)
    await facts.world.work()
    assert (await facts.marks())["a"] == (source,)


async def test_a_source_that_is_cited_unverified_is_marked_too(db):
    facts = await poisoned(db, review={"mode": "Automatic", "requireSources": False})
    await facts.retract()
    source = f"record:poison@{facts.poison}"
    facts.sequence += 1
    await facts.world.submit(
        facts.branch, facts.sequence, {"key": "late", "content": "it tastes good", "sources": [source]}
    )
    await facts.world.work()
    (held,) = [job for job in await facts.world.jobs() if job.state == "awaiting_review"]
    await facts.world.decide(held.job_id)
    await facts.world.work()
    assert (await facts.marks())["late"] == (source,)


async def test_who_says_again_what_was_withdrawn_waits_for_a_review_which_may_reinstate_it(db):
    facts = await poisoned(db)
    done = await facts.retract()
    gone = (await facts.at_head("poison")).revision
    facts.sequence += 1
    await facts.world.submit(facts.branch, facts.sequence, {"key": "poison", "content": "drink it", "base": gone})
    await facts.world.work()
    (held,) = [job for job in await facts.world.jobs() if job.state == "awaiting_review"]
    assert {row.reason for row in await facts.world.candidates(held)} == {"Retracted"}
    await facts.world.decide(held.job_id)
    await facts.world.work()
    assert (await facts.world.retraction(done)).state == "reinstated"
    again = (await facts.at_head("poison")).revision
    await facts.publish("late", "it is fine", f"record:poison@{again}")
    assert "late" not in await facts.marks()


async def test_a_new_finding_takes_the_place_of_a_marked_record_without_the_mark(db):
    facts = await poisoned(db)
    await facts.retract()
    await facts.publish("one", "measured anew", base=(await facts.at_head("one")).revision)
    assert set(await facts.marks()) == {"two"}


async def test_a_further_source_of_the_same_leaves_the_mark(db):
    facts = await poisoned(db)
    await facts.retract()
    await facts.publish("one", "it is safe", "record:a@1", base=(await facts.at_head("one")).revision)
    assert set(await facts.marks()) == {"one", "two"}


async def test_asking_twice_is_asking_once_until_it_is_decided(db):
    facts = await poisoned(db)
    first = await facts.world.retract(facts.line, "poison")
    again = await facts.world.retract(facts.line, "poison", revision=facts.poison, by="mallory")
    assert again == first
    assert len([job for job in await facts.world.jobs() if job.origin == "Retraction"]) == 1


async def test_operators_that_propose_at_the_same_moment_make_one_job(db):
    facts = await poisoned(db)
    asked = await ask(facts)
    each = {"line": facts.line, "retraction_id": asked.retraction_id}
    await asyncio.gather(*(retracting.propose(db, **each) for _ in range(4)))
    assert [job.origin for job in await facts.world.jobs()].count("Retraction") == 1


async def test_a_retraction_that_cannot_be_proposed_keeps_no_other_back(db, monkeypatch):
    first, second = await poisoned(db, name="first"), await poisoned(db, name="second")
    waits, goes_on = await ask(first), await ask(second)
    propose = retracting.propose

    async def fail(db, *, line, retraction_id):
        if retraction_id == waits.retraction_id:
            raise ValueError("a defect")
        await propose(db, line=line, retraction_id=retraction_id)

    monkeypatch.setattr(retracting, "propose", fail)
    assert not await retracting.turn(db)
    assert (await second.world.retraction(goes_on)).state == "proposed"
    assert (await first.world.retraction(waits)).state == "requested"
    monkeypatch.undo()
    await retracting.turn(db)
    assert (await first.world.retraction(waits)).state == "proposed"


async def test_a_retraction_of_which_nothing_is_left_is_void(db):
    facts = await poisoned(db)
    for key in ("two", "one", "poison"):
        await facts.publish(key, "all anew", base=(await facts.at_head(key)).revision)
    asked = await facts.world.retract(facts.line, "poison", revision=facts.poison)
    assert (asked.state, asked.job_id, asked.detail) == ("void", None, "nothing of it is in the baseline any more")


async def test_a_retraction_of_which_nothing_is_left_once_it_is_reviewed_is_void(db):
    facts = await poisoned(db)
    asked = await facts.world.retract(facts.line, "poison")
    for key in ("two", "one", "poison"):
        await facts.publish(key, "all anew", base=(await facts.at_head(key)).revision)
    await facts.world.decide(asked.job_id)
    await facts.world.work()
    assert (await facts.world.retraction(asked)).state == "void"


async def test_a_deleted_record_is_retracted_by_the_revision_that_said_it(db):
    facts = await poisoned(db)
    await facts.retract()
    with pytest.raises(ConflictError, match="deleted"):
        await facts.world.retract(facts.line, "poison")


async def test_nobody_asks_for_what_they_may_not_read(db):
    facts = await poisoned(db)
    with pytest.raises(NotFoundError):
        await ask(facts, scopes=["other"])
    with pytest.raises(NotFoundError):
        await ask(facts, scopes=["other"], revision=str(facts.poison))


async def test_a_restore_brings_the_poison_back_and_it_can_be_retracted_again(db):
    facts = await poisoned(db)
    before = (await facts.world.state(facts.line)).head.head_generation
    await facts.retract()
    await restoring.restore(db, line=facts.line, generation=before, restore_id="back")
    assert await facts.marks() == {}
    assert (await facts.retract()).state == "published"
    assert set(await facts.marks()) == {"one", "two"}


async def test_earlier_generations_stay_what_they_were(db):
    facts = await poisoned(db)
    before = (await facts.world.state(facts.line)).head.head_generation
    told = await facts.world.contents(facts.line, before)
    await facts.retract()
    assert await facts.world.contents(facts.line, before) == told
    async with db.connection() as conn:
        old = await records.current_of(conn, line=facts.line, generation=before, keys=["one"], bodies=True)
    assert Fact.parse(old["one"].fact_body).state == "reviewed"
    await facts.world.check_roots(facts.line)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_an_operator_killed_at_any_step_withdraws_all_or_nothing_and_once(db, before):
    steps = 0
    while True:
        facts = await poisoned(db, name=f"facts-{steps}")
        asked = await ask(facts)
        steps += 1
        dying = DyingDatabase(db, at=steps, before=before)
        with contextlib.suppress(KilledError):
            await retracting.propose(dying, line=facts.line, retraction_id=asked.retraction_id)
            break
        await facts.world.work()
        await finish(facts, asked)
    await facts.world.work()
    await finish(facts, asked)
    assert steps > 2


async def finish(facts, asked):
    """Have a retraction accepted, and check that it was done once."""
    asked = await facts.world.retraction(asked)
    assert [job.origin for job in await facts.world.jobs() if job.line == facts.line].count("Retraction") == 1
    await facts.world.decide(asked.job_id)
    await facts.world.work()
    assert (await facts.world.retraction(asked)).state == "published"
    assert set(await facts.marks()) == {"one", "two"}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_worker_killed_while_it_publishes_a_retraction_leaves_nothing_half_done(db, before):
    at, killed = 0, True
    while killed:
        at, killed = at + 1, False
        facts = await poisoned(db, name=f"facts-{at}")
        asked = await facts.world.retract(facts.line, "poison")
        await facts.publish("three", "late", f"record:two@{facts.two}")
        await facts.world.decide(asked.job_id)
        async with db.connection() as conn:
            held = await leases.claim_one(conn, line=facts.line, job_id=asked.job_id, holder="the one that dies")
        try:
            await work.advance(replace(facts.world.services, db=DyingDatabase(db, at=at, before=before)), held)
        except KilledError:
            killed = True
            assert set(await facts.marks()) in (set(), {"one", "two", "three"})
            await expire_leases(db)
        await facts.world.work()
        assert (await facts.world.retraction(asked)).state == "published"
        assert set(await facts.marks()) == {"one", "two", "three"}
        assert (await facts.world.events(facts.line))[-4][:2] == ("tombstone", "poison")
    assert at > 5


async def ask(facts, *, scopes=("shared",), revision=None):
    body = RetractionRequest(key="poison", reason="it was poisoned", revision=revision)
    return await retracting.request(
        facts.world.db, line=facts.line, scopes=list(scopes), caller=Caller("eve"), body=body
    )


async def name_of(facts, asked):
    async with facts.world.db.connection() as conn:
        return (await jobs.get(conn, asked.job_id)).name
