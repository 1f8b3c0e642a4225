"""The recall gate: what costs a memory answers is held for people, who may publish it all the same once they know."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.store import building
from tests.store.building import version
from tests.store.dying import DyingDatabase, KilledError
from tests.store.indexes import indexed
from tests.store.test_consolidation_crashes import claim, let_leases_run_out
from tests.store.test_consolidation_groups import held, publish_all
from tests.store.world import AUTOMATIC, World, decisions

from anabranch.cli import counters
from anabranch.consolidation import holding, read, review, schedule, showing, work
from anabranch.controllers.backlog import Backlog
from anabranch.controllers.status import Seen, baseline_status, job_status
from anabranch.domain import recall as domain
from anabranch.identity import Caller
from anabranch.model.canonical import hash_text
from anabranch.model.errors import UnavailableError
from anabranch.model.recall import RecallTask
from anabranch.model.requests import DecisionRequest
from anabranch.quality import counting, measuring, reading, recalling
from anabranch.quality.measuring import Changed
from anabranch.search import asking
from anabranch.store import contents, jobs, leases, lines, projection, recall, restoring, reviews
from anabranch.telemetry.of_operator import OPERATOR_SHOWN

TEXTS = {"exit": "exit code 137 means the memory limit", "cache": "the cache is at port 6379"}
TASKS = [
    {"id": "exit-137", "query": "exit code 137", "answers": ["exit"]},
    {"id": "cache-port", "query": "cache port", "answers": ["cache"], "says": "6379"},
]
NOISE = {"key": "noise", "content": "exit code 137 exit code 137"}
"""Comes before the answer to the first question."""

GOOD = {"key": "disk", "content": "the disk has 40 GiB"}
FROM_MAP = {"import": {"configMap": {"name": "facts"}}}
MANUAL = {"review": {"mode": "Manual"}}


def asked(**members):
    return {"recall": {"tasks": {"configMap": {"name": "questions"}}, "k": 1, **members}}


def questions(world, tasks=TASKS):
    world.kube.config_maps["questions"] = {"tasks.jsonl": "\n".join(map(json.dumps, tasks))}


async def set_up(db, policy=AUTOMATIC, **members):
    world = World(db)
    questions(world)
    world.line = (await world.import_documents(TEXTS, **policy, **asked(**members))).line.line
    return world


async def found_out(world, *changes, run="run"):
    """What a run finds out, as far as it goes by itself; its newest job."""
    branch = await world.apply_branch(run)
    async with world.db.connection() as conn:
        sequence = 1 + await conn.fetchval("SELECT count(*) FROM batches WHERE branch_id = $1", branch.branch_id)
    await world.submit(branch, sequence, *changes)
    await world.work()
    return max((job for job in await world.jobs() if job.branch_id == branch.branch_id), key=lambda job: job.created_at)


async def condition(world, kind="QualityRegressed"):
    """The reason of a condition in the Baseline's status; None: it is not there."""
    async with world.db.connection() as conn:
        (state,) = await projection.baseline_status(conn, lines=[world.line])
    status = baseline_status(state, seen=Seen(), now=datetime.now(UTC))
    return next((one.reason for one in status.conditions if one.type == kind), None)


async def results(world):
    async with world.db.connection() as conn:
        return {one.generation: one for one in await recall.results(conn, line=world.line, before=1_000, limit=100)}


async def measured(db):
    """Measure what nobody has."""
    while await recalling.turn(db, every=timedelta()):
        pass


async def holds(world, job):
    async with world.db.connection() as conn:
        return await conn.fetch("SELECT * FROM recall_holds WHERE job_id = $1 ORDER BY ordinal", job.job_id)


async def test_what_costs_no_answer_is_published_with_what_it_answers(db):
    world = await set_up(db)
    assert (await found_out(world, GOOD)).state == "published"
    one = (await results(world))[2]
    assert (one.tasks, one.recall, one.recall_at_1, one.against, one.change) == (2, 1.0, 1.0, 1, 0.0)
    assert await condition(world) is None


async def test_the_contents_of_many_findings_are_in_memory_some_at_a_time(db, monkeypatch):
    read, get_many = [], contents.get_many

    async def counted(conn, *, line, hashes):
        found = await get_many(conn, line=line, hashes=hashes)
        read.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(contents, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(contents, "get_many", counted)
    world = await set_up(db, MANUAL)
    job = await found_out(world, *({"key": f"k{n}", "content": f"{n} {'x' * 400}"} for n in range(6)))
    assert len(read) >= 3, "what is alike was looked for"
    read.clear()
    await world.decide(job.job_id)
    await world.work()
    assert (await world.job(job.name)).state == "published"
    assert sum(read) > 2_400
    assert max(read) <= 1_000


async def test_what_costs_an_answer_is_held_with_the_question_and_the_figures(db):
    world = await set_up(db)
    job = await found_out(world, NOISE)
    assert (job.state, job.reason, job.holder) == ("awaiting_review", "RecallRegressed", None)
    (row,) = await world.candidates(job)
    assert (row.state, row.reason) == ("waiting", "RecallRegressed")
    assert "recall@1 would go from 1.000 to 0.500 (change -0.500, 95 % interval -1.000 to +0.000)" in row.detail
    assert "exit-137" in row.detail
    assert "cache-port" not in row.detail
    assert set(await world.contents(world.line)) == set(TEXTS)
    async with db.connection() as conn:
        (shown,) = await projection.job_status(conn, job_ids=[job.job_id])
    status = job_status(shown, seen=Seen(), now=datetime.now(UTC))
    assert {one.type: one.reason for one in status.conditions}["AwaitingReview"] == "RecallRegressed"


async def test_what_a_reviewer_decides_having_read_it_is_published_and_told_of(db):
    world = await set_up(db)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    assert (await world.job(job.name)).state == "published"
    one = (await results(world))[2]
    assert (one.recall, one.change, list(one.worse)) == (0.5, -0.5, ["exit-137"])
    assert await condition(world) == "RecallRegressed"
    await found_out(world, GOOD, run="another")
    assert await condition(world) is None, "what readers see has fallen no further"


async def test_what_was_accepted_before_anybody_could_read_it_does_not_count(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    job = await world.job(job.name)
    assert (job.state, job.reason) == ("awaiting_review", "RecallRegressed")
    async with db.transaction() as conn:
        await jobs.wake(conn, line=world.line, job_id=job.job_id)
    await world.work()
    assert (await world.job(job.name)).reason == "RecallRegressed"
    assert len(await holds(world, job)) == 1, "nobody has asked again"
    await world.decide(job.job_id)
    told, _ = await read.review_page(db, await world.job(job.name), branch_id=None, after=0, limit=10)
    assert [entry.before_hold for entry in told] == [True, False]
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_a_decision_that_stands_in_a_resource_counts_once_it_is_made_anew(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)

    async def declared(reason, **more):
        row = (await world.candidates(job))[0]
        said = decisions([row], reason=reason, **more)
        spec = {"origin": "Branch", "branchRef": {"namespace": "agents", "name": "run"}}
        spec |= {"batches": {"from": 1, "through": 1}, "reviews": [{"reviewer": "ada", "decisions": said}]}
        declared.generation += 1
        await world.apply_job(job.name, generation=declared.generation, **spec)
        await world.work()
        return await world.job(job.name)

    declared.generation = 1
    assert (await declared("so it is")).reason == "RecallRegressed"
    assert (await declared("so it is")).reason == "RecallRegressed", "it stood there before"
    assert (await declared("whoever asks that means the log")).reason == "RecallRegressed", (
        "it may have been on its way"
    )
    assert (await declared("whoever asks that means the log", hold=2)).reason == "RecallRegressed", (
        "there is no such one"
    )
    assert (await declared("whoever asks that means the log", hold=1)).state == "published"


async def test_who_accepts_by_http_what_the_gate_holds_names_the_hold_that_they_saw(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    job = await world.job(job.name)
    eve = Caller(username="eve")

    async def decide(**more):
        (row,) = await world.candidates(job)
        said = {"candidate_id": row.candidate_id, "content_hash": hash_text(row.content_hash), "base_revision": "0"}
        request = DecisionRequest.model_validate({**said, "action": "accept", **more})
        return await review.decide(db, job=job, caller=eve, decisions=[request])

    for stale in ({}, {"hold": 2}):
        with pytest.raises(review.StaleReviewError) as caught:
            await decide(**stale)
        assert caught.value.extra["hold"] == 1
    (shown,), _ = await showing.candidate_page(db, job, caller=eve, branch_id=None, readable=None, after="", limit=10)
    assert shown.hold == 1
    await decide(hold=shown.hold)
    # What the same reviewer has in a resource that nobody had read yet does not take that back.
    (row,) = await world.candidates(job)
    spec = {
        "origin": "Branch",
        "branchRef": {"namespace": "agents", "name": "run"},
        "batches": {"from": 1, "through": 1},
    }
    await world.apply_job(job.name, generation=2, **spec, reviews=[{"reviewer": "eve", "decisions": decisions([row])}])
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_a_rejection_needs_to_know_of_no_hold(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    (row,) = await world.candidates(job)
    said = {"candidate_id": row.candidate_id, "content_hash": row.content_hash, "base_revision": 0}
    async with db.transaction() as conn:
        rejected = reviews.Decision(reviewer="bob", action="reject", reason="it is noise", **said)
        await reviews.append(conn, line=world.line, job_id=job.job_id, decisions=[rejected])
        await jobs.wake(conn, line=world.line, job_id=job.job_id)
    await world.work()
    assert [each.state for each in await world.candidates(job)] == ["rejected"]


async def test_a_decision_that_is_taken_back_leaves_no_older_one_that_would_do(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    await world.decide(job.job_id, by="bob")
    (taken,) = await claim(world)
    taken = await work._STEPS["awaiting_review"](world.services, taken)
    assert taken.state == "publishing"
    async with db.transaction() as conn:
        (row,) = await world.candidates(job)
        said = {"candidate_id": row.candidate_id, "content_hash": row.content_hash, "base_revision": 0}
        withdrawn = reviews.Decision(reviewer="bob", action="withdraw", **said)
        await reviews.append(conn, line=world.line, job_id=job.job_id, decisions=[withdrawn])
    await publish_all(world, [taken])
    assert (await world.job(job.name)).state == "awaiting_review"
    assert set(await world.contents(world.line)) == set(TEXTS)


async def test_what_has_become_worse_than_the_reviewer_read_is_held_again(db):
    world = await set_up(db)
    job = await found_out(world, NOISE)
    # Somebody tells where the cache is in the record that answers with it no more.
    other = await found_out(world, {"key": "cache", "content": "the cache is gone", "base": 1}, run="other")
    await world.decide(other.job_id)
    await world.work()
    assert (await world.job(other.name)).state == "published"
    await world.decide(job.job_id)
    await world.work()
    job = await world.job(job.name)
    assert (job.state, job.reason) == ("awaiting_review", "RecallRegressed")
    assert [(one["recall"], one["change"]) for one in await holds(world, job)] == [(0.5, -0.5), (0.0, -0.5)]
    await world.decide(job.job_id)
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_what_costs_other_questions_than_the_reviewer_read_is_held_again(db):
    world = await set_up(db)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    questions(world, [TASKS[0] | {"id": "memory-limit"}, TASKS[1]])
    await world.apply_baseline(generation=2, **FROM_MAP, **AUTOMATIC, **asked())
    await world.work()
    job = await world.job(job.name)
    assert (job.state, job.reason) == ("awaiting_review", "RecallRegressed")
    assert [one["failing"] for one in await holds(world, job)] == [["exit-137"], ["memory-limit"]]
    await world.decide(job.job_id)
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_jobs_that_fail_together_are_each_held_for_what_they_do_themselves(db):
    world = await set_up(db)
    branches = []
    for number, change in enumerate(
        [{"key": "first", "content": "first"}, GOOD, NOISE, {"key": "more", "content": "x"}]
    ):
        branch = await world.apply_branch(f"run-{number}")
        await world.submit(branch, 1, change)
        branches.append(branch)
    await schedule.make_jobs(db)
    assert await publish_all(world, await held(world, branches)) == [None] * 4
    states = {job.name.split("-")[1]: job.reason or job.state for job in await world.jobs()}
    assert states == {"0": "published", "1": "published", "2": "RecallRegressed", "3": "published"}
    assert "noise" not in await world.contents(world.line)


async def test_a_fall_that_is_allowed_is_published(db):
    world = await set_up(db, maxRegression=0.5)
    assert (await found_out(world, NOISE)).state == "published"


async def test_below_the_floor_only_what_raises_recall_goes_on(db):
    world = await set_up(db, maxRegression=1, floor=1)
    missing = [{"id": name, "query": f"{name} size", "answers": [name]} for name in ("disk", "moon")]
    questions(world, [*TASKS, *missing])
    await world.apply_baseline(generation=2, **FROM_MAP, **AUTOMATIC, **asked(maxRegression=1, floor=1))
    unrelated = await found_out(world, {"key": "sky", "content": "blue"})
    assert (unrelated.state, unrelated.reason) == ("awaiting_review", "RecallBelowFloor")
    (row,) = await world.candidates(unrelated)
    assert row.detail.split("full: ")[1].startswith("disk, moon;")
    assert (await found_out(world, {"key": "disk", "content": "disk size 40 GiB"}, run="other")).state == "published"
    assert await condition(world) == "RecallBelowFloor"


async def test_without_a_set_of_questions_publications_wait(db):
    world = World(db)
    world.line = (await world.import_documents(TEXTS, **AUTOMATIC, **asked())).line.line
    assert await condition(world, "RecallTasksUnavailable") == "ConfigMapMissing"
    assert await condition(world, "Ready") == "Current"
    job = await found_out(world, GOOD)
    assert (job.state, job.reason, job.holder) == ("publishing", "RecallTasksUnavailable", None)
    assert set(await world.contents(world.line)) == set(TEXTS)
    questions(world)
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC, **asked())
    await world.work()
    assert (await world.job(job.name)).state == "published"
    assert await condition(world, "RecallTasksUnavailable") is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"tasks.jsonl": "no task"}, "tasks.jsonl:1"),
        ({"tasks.jsonl": '{"id": "a", "query": "x"}'}, "No task"),
        ({"a": "", "b": ""}, "2 keys"),
    ],
)
async def test_a_set_that_cannot_be_asked_is_none(db, data, why):
    world = await set_up(db)
    world.kube.config_maps["questions"] = data
    state = await world.apply_baseline(**FROM_MAP, **AUTOMATIC, **asked())
    (told,) = [one for one in state.line.conditions if one["type"] == "RecallTasksUnavailable"]
    assert told["reason"] == "TasksInvalid"
    assert why in told["message"]
    assert (await found_out(world, GOOD)).reason == "RecallTasksUnavailable"


async def test_a_waiting_job_says_so_once_however_often_it_is_looked_at(db):
    world = World(db)
    world.line = (await world.import_documents(TEXTS, **AUTOMATIC, **asked())).line.line
    job = await found_out(world, GOOD)
    for _ in range(3):
        async with db.transaction() as conn:
            await jobs.wake(conn, line=world.line, job_id=job.job_id)
        await world.work()
    async with db.connection() as conn:
        log = await jobs.transitions(conn, line=world.line, job_id=job.job_id, after=0, limit=100)
    assert sum(step.from_state == step.to_state == "publishing" for step in log) == 1


async def test_once_nothing_is_asked_any_more_earlier_decisions_count_again(db):
    world = await set_up(db, MANUAL)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    assert (await world.job(job.name)).reason == "RecallRegressed"
    await world.apply_baseline(generation=2, **FROM_MAP, **MANUAL)
    await world.work()
    assert (await world.job(job.name)).state == "published"


async def test_a_retraction_and_a_restore_are_measured_and_not_held(db):
    world = await set_up(db)
    await measured(db)
    asked_for = await world.retract(world.line, "exit")
    await world.decide(asked_for.job_id)
    await world.work()
    assert "exit" not in await world.contents(world.line)
    await measured(db)
    assert (await results(world))[2].recall == 0.5
    assert await condition(world) == "RecallRegressed"
    await restoring.restore(db, line=world.line, generation=1, restore_id="back")
    await measured(db)
    one = (await results(world))[3]
    assert (one.recall, one.against, one.change) == (1.0, 2, 0.5)


async def test_a_head_that_is_not_indexed_is_an_outage_and_no_answer(db, monkeypatch):
    world = await set_up(db)
    await indexed(db, world.line)
    await building.publish_versions(db, world.line, *(version(f"n{number}", number) for number in range(3)))
    monkeypatch.setattr(asking, "_LATE", 1)
    branch = await world.apply_branch("run")
    await world.submit(branch, 1, GOOD)
    (job,) = await claim(world)
    with pytest.raises(UnavailableError, match="index of words is at generation 1"):
        await work.advance(world.services, job)
    await indexed(db, world.line)
    await work.advance(world.services, await again(world, job))
    assert (await world.job(job.name)).state == "published"


async def again(world, job):
    await let_leases_run_out(world)
    async with world.db.connection() as conn:
        (taken,) = (await leases.claim(conn, holder=world.holder, limit=1)).jobs
    assert taken.job_id == job.job_id
    return taken


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_worker_killed_at_any_step_of_a_hold_holds_it_once(db, before):
    world = await set_up(db)
    for step in range(1, 60):
        await world.submit(await world.apply_branch(f"run-{step}"), 1, {**NOISE, "key": f"noise-{step}"})
        (job,) = await claim(world)
        killed = False
        try:
            await work.advance(replace(world.services, db=DyingDatabase(db, at=step, before=before)), job)
        except KilledError:
            killed = True
            await let_leases_run_out(world)
            await world.work()
        job = await world.job(job.name)
        assert (job.state, job.reason) == ("awaiting_review", "RecallRegressed")
        (row,) = await world.candidates(job)
        assert (row.state, row.reason) == ("waiting", "RecallRegressed")
        assert len(await holds(world, job)) == 1
        if not killed:
            break
    assert not killed
    assert step > 5
    assert set(await world.contents(world.line)) == set(TEXTS)


async def test_what_is_measured_before_a_publication_is_what_is_found_after_it(db):
    chance = random.Random(3)
    world = World(db)
    words = [f"w{number}" for number in range(30)]

    def text():
        return " ".join(chance.choices(words, k=chance.randint(3, 12)))

    world.line = line = await building.new_line(db)
    await building.import_records(db, line, {f"k{number:02}": text() for number in range(60)})
    await indexed(db, line)
    keys = [f"k{number:02}" for number in range(80)]
    tasks = [
        RecallTask(id=f"t{number}", query=" ".join(chance.sample(words, 3)), answers=chance.sample(keys, 3), says="w1")
        for number in range(15)
    ]
    for round_ in range(6):
        made = [
            version(key, *([] if chance.random() < 0.3 else [text()]))
            for key in chance.sample(keys, chance.randint(1, 20))
        ]
        async with db.transaction() as conn:
            bodies = {one.content_hash: one.content_body for one in made if one.content_body is not None}
            await contents.put_many(conn, line=line, bodies=bodies)
            head = (await lines.head(conn, line)).head_generation
        changes = [Changed(key=v.key, scope=v.scope, content_hash=v.content_hash, removed=v.tombstone) for v in made]
        as_is, as_would_be = await measuring.measure(db, line=line, generation=head, tasks=tasks, k=5, changes=changes)
        await building.publish_versions(db, line, *made)
        found, _ = await measuring.measure(db, line=line, generation=head + 1, tasks=tasks, k=5)
        assert as_would_be == found
        assert as_is != found
        if round_ % 2:
            await indexed(db, line)


async def test_the_gate_asks_what_a_search_finds(db):
    world = await set_up(db)
    tasks = [RecallTask(**task) for task in TASKS]
    outcomes, _ = await measuring.measure(db, line=world.line, generation=1, tasks=tasks, k=10)
    for task, outcome in zip(tasks, outcomes, strict=True):
        asked_for = asking.Search(line=world.line, ref=1, scopes=["shared"], text=task.query)
        found = await asking.search(db, asked_for, offset=0, limit=10)
        assert outcome.best == found.hits[0].score
        assert domain.judge(task, [domain.Hit(h.key, h.score) for h in found.hits], texts=TEXTS) == outcome


async def test_who_asks_nothing_is_not_held_up(db, monkeypatch):
    world = World(db)
    world.line = (await world.import_documents(TEXTS, **AUTOMATIC)).line.line
    monkeypatch.setattr(measuring, "measure", None)
    monkeypatch.setattr(holding.recall, "hold", None)
    assert (await found_out(world, NOISE)).state == "published"
    assert not await recalling.turn(db, every=timedelta())
    assert await results(world) == {}


async def test_what_generations_answer_is_told_with_what_can_be_counted(db):
    world = await set_up(db)
    await measured(db)
    await found_out(world, GOOD)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    while await counting.turn(db, every=timedelta()):
        pass
    told = await reading.tell(db, line=world.line, ref=None, scopes=["shared"], history=5)
    assert [(one.generation, one.recall, one.against) for one in told.recall] == [
        (3, 0.5, 2),
        (2, 1.0, 1),
        (1, 1.0, None),
    ]
    alone = await reading.tell(db, line=world.line, ref=2, scopes=[], history=0)
    assert [one.generation for one in alone.recall] == [2]
    text = "\n".join(counters.report(told.model_dump(mode="json")))
    assert "Generation 3: recall@1 0.500 of 2 questions, recall@1 0.500\n" in text
    assert "change from generation 2: -0.500 (95 % interval -1.000 to +0.000)\nworse: exit-137" in text


async def test_metrics_tell_of_each_baseline_what_is_known(db):
    world = await set_up(db)
    await world.import_documents({"a": "x"}, name="other", **AUTOMATIC)
    job = await found_out(world, NOISE)
    await world.decide(job.job_id)
    await world.work()
    while await counting.turn(db, every=timedelta()):
        pass

    async def told():
        await Backlog(db).look()
        return {
            name: {
                sample.labels["baseline"]: sample.value
                for family in OPERATOR_SHOWN.registry.collect()
                if family.name == f"anabranch_baseline_{name}"
                for sample in family.samples
            }
            for name in ("recall", "recall_change", "recall_short", "recall_tasks_missing", "verified_ratio")
        }

    assert await told() == {
        "recall": {"facts": 0.5},
        "recall_change": {"facts": -0.5},
        "recall_short": {"facts": 1.0},
        "recall_tasks_missing": {"facts": 0.0},
        "verified_ratio": {"facts": 1.0, "other": 1.0},
    }
    del world.kube.config_maps["questions"]
    await world.apply_baseline(**FROM_MAP, **AUTOMATIC, **asked())
    assert (await told())["recall_tasks_missing"] == {"facts": 1.0}


async def test_what_generations_answered_that_are_not_kept_is_forgotten(db):
    world = await set_up(db)
    for number in range(3):
        await found_out(world, {"key": f"k{number}", "content": number}, run=f"run-{number}")
    async with db.connection() as conn:
        await conn.execute("UPDATE branches SET parent_generation = 4 WHERE line = $1", world.line)
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation < 4", world.line)
    await found_out(world, GOOD)
    async with db.connection() as conn:
        rows = await conn.fetch("SELECT generation FROM recall_results WHERE line = $1", world.line)
    assert sorted(row["generation"] for row in rows) == [4, 5]
