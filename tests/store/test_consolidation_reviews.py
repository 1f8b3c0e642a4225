"""Reviews, by resource and by HTTP: who may decide, what a decision binds to, and when a job goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.store.branching import blocked
from tests.store.world import AGENTS, AUTOMATIC, World, decisions

from anabranch.consolidation import holding, jobs, review, showing
from anabranch.consolidation.review import SelfReviewError, StaleReviewError
from anabranch.controllers.status import Seen, job_status
from anabranch.identity import Caller, grants
from anabranch.model.canonical import hash_text, sha256
from anabranch.model.errors import ConflictError, NotFoundError
from anabranch.model.ids import new_candidate_id
from anabranch.model.requests import DecisionRequest
from anabranch.store import candidates, evidence, projection, reviews

ADA, BOB = Caller("ada"), Caller("bob")
SPEC = {"branchRef": {"namespace": "agents", "name": "run"}, "batches": {"from": 1, "through": 1}}


class Desk:
    """A waiting job, and reviewers who decide on it."""

    def __init__(self, world, line, name):
        self.world = world
        self.line = line
        self.name = name
        self.generation = 1

    async def job(self):
        return await self.world.job(self.name)

    async def rows(self):
        return await self.world.candidates(await self.job())

    async def reviewed(self, **entries):
        """The resource's reviews become these, and the operator does what follows."""
        self.generation += 1
        await self.world.apply_job(
            self.name,
            generation=self.generation,
            reviews=[{"reviewer": reviewer, "decisions": decided} for reviewer, decided in entries.items()],
            **SPEC,
        )
        await self.world.work()
        return await self.job()

    async def decide(self, caller, rows, action="accept", **changed):
        requests = [
            DecisionRequest(
                **(
                    {
                        "candidate_id": row.candidate_id,
                        "content_hash": hash_text(row.content_hash),
                        "base_revision": str(row.canonical_revision or 0),
                        "action": action,
                    }
                    | changed
                )
            )
            for row in rows
        ]
        return await review.decide(self.world.db, job=await self.job(), caller=caller, decisions=requests)


async def a_desk(db, *changes, **policy):
    """A job of two new keys, or of the given changes, in Manual mode."""
    world = World(db)
    line = (await world.import_documents({"a": "first"}, review=policy)).line.line
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, *(changes or ({"key": "k", "content": 1}, {"key": "l", "content": 1})))
    await world.work()
    (job,) = await world.jobs()
    return Desk(world, line, job.name)


async def test_a_job_goes_on_when_every_candidate_is_decided(db):
    desk = await a_desk(db)
    first, second = await desk.rows()

    job = await desk.reviewed(ada=decisions([first]))
    assert (job.state, job.reason, job.due_at) == ("awaiting_review", "AwaitingReview", None)
    job = await desk.reviewed(ada=[*decisions([first]), *decisions([second], "reject")])

    assert job.state == "published"
    assert await desk.world.outcomes() == {"k": [("published", "")], "l": [("rejected", "RejectedByReview")]}
    assert (job.counts["accepted"], job.counts["rejected"]) == (1, 1)


async def test_when_all_is_rejected_nothing_is_published(db):
    desk = await a_desk(db)

    job = await desk.reviewed(ada=decisions(await desk.rows(), "reject"))

    assert (job.state, job.reason) == ("published", "NothingToPublish")
    assert await desk.world.events(desk.line) == []


async def test_a_rejection_says_who_and_why(db):
    desk = await a_desk(db, {"key": "k", "content": 1})
    (row,) = await desk.rows()

    await desk.reviewed(ada=[decisions([row], "reject")[0] | {"reason": "measured wrongly"}])

    assert [r.detail for r in await desk.rows()] == ["ada: measured wrongly"]


async def test_two_reviewers_are_needed_where_the_baseline_says_so(db):
    desk = await a_desk(db, minReviewers=2)
    rows = await desk.rows()

    assert (await desk.reviewed(ada=decisions(rows))).state == "awaiting_review"
    await desk.decide(ADA, rows)  # the same person by another way is no second one
    await desk.world.work()
    assert (await desk.job()).state == "awaiting_review"
    await desk.decide(BOB, rows)
    await desk.world.work()

    assert (await desk.job()).state == "published"


async def test_a_lowered_demand_lets_a_waiting_job_go_on(db):
    desk = await a_desk(db, minReviewers=2)
    await desk.reviewed(ada=decisions(await desk.rows()))

    await desk.world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}})
    await desk.world.work()

    assert (await desk.job()).state == "published"


async def test_an_agent_cannot_approve_its_own_finding_by_resource_or_by_http(db):
    desk = await a_desk(db)
    rows = await desk.rows()
    author = rows[0].author
    assert author == "system:serviceaccount:agents:run"

    job = await desk.reviewed(**{author: decisions(rows)})
    assert job.state == "awaiting_review"
    with pytest.raises(SelfReviewError):
        await desk.decide(Caller(author), rows)

    assert (await desk.job()).state == "awaiting_review"


async def test_an_agent_can_where_the_baseline_allows_it(db):
    desk = await a_desk(db, forbidSelfReview=False)
    rows = await desk.rows()

    await desk.decide(Caller(rows[0].author), rows)
    await desk.world.work()

    assert (await desk.job()).state == "published"


async def test_a_decision_on_other_content_or_another_record_counts_for_nothing(db):
    desk = await a_desk(db)
    rows = await desk.rows()
    other = hash_text(b"\x01" * 32)

    for changed in ({"contentHash": other}, {"baseRevision": "1"}):
        job = await desk.reviewed(ada=[decision | changed for decision in decisions(rows)])
        assert job.state == "awaiting_review"
    for changed in ({"content_hash": other}, {"base_revision": "1"}):
        with pytest.raises(StaleReviewError) as refused:
            await desk.decide(ADA, rows, **changed)
        assert refused.value.extra["base_revision"] == "0"
        assert refused.value.extra["content_hash"] == hash_text(rows[0].content_hash)


async def test_a_decision_dies_with_the_record_it_was_made_about(db):
    desk = await a_desk(db, {"key": "a", "content": "mine", "base": 1})
    rows = await desk.rows()
    world = desk.world
    rival = await world.apply_branch("rival")
    await world.submit(rival, 1, {"key": "a", "content": "theirs", "base": 1})
    await world.work()
    (rivals,) = [job for job in await world.jobs() if job.branch_id == rival.branch_id]
    theirs = await world.candidates(rivals)
    await review.decide(
        world.db,
        job=rivals,
        caller=ADA,
        decisions=[
            DecisionRequest(
                candidate_id=theirs[0].candidate_id,
                content_hash=hash_text(theirs[0].content_hash),
                base_revision="1",
                action="accept",
            )
        ],
    )
    await world.work()
    assert (await world.contents(desk.line))["a"] == '"theirs"'

    job = await desk.reviewed(ada=decisions(rows))  # made when the record was at revision 1

    (row,) = await desk.rows()
    assert (job.state, row.conflicting, row.canonical_revision) == ("awaiting_review", True, 2)
    job = await desk.reviewed(ada=decisions([row]))
    assert job.state == "published"
    assert await world.events(desk.line) == [("published", "a", 2), ("superseded", "a", 2), ("published", "a", 3)]


async def test_what_somebody_else_has_published_meanwhile_needs_no_review_any_more(db):
    desk = await a_desk(db, {"key": "a", "content": "the same", "base": 1})
    world = desk.world
    await world.apply_baseline(generation=2, **{"import": {"configMap": {"name": "facts"}}}, **AUTOMATIC)
    rival = await world.apply_branch("rival")
    (locator,) = [source["locator"] for source in (await desk.rows())[0].sources]
    assert await world.evidence(rival) == locator
    await world.submit(rival, 1, {"key": "a", "content": "the same", "base": 1})
    await world.work()

    job = await desk.job()
    assert (job.state, job.reason) == ("published", "NothingToPublish")
    assert [(row.state, row.reason) for row in await desk.rows()] == [("duplicate", "AlreadyKnown")]


@pytest.mark.parametrize("others", [[], [{"key": "b", "content": "first"}]], ids=["as a whole", "split off"])
async def test_what_comes_to_wait_while_its_record_moves_is_shown_against_the_new_one(db, monkeypatch, others):
    world = World(db)
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    one, two = await world.apply_branch("one"), await world.apply_branch("two")
    leave = holding.leave

    async def published_meanwhile(*what, **how):  # what waits was compared, and is not known to wait yet
        monkeypatch.undo()
        await world.submit(two, 1, {"key": "a", "content": "second", "base": 1})
        await world.work()
        return await leave(*what, **how)

    monkeypatch.setattr(holding, "leave", published_meanwhile)
    await world.submit(one, 1, {"key": "a", "op": "tombstone", "base": 1}, *others)
    await world.work()

    assert (await world.contents(line))["a"] == '"second"'
    (waiting,) = [row for job in await world.jobs() for row in await world.candidates(job) if row.state == "waiting"]
    assert (waiting.canonical_revision, waiting.reason) == (2, "BaseRevisionSuperseded")


async def test_a_decision_that_comes_while_its_candidate_is_split_off_is_told_so(db, monkeypatch):
    desk = await a_desk(db, {"key": "a", "content": "one", "base": 1}, {"key": "a", "content": "other", "base": 1})
    one, other = await desk.rows()
    move, late = candidates.move, []

    async def decided_meanwhile(conn, **what):
        late.append(asyncio.create_task(desk.decide(BOB, [other])))
        await blocked(db, late[0])
        return await move(conn, **what)

    monkeypatch.setattr(candidates, "move", decided_meanwhile)
    await desk.reviewed(ada=decisions([one]))

    with pytest.raises(ConflictError, match="went on while your decisions came"):
        await late[0]


async def test_accepting_one_of_two_findings_for_a_key_leaves_the_other_open_against_the_new_record(db):
    desk = await a_desk(db, {"key": "a", "content": "one", "base": 1}, {"key": "a", "content": "other", "base": 1})
    one, other = await desk.rows()

    job = await desk.reviewed(ada=decisions([one]))

    assert (job.state, job.counts["held"]) == ("published", 1)
    held = await desk.world.job(job.held_job)
    (row,) = await desk.world.candidates(held)
    assert (row.candidate_id, row.state, row.canonical_revision) == (other.candidate_id, "waiting", 2)
    assert (row.conflicting, row.reason) == (True, "BaseRevisionSuperseded")
    assert held.state == "awaiting_review"


async def test_a_decision_in_a_resource_that_its_candidate_has_left_says_where_to_decide(db):
    desk = await a_desk(db, {"key": "a", "content": "one", "base": 1}, {"key": "a", "content": "other", "base": 1})
    one, other = await desk.rows()

    async def condition():
        async with db.connection() as conn:
            (row,) = await projection.job_status(conn, job_ids=[(await desk.job()).job_id])
        told = job_status(row, seen=Seen(), now=datetime.now(UTC)).conditions
        return next((c.message for c in told if c.type == "DecisionsMisplaced"), None)

    job = await desk.reviewed(ada=decisions([one]))
    assert await condition() is None
    before = job.version
    await desk.reviewed(ada=[*decisions([one]), *decisions([other], "reject")], bob=decisions([other]))
    job = await desk.job()
    assert job.version > before, "its status is written"
    held = await desk.world.job(job.held_job)
    assert await condition() == (
        f"Decisions in spec.reviews on candidates that the job {held.name} has by now: 2."
        " They do not count here: decide in that job."
    )
    assert held.state == "awaiting_review"

    # Said where it counts; and taken out where it does not.
    (row,) = await desk.world.candidates(held)
    await desk.world.apply_job(
        held.name,
        generation=2,
        origin="Held",
        branchRef={"namespace": AGENTS, "name": "run"},
        reviews=[{"reviewer": "ada", "decisions": decisions([row], "reject")}],
    )
    await desk.world.work()
    assert (await desk.world.job(held.name)).state == "published"
    await desk.reviewed(ada=decisions([one]))
    assert await condition() is None


async def test_accepting_both_is_refused(db):
    desk = await a_desk(db, {"key": "a", "content": "one", "base": 1}, {"key": "a", "content": "other", "base": 1})
    one, other = await desk.rows()

    job = await desk.reviewed(ada=decisions([one, other]))
    assert (job.state, job.reason) == ("awaiting_review", "AmbiguousAcceptance")
    job = await desk.reviewed(ada=[*decisions([one]), *decisions([other], "reject")])

    assert (await desk.world.contents(desk.line))["a"] == '"one"'


async def test_a_decision_taken_out_of_the_resource_is_withdrawn(db):
    desk = await a_desk(db)
    first, second = await desk.rows()
    await desk.reviewed(ada=decisions([first]))

    await desk.reviewed()
    job = await desk.reviewed(bob=decisions([second]))

    assert job.state == "awaiting_review"
    async with db.connection() as conn:
        history = await reviews.history(conn, line=job.line, job_id=job.job_id)
    assert [(row.reviewer, row.action) for row in history] == [
        ("ada", "accept"),
        ("ada", "withdraw"),
        ("bob", "accept"),
    ]


async def test_reviews_outlive_their_resource(db):
    desk = await a_desk(db)
    first, second = await desk.rows()
    job = await desk.reviewed(ada=decisions([first]))

    await jobs.forget(db, namespace=job.namespace, name=job.name, uid=job.uid)
    await desk.decide(ADA, [second])
    await desk.world.work()

    assert (await desk.job()).state == "published"


async def test_without_the_admission_policies_reviews_in_resources_are_ignored(db):
    desk = await a_desk(db)
    desk.world.guard.missing.append("The policy is missing.")

    job = await desk.reviewed(ada=decisions(await desk.rows()))

    assert job.state == "awaiting_review"
    async with db.connection() as conn:
        assert await reviews.history(conn, line=job.line, job_id=job.job_id) == []
    desk.world.guard.missing.clear()
    assert (await desk.reviewed(ada=decisions(await desk.rows()))).state == "published"


async def test_decisions_by_http_are_all_noted_or_none(db):
    desk = await a_desk(db)
    first, _ = await desk.rows()
    stranger = DecisionRequest(
        candidate_id=new_candidate_id(first.line),
        content_hash=hash_text(first.content_hash),
        base_revision="0",
        action="accept",
    )
    own = stranger.model_copy(update={"candidate_id": first.candidate_id})

    with pytest.raises(NotFoundError):
        await review.decide(db, job=await desk.job(), caller=ADA, decisions=[own, stranger])

    job = await desk.job()
    async with db.connection() as conn:
        assert await reviews.history(conn, line=job.line, job_id=job.job_id) == []
    assert job.due_at is None


async def test_what_is_decided_cannot_be_decided_again(db):
    desk = await a_desk(db)
    rows = await desk.rows()
    noted = await desk.decide(ADA, rows)
    assert [(row.reviewer, row.via, row.action) for row in noted] == [("ada", "http", "accept")] * 2
    await desk.world.work()

    with pytest.raises(ConflictError, match="published"):
        await desk.decide(BOB, rows, "reject")


async def test_who_decides_while_the_job_goes_on_is_told_and_nothing_is_noted(db, monkeypatch):
    desk = await a_desk(db)
    rows = await desk.rows()
    read_head = review.read_head

    async def meanwhile(*what):
        head = await read_head(*what)
        monkeypatch.undo()
        await desk.decide(ADA, rows)
        await desk.world.work()
        return head

    monkeypatch.setattr(review, "read_head", meanwhile)
    with pytest.raises(ConflictError, match="went on while"):
        await desk.decide(BOB, rows, "reject")
    job = await desk.job()
    async with db.connection() as conn:
        noted = await reviews.history(conn, line=job.line, job_id=job.job_id)
    assert {row.reviewer for row in noted} == {"ada"}


async def test_what_was_kept_back_does_not_tell_whether_others_say_the_same(db):
    desk = await a_desk(
        db,
        {"key": "k", "content": "first", "visibility": "private"},  # as the record `a` has it
        {"key": "l", "content": "nobody's", "visibility": "private"},
    )

    author = Caller("system:serviceaccount:agents:run")
    found, _ = await showing.candidate_page(
        db, await desk.job(), caller=author, branch_id=None, readable=None, after="", limit=9
    )

    assert [(row.reason, row.content) for row in found] == [("ExportNotPermitted", None)] * 2


async def test_what_a_branch_keeps_back_is_told_to_its_own_agent_and_to_reviewers_that_there_is_something(db):
    desk = await a_desk(
        db,
        {"key": "about/mother", "content": "ill", "visibility": "private", "base": 7, "sources": ["record:a@1"]},
        {"key": "open", "content": 1},
    )
    job = await desk.job()

    async def shown(caller, **place):
        bounds = {"branch_id": None, "readable": None, "after": "", "limit": 9} | place
        found, _ = await showing.candidate_page(db, job, caller=caller, **bounds)
        return {row.reason: row for row in found}

    (told,) = {row for row in (await shown(ADA)).values() if row.reason == "ExportNotPermitted"}
    assert (told.key, told.content_hash, told.base_revision, told.source_locators) == (None, None, "0", ())
    assert not any(hint in told.model_dump_json() for hint in ("mother", "ill", "record:a", "sha256:"))
    another = await shown(Caller("system:serviceaccount:agents:other"))
    assert another["ExportNotPermitted"] == told
    assert (await shown(ADA))["ReviewRequired"].key == "open"

    own = Caller("system:serviceaccount:agents:run")
    for place in ({}, {"branch_id": job.branch_id}):  # also where the agent is a reviewer
        row = (await shown(own, **place))["ExportNotPermitted"]
        assert (row.key, row.base_revision, row.source_locators) == ("about/mother", "7", ("record:a@1",))
        assert row.content_hash.startswith("sha256:")


async def test_an_author_is_not_told_in_which_scope_else_a_key_is(db):
    desk = await a_desk(db, {"key": "a", "content": "second", "scope": "team/build", "base": 1})
    (row,) = await desk.rows()
    assert (row.reason, "shared" in row.detail) == ("ScopeChange", False)

    desk.world.permissions.deny(grants.SCOPE_WRITE, name="shared")
    await desk.decide(ADA, [row])
    await desk.world.work()

    (row,) = await desk.rows()
    assert (row.reason, "shared" in row.detail) == ("GrantRevoked", False)


async def test_who_may_not_read_a_record_is_not_shown_it_beside_a_finding_for_its_key(db):
    desk = await a_desk(db, {"key": "a", "content": "a guess"})
    job = await desk.job()

    async def shown(readable):
        (candidate,), _ = await showing.candidate_page(
            db, job, caller=ADA, branch_id=job.branch_id, readable=readable, after="", limit=9
        )
        assert candidate.content == "a guess"
        return candidate.canonical and candidate.canonical.content

    assert await shown(["team/build"]) is None
    assert await shown(["shared"]) == "first"
    assert await shown(None) == "first"


async def test_evidence_is_shown_with_the_finding_that_cites_it_and_with_nothing_else(db):
    desk = await a_desk(db, {"key": "open", "content": 1})
    job, (row,) = await desk.job(), await desk.rows()
    digest = sha256(b"log")
    cited = {"locator": f"evidence:{hash_text(digest)}", "status": "verified", "detail": ""}
    where = {"line": job.line, "branch_id": job.branch_id}
    async with db.transaction() as conn:
        await evidence.put(conn, **where, digest=digest, media_type="text/plain", body=b"log")

    async def body(branch_id=None, **outcome):
        async with db.transaction() as conn:
            await candidates.save_outcomes(conn, [replace(row, **{"sources": (cited,), **outcome})])
        return (await showing.cited_evidence(db, job, branch_id=branch_id, digest=digest)).body

    assert await body() == await body(job.branch_id) == b"log"
    kept_back = {"reason": "ExportNotPermitted", "state": "rejected"}
    for refused in (
        {"branch_id": "another"},
        kept_back,
        {"sources": (cited | {"status": "pending"},)},
        {"sources": ()},
    ):
        with pytest.raises(NotFoundError, match="No candidate of the job cites"):
            await body(**refused)
