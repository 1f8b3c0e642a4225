"""Evidence for the proposal's gates 3a and 4, word by word: what is published during a run, and what never is.

Each test quotes its gate and shows each of its claims in the gate's order, by the services that operator and API
run on. docs/spec/gates.md lists them.
"""

from __future__ import annotations

import pytest
from tests.store.gating import FIVE, complete, published_once, review
from tests.store.world import AUTOMATIC, World

from anabranch.branches import read as branch_reads
from anabranch.domain.facts import Fact
from anabranch.model.canonical import parse_json
from anabranch.store import candidates

MANUAL = {"review": {"mode": "Manual"}}


@pytest.fixture
def world(db):
    return World(db)


async def test_gate_3a_a_finding_is_published_before_its_run_ends_and_nothing_is_dropped_or_doubled(world):
    """Gate 3a, incremental findings: "A finding is reviewed and published before its run ends; retries and final flush
    neither drop nor double-publish changes".
    """
    line = (await world.import_documents({"a": "first"}, **MANUAL)).line.line
    one, two = await world.apply_branch("one"), await world.apply_branch("two")

    # "A finding is reviewed and published before its run ends"
    assert (await world.submit(one, 1, FIVE[0])).ack == "receipt"
    await world.work()
    (job,) = await world.jobs()
    assert (job.state, await world.events(line)) == ("awaiting_review", [])
    await review(world, job, accept=await world.candidates(job))
    assert await world.events(line) == [("published", "k1", 2)]  # which the other run sees, before this one ends
    assert {(await branch_reads.get(world.db, b.branch_id)).phase for b in (one, two)} == {"Active"}

    # "retries": of what is published, of what waits, and of what is new.
    for _ in range(2):
        assert (await world.submit(one, 1, FIVE[0])).ack == "publication"
        assert (await world.submit(one, 2, FIVE[1], FIVE[2])).ack == "receipt"
        await world.work()

    # "and final flush": the last batch and the completion, each sent twice.
    for _ in range(2):
        assert (await world.submit(one, 3, FIVE[3], FIVE[4], final=True)).contiguous_through == 3
        await complete(world, one, 3)
        await world.work()
    assert (await branch_reads.get(world.db, one.branch_id)).phase == "Completed"

    # "neither drop nor double-publish changes": all that the run has found is decided after its end, each once.
    while waiting := [job for job in await world.jobs() if job.state == "awaiting_review"]:
        for job in waiting:
            await review(world, job, accept=await world.candidates(job))
    await published_once(world, line)
    assert [(await world.submit(one, 2, FIVE[1], FIVE[2])).ack, (await world.jobs())[-1].state] == [
        "publication", "published",
    ]  # fmt: skip


async def test_gate_4_conflicting_findings_remain_visible(world):
    """Gate 4, reviewed consolidation: "Conflicting agent findings remain visible …"."""
    line = (await world.import_documents({"a": "first"}, **AUTOMATIC)).line.line
    one, two = await world.apply_branch("one"), await world.apply_branch("two")
    sources = await world.evidence(one, "log of one"), await world.evidence(two, "log of two")
    await world.submit(one, 1, {"key": "a", "content": "use 8 GiB", "base": 1, "sources": [sources[0]]})
    await world.work()
    await world.submit(two, 1, {"key": "a", "content": "use 4 GiB", "base": 1, "sources": [sources[1]]})
    await world.work()

    # Both sides stand side by side, each with its sources and the run that found it; readers see what is accepted.
    (job,) = [job for job in await world.jobs() if job.branch_id == two.branch_id]
    candidate, theirs, accepted, provenance = await conflict(world, job)
    assert (candidate.state, candidate.conflicting, candidate.reason) == ("waiting", True, "BaseRevisionSuperseded")
    assert (theirs, _locators(candidate), list(candidate.origin_runs)) == ("use 4 GiB", [sources[1]], [two.run_id])
    assert (accepted, provenance.source_locators, provenance.origin_runs) == (
        "use 8 GiB", (sources[0],), (one.run_id,),
    )  # fmt: skip
    assert await world.contents(line) == {"a": '"use 8 GiB"'}

    # They remain so whatever is decided: a finding that was rejected is still shown, with who rejected it.
    await review(world, job, reject=[candidate])
    candidate, theirs, accepted, _ = await conflict(world, await world.job(job.name))
    assert (candidate.state, candidate.conflicting, candidate.detail) == ("rejected", True, "rejected by ada")
    assert (theirs, _locators(candidate), accepted) == ("use 4 GiB", [sources[1]], "use 8 GiB")
    assert await world.contents(line) == {"a": '"use 8 GiB"'}


def _locators(candidate):
    return [source["locator"] for source in candidate.sources]


async def conflict(world, job):
    """The job's only candidate and its content, and beside it the record that it contradicts and where that is from."""
    async with world.db.connection() as conn:
        (shown,), _ = await candidates.with_content(conn, line=job.line, job_id=job.job_id, limit=10)
    record = shown.canonical
    return shown.candidate, parse_json(shown.content), parse_json(record.body), Fact.parse(record.fact_body)


async def test_gate_4_rejected_or_unsupported_summaries_do_not_enter_the_knowledge_base(world):
    """Gate 4, reviewed consolidation: "… rejected or unsupported summaries do not enter the canonical knowledge base".

    To the service a summary is what it is to the proposal: "untrusted candidate content", whoever wrote it.
    """
    line = (await world.import_documents({"a": "first"}, **MANUAL)).line.line
    before = (await world.state(line)).head
    one, two = await world.apply_branch("one"), await world.apply_branch("two")
    foreign = await world.evidence(two, "what another run has seen")

    # "unsupported": no source, one that is not there, one of another run, one that does not say where.
    nothing = f"evidence:sha256:{'0' * 64}"
    await world.submit(
        one,
        1,
        {"key": "summary/none", "content": "all is well", "sources": []},
        {"key": "summary/absent", "content": "all is well", "sources": [nothing]},
        {"key": "summary/foreign", "content": "all is well", "sources": [foreign]},
        {"key": "summary/revision", "content": "all is well", "sources": ["record:a@9"]},
        {"key": "summary/supported", "content": "a is first", "sources": ["record:a@1"]},
    )
    await world.work()
    (job,) = await world.jobs()
    by_key = {row.key: row for row in await world.candidates(job)}
    supported = by_key.pop("summary/supported")
    assert {(row.state, row.reason) for row in by_key.values()} == {("rejected", "Unsupported")}

    # "rejected": a summary that is supported waits for a person, and is kept out by one.
    assert (supported.state, job.state) == ("waiting", "awaiting_review")
    await review(world, job, reject=[supported])

    # "do not enter the canonical knowledge base": neither its records, nor its history, nor what is told of it.
    assert (await world.job(job.name)).reason == "NothingToPublish"
    assert (await world.state(line)).head == before
    assert await world.contents(line) == {"a": '"first"'}
    assert await world.events(line) == []
