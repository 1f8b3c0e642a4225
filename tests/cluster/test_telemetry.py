"""The running operator and API tell what they did: by metrics that move, and by log lines with ids and no content."""

from __future__ import annotations

import asyncio
import json
import secrets

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.places import eventually, finding

from anabranch.store import migrate
from anabranch.telemetry import reference

NAMED = "/v1/namespaces/{namespace}"
BATCH = f"{NAMED}/branches/{{branch}}/batches/{{sequence}}"
WORDS = f"swordfish-{secrets.token_hex(8)}"
COUNTED = (
    ("publication_duration_seconds_count", {}),
    ("publication_lock_seconds_count", {}),
    ("publication_changes_count", {}),
    ("batch_publication_seconds_count", {}),
    ("job_works_total", {"outcome": "advanced"}),
    ("reconcile_duration_seconds_count", {"kind": "Branch", "outcome": "done"}),
    ("status_writes_total", {"kind": "Branch", "outcome": "written"}),
)
"""What the operator counts of one finding, with labels."""


async def get(stack, name, path):
    async with httpx.AsyncClient(base_url=stack.inner_url(name), trust_env=False) as client:
        return await client.get(path)


async def scrape(stack, name):
    text = (await get(stack, name, "/metrics")).text
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.items())] = sample.value
    return found


def value(found, name, **labels):
    """The sum of a metric's samples that have these labels."""
    wanted = {(f"anabranch_{name}"), *labels.items()}
    return sum(count for sample, count in found.items() if wanted <= set(sample))


@pytest.fixture(scope="module")
async def story(place):
    """One finding, published and followed; what both processes told before and after it."""
    stack = place.stack
    await eventually(lambda: waits_are_read(stack))
    before = {name: await scrape(stack, name) for name in ("api", "operator")}
    logged = {name: stack.log(name).stat().st_size for name in before}
    agent = await place.client("scout", "anabranch-agent")
    start = await agent.events(place.namespace, "facts")
    branch = await place.branch(agent)
    await place.submit(agent, branch, finding("words", WORDS))
    await place.publication(agent, branch)
    await agent.events(place.namespace, "facts", after=start.cursor)
    refused = await place.raw(agent, "PUT", f"branches/{branch.branch_id}/batches/2", json={"words": WORDS})

    async def counted():
        """What the operator has done is seen a moment before it has counted and logged it."""
        now = await scrape(stack, "operator")
        log = stack.log("operator").read_bytes()[logged["operator"] :].decode()
        return '"event": "published"' in log and all(
            value(now, name, **labels) > value(before["operator"], name, **labels) for name, labels in COUNTED
        )

    await eventually(counted)
    after = {name: await scrape(stack, name) for name in before}
    logs = {name: stack.log(name).read_bytes()[begin:].decode() for name, begin in logged.items()}
    return before, after, logs, refused


async def waits_are_read(stack):
    return value(await scrape(stack, "operator"), "postgres_reading_timestamp_seconds")


async def test_the_api_counts_what_was_asked_of_it_on_both_ways(story):
    before, after, _, refused = story

    def moved(name, **labels):
        return value(after["api"], name, **labels) - value(before["api"], name, **labels)

    assert moved("api_request_duration_seconds_count", route=BATCH, method="PUT", status="2xx") == 1
    assert moved("api_request_duration_seconds_count", route=BATCH, method="PUT", status="4xx") == 1
    assert moved("api_request_duration_seconds_count", route=f"{NAMED}/branches", method="POST", status="2xx") == 1
    assert moved("api_request_body_bytes_total", route=BATCH) > len(WORDS)
    assert moved("api_problems_total", code="InvalidInput") == 1
    assert refused.status_code == 422
    assert refused.json()["request_id"] == refused.headers["x-request-id"]
    assert moved("review_duration_seconds_count", review="token", outcome="answered") >= 1
    assert moved("review_duration_seconds_count", review="access", outcome="answered") >= 1
    assert moved("review_lookups_total", review="token", outcome="hit") >= 1
    assert moved("feed_lag_events_sum") == 1, "the follower was one event behind when it asked"
    assert value(after["api"], "api_requests_in_flight") == 0
    assert value(after["api"], "postgres_connections", state="most") == 10


async def test_the_operator_counts_the_publication_and_tells_what_waits(story):
    before, after, _, _ = story

    def moved(name, **labels):
        return value(after["operator"], name, **labels) - value(before["operator"], name, **labels)

    for name, labels in COUNTED:
        assert moved(name, **labels) >= 1
    assert 0 < moved("batch_publication_seconds_sum") < 60
    found = after["operator"]
    assert value(found, "leader") == 1
    for kind in ("baselines", "branches", "consolidationjobs"):
        assert ("anabranch_watch_age_seconds", ("kind", kind)) in found
        assert value(found, "watch_age_seconds", kind=kind) < 150
    assert {("anabranch_lines",), ("anabranch_queue_due", ("queue", "jobs"))} <= found.keys()
    assert value(found, "schema_info", schema=migrate.head()) == value(found, "build_info", schema=migrate.head()) == 1


async def test_both_tell_nothing_that_is_not_documented(story):
    documented = {series for each in reference.declared() for series in each.series}
    for found in story[1].values():
        assert {sample[0] for sample in found} <= documented


async def test_each_log_line_is_json_that_names_its_object_and_none_quotes_what_an_agent_wrote(place, story):
    logs = story[2]
    lines = [json.loads(line) for line in logs["operator"].splitlines()]
    published = [line for line in lines if line["event"] == "published" and line["namespace"] == place.namespace]
    assert {"job", "job_id", "line", "branch_id", "generation", "timestamp"} <= published[0].keys()
    assert not [line for line in lines if line["level"] in {"error", "critical"}]
    [json.loads(line) for line in logs["api"].splitlines()]
    for log in logs.values():
        assert WORDS not in log
        assert not any(token in log for token in place._tokens.values())


async def test_what_is_not_well_is_said_by_the_inner_port_in_json(place):
    ready = await asyncio.gather(*(get(place.stack, name, "/readyz") for name in ("api", "operator")))
    for answer in ready:
        assert (answer.status_code, answer.json()["ok"], answer.json()["wrong"]) == (200, True, {})
