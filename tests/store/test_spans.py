"""One trace from the receipt of a batch to those who follow, on a real Postgres: whole, and without a word."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from dataclasses import replace

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.store import spans
from tests.store.dying import DyingDatabase, KilledError
from tests.store.spans import caller, links_of, span_of, trace_of
from tests.store.world import AGENTS, TEAM

from anabranch.client.sse import Parser
from anabranch.consolidation import schedule, work
from anabranch.model.errors import UnavailableError
from anabranch.model.objects import batch_hash
from anabranch.model.requests import BranchRequest
from anabranch.model.trace import trace_id_of
from anabranch.store import batches, branches, events, jobs, leases
from anabranch.telemetry import tracing

PUT = "PUT /v1/namespaces/{namespace}/branches/{branch}/batches/{sequence}"
EVENTS = "GET /v1/namespaces/{namespace}/baselines/{baseline}/events"
FOLLOW = f"/v1/namespaces/{TEAM}/baselines/facts/events"


@pytest.fixture
def seen():
    with spans.recorded() as seen:
        yield seen


@pytest.fixture
async def http(place):
    async with httpx.AsyncClient(base_url=place.served.url, headers={"Authorization": "Bearer ada"}) as client:
        yield client


async def fork(place, name="run", account="ada"):
    client = await place.served.client(account)
    made = await client.create_branch(AGENTS, BranchRequest(name=name, baseline="facts", baseline_namespace=TEAM))
    async with place.served.world.db.connection() as conn:
        return await branches.get(conn, made.branch_id)


async def put(http, place, branch, sequence, *changes, trace=None, **headers):
    """Submit changes in a trace."""
    batch = {
        "branch_id": branch.branch_id,
        "sequence": sequence,
        "changes": [{"op": "put", "scope": "shared", "visibility": "shareable", **change} for change in changes],
        "source_locators": [[await place.served.world.evidence(branch)]] * len(changes),
        "base_revisions": ["0"] * len(changes),
    }
    batch["content_hash"] = batch_hash(batch)
    if trace is not None:
        headers["traceparent"] = str(trace)
    path = f"/v1/namespaces/{AGENTS}/branches/{branch.branch_id}/batches/{sequence}"
    answer = await http.put(path, content=json.dumps(batch), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def newest(db, line):
    """The event that was told last."""
    async with db.connection() as conn:
        return (await events.after(conn, line=line, after_sequence=0, limit=1_000, scopes=None)).events[-1]


@contextlib.asynccontextmanager
async def following(http, count):
    """A stream's next events as CloudEvents, from when all that was missed is read."""
    live = asyncio.Event()
    task = asyncio.create_task(follow(http, count, live))
    await live.wait()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def follow(http, count, live):
    found, parser = [], Parser()
    async with http.stream("GET", FOLLOW, headers={"Accept": "text/event-stream"}) as answer:
        async for piece in answer.aiter_bytes():
            for message in parser.feed(piece):
                if message.data:
                    found.append(json.loads(message.data))
                else:
                    live.set()
                if len(found) == count:
                    live.set()
                    return found
    return found


async def test_one_trace_leads_from_a_receipt_over_a_publication_to_its_delivery(place, http, seen):
    await place.set_up()
    branch = await fork(place)
    async with following(http, 1) as stream:
        await put(http, place, branch, 1, {"key": "d", "content": 4}, trace=caller())
        await place.served.world.work()
        (event,) = await stream

    trace = caller().trace_id
    parents = {span.name: seen.parent(span) for span in seen.spans if trace_of(span) == trace}
    assert parents == {
        PUT: "remote",
        "receive batches": PUT,
        "work on job": PUT,
        "begin": "work on job",
        "import": "work on job",
        "validate": "work on job",
        "publish": "work on job",
        "publish generation": "publish",
        "deliver events": "publish generation",
    }
    assert f"{seen.one(PUT, trace).parent.span_id:016x}" == caller().span_id
    assert seen.one("publish generation").attributes["anabranch.generation"] == 2
    assert seen.one("deliver events").attributes["anabranch.followers"] == 1

    # What is delivered brings the trace on, by the name that CloudEvents has for it.
    published = f"00-{trace}-{span_of(seen.one('publish generation'))}-01"
    assert event["traceparent"] == event["data"]["traceparent"] == published
    # And whoever asks for the job is told of it.
    client = await place.served.client()
    (job,) = [job async for job in client.jobs(TEAM)]
    assert job.trace_id == trace
    assert {step.trace_id for step in await client.transitions(TEAM, job.name)} == {trace}


async def test_a_job_goes_on_with_the_first_recorded_trace_of_its_batches_and_names_the_others(place, http, seen):
    await place.set_up()
    branch = await fork(place)
    for number in (1, 2, 3):
        await put(http, place, branch, number, {"key": f"k{number}", "content": number}, trace=caller(number))
    await place.served.world.work()
    first, *others = [span_of(seen.one(PUT, caller(number).trace_id)) for number in (1, 2, 3)]
    work = seen.one("work on job")
    assert f"{work.parent.span_id:016x}" == first
    assert links_of(work) == set(others)


async def test_jobs_that_are_published_together_each_have_it_in_their_own_trace(place, http, seen):
    await place.set_up()
    world = place.served.world
    runs = [await fork(place, f"run-{number}") for number in (1, 2, 3)]
    for number, branch in enumerate(runs, start=1):
        await put(http, place, branch, 1, {"key": f"k{number}", "content": number}, trace=caller(number))
    await together(world)

    spans_of = [seen.one("publish generation", caller(number).trace_id) for number in (1, 2, 3)]
    assert {span.attributes["anabranch.jobs"] for span in spans_of} == {3}
    (first,) = [span for span in spans_of if len(links_of(span)) == 2]
    assert all(links_of(span) == {span_of(first)} for span in spans_of if span is not first)
    # Each finding is told in the trace that it came by.
    async with following(http, 3) as stream:
        told = {event["data"]["key"]: event["traceparent"].split("-")[1:3] for event in await stream}
    assert told == {f"k{number}": [trace_of(span), span_of(span)] for number, span in enumerate(spans_of, start=1)}


async def together(world):
    """Work on all jobs up to their publication, and then publish them as one."""
    await schedule.make_jobs(world.db)
    async with world.db.connection() as conn:
        claim = await leases.claim(conn, holder=world.holder, limit=10)
    met, outcomes, done = [], {}, asyncio.Event()

    class Meeting:
        async def publish(self, job, together):
            met.append(job)
            if len(met) == len(claim.jobs):
                await together(met, outcomes)
                done.set()
            await done.wait()
            return outcomes[job.job_id]

    services = replace(world.services, gathering=Meeting())
    await asyncio.gather(*(work.advance(services, job) for job in claim.jobs))


async def test_a_worker_that_is_killed_at_any_step_leaves_a_trace_that_goes_on(place, http, seen):
    await place.set_up()
    world, branch, uses = place.served.world, await fork(place), 0
    for sequence in range(1, 60):
        trace = caller(sequence).trace_id
        await put(http, place, branch, sequence, {"key": f"k{sequence}", "content": 1}, trace=caller(sequence))
        dying = DyingDatabase(world.db, at=sequence, before=False)
        with contextlib.suppress(KilledError):
            await world.work(services=replace(world.another_operator(), db=dying))
            uses = sequence
        async with world.db.connection() as conn:
            await conn.execute("UPDATE jobs SET lease_deadline = now(), due_at = now() WHERE finished_at IS NULL")
        await world.work()
        row = await newest(world.db, branch.line)
        assert (row.key, trace_id_of(row.traceparent)) == (f"k{sequence}", trace)
        if uses:
            break
    else:
        pytest.fail("a job has more steps than that")
    assert uses > 8


async def test_what_waits_for_a_reviewer_goes_on_in_its_trace_and_shows_the_wait(place, http, seen):
    await place.set_up()
    await place.declare(review={"mode": "Manual"})
    world, branch = place.served.world, await fork(place)
    await put(http, place, branch, 1, {"key": "d", "content": 4}, trace=caller())
    await world.work()
    assert not seen.named("await review")
    (job,) = await world.jobs()
    await world.decide(job.job_id)
    await world.work()
    wait, trace = seen.one("await review"), caller().trace_id
    assert trace_of(wait) == trace_of(seen.one("publish generation")) == trace
    assert seen.parent(wait) == "review"
    assert wait.start_time < seen.named("work on job")[0].end_time < wait.end_time


@pytest.mark.parametrize("asked", [(batches, "traces"), (jobs, "since")], ids=lambda asked: asked[1])
async def test_what_is_asked_for_a_trace_alone_fails_no_job(place, http, seen, monkeypatch, asked):
    calls = []

    async def fails(*_, **__):
        calls.append(asked)
        raise UnavailableError("Postgres is away.", hint="Wait.")

    monkeypatch.setattr(*asked, fails)
    await place.set_up()
    await place.declare(review={"mode": "Manual"})
    world, branch = place.served.world, await fork(place)
    await put(http, place, branch, 1, {"key": "d", "content": 4}, trace=caller())
    await world.work()
    (job,) = await world.jobs()
    await world.decide(job.job_id)
    await world.work()
    (job,) = await world.jobs()
    assert (job.state, job.last_error) == ("published", None)
    assert calls
    assert all("error.type" not in span.attributes for span in seen.spans)


@contextlib.asynccontextmanager
async def over_http(place):
    """Tools over HTTP, called in a trace, as a runtime that traces its requests does it."""
    headers = {"Authorization": "Bearer ada", "traceparent": str(caller())}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{place.served.url}/mcp", http_client=http)) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(place):
    """Tools by the command, which knows a caller's trace from the call alone."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "anabranch.cli.main", "mcp", f"--namespace={AGENTS}"],
        env={"ANABRANCH_URL": place.served.url, "ANABRANCH_TOKEN": "ada"},
    )
    async with Client(command) as client:
        yield client


@pytest.mark.parametrize("way", [over_http, over_stdio], ids=["http", "stdio"])
async def test_a_finding_that_comes_by_a_tool_is_in_the_trace_of_the_call(place, seen, way):
    await place.set_up()
    await fork(place)
    found = {"key": "d", "content": 4, "evidence": "a log"}
    arguments = {"namespace": AGENTS, "branch": "run", "sequence": 1, "findings": [found]}
    async with way(place) as client:
        given = await client.call_tool("submit_findings", arguments, meta={"traceparent": str(caller())})
    assert not given.is_error, given.content
    await place.served.world.work()
    receipt = seen.one("receive batches", caller().trace_id)
    assert seen.parent(receipt) == {over_http: "POST /mcp", over_stdio: PUT}[way]
    (job,) = await place.served.world.jobs()
    assert trace_id_of(job.traceparent) == caller().trace_id


async def test_what_is_split_off_goes_on_in_the_same_trace(place, http, seen):
    await place.set_up()
    world, branch = place.served.world, await fork(place)
    await put(http, place, branch, 1, {"key": "a", "content": "else"}, {"key": "d", "content": 4}, trace=caller())
    await world.work()
    held = next(job for job in await world.jobs() if job.origin == "Held")
    assert trace_id_of(held.traceparent) == caller().trace_id


async def test_a_batch_that_comes_again_in_another_trace_stays_in_its_own(place, http, seen):
    await place.set_up()
    branch = await fork(place)
    await put(http, place, branch, 1, {"key": "d", "content": 4}, trace=caller(1))
    await put(http, place, branch, 1, {"key": "d", "content": 4}, trace=caller(2))
    await place.served.world.work()
    assert trace_of(seen.one("work on job")) == caller(1).trace_id


async def test_a_poll_is_a_delivery_where_its_own_request_is_recorded(place, http, seen):
    await place.set_up()
    await put(http, place, await fork(place), 1, {"key": "d", "content": 4}, trace=caller())
    await place.served.world.work()
    page = (await http.get(FOLLOW, headers={"traceparent": str(caller(7))})).json()
    delivery, poll = seen.one("deliver events"), seen.one(EVENTS, caller(7).trace_id)
    assert trace_of(delivery) == caller().trace_id
    assert seen.parent(delivery) == "publish generation"
    assert links_of(delivery) == {span_of(poll)}
    assert page["events"][0]["traceparent"].split("-")[1] == caller().trace_id
    await http.get(FOLLOW, headers={"traceparent": str(caller(8, sampled=False))})
    assert len(seen.named("deliver events")) == 1


async def test_without_a_recorder_a_callers_trace_is_carried_and_never_called_recorded(place, http):
    await place.set_up()
    await put(http, place, await fork(place), 1, {"key": "d", "content": 4}, trace=caller())
    await place.served.world.work()
    (job,) = await place.served.world.jobs()
    carried = str(caller(sampled=False))
    event = await newest(place.served.world.db, job.line)
    assert (job.traceparent, event.traceparent) == (carried, carried)


async def test_where_nobody_traces_nothing_is_kept_or_said_of_it(place, http):
    await place.set_up()
    await put(http, place, await fork(place), 1, {"key": "d", "content": 4})
    await place.served.world.work()
    (job,) = await place.served.world.jobs()
    assert job.traceparent is None
    (event,) = (await http.get(FOLLOW)).json()["events"]
    assert "traceparent" not in event


async def test_no_span_tells_what_agents_write_or_look_for_nor_their_tokens(place, http, seen):
    """Whatever goes right or wrong: the words stand in contents, keys, private records, memory, queries and tokens."""
    await place.set_up()
    word = f"swordfish-{secrets.token_hex(4)}"
    world, branch, of_branch = place.served.world, await fork(place), f"/v1/namespaces/{AGENTS}/branches/run"
    agent, team = f"/v1/namespaces/{AGENTS}/agents/ada/main", f"/v1/namespaces/{TEAM}/baselines/facts"
    bad = {"Authorization": f"Bearer {word}\x20{word}", "traceparent": f"00-{word}"}
    await put(http, place, branch, 1, {"key": word, "content": {word: word}}, tracestate=f"x={word}", baggage=word)
    await world.work()
    answers = [
        await http.put(f"{of_branch}/records/{word}", json={"content": word, "scope": "shared"}),
        await http.get(f"{of_branch}/view/{word}"),
        await http.get(f"{team}/search", params={"q": word}),
        await http.get(f"{team}/manifests/current/records/{word}"),
        await http.put(f"{agent}/memory/daily/2026-01-31", json={"content": word}),
        await http.post(f"{agent}/memory/sync", json={"mode": "patch", "sections": {"long_term": word}}),
        await http.put(f"{agent}/memory/{word}", json={"content": word}),
        await http.get(f"{team}/{word}", params={word: word}),
        await http.get(f"/{word}"),
        await http.get(f"/v1/namespaces/{word}%20{word}/baselines/facts"),
        await http.get(f"{of_branch}/records/{word}", headers=bad),
        await http.put(f"{of_branch}/batches/2", content=f'{{"{word}": "{word}"}}'),
        await http.put(f"{of_branch}/checkpoints/{word}", json={"capsule": {"goal": word}}),
    ]
    assert {answer.status_code // 100 for answer in answers} >= {2, 4}
    told = list(seen.texts())
    assert {"write memory", "search"} <= set(told)
    assert not [text for text in told if word in text]


async def test_a_span_of_a_defect_names_its_kind_and_none_of_its_words(seen):
    word = "swordfish"
    with pytest.raises(ValueError, match=word), tracing.begun("job"):
        raise ValueError(word)
    (span,) = seen.spans
    assert (span.attributes["error.type"], span.events) == ("ValueError", ())
    assert not [text for text in seen.texts() if word in text]
