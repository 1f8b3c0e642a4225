"""Operator and API as they run: one trace in a collector, from a receipt to its delivery, also when one is killed."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from tests.cluster.places import eventually, finding
from tests.collector import collector

from anabranch.client import AnabranchClient

pytestmark = pytest.mark.outages

PUT = "PUT /v1/namespaces/{namespace}/branches/{branch}/batches/{sequence}"


class Collected:
    """What the processes have sent."""

    def __init__(self, requests):
        self._requests = requests

    def of(self, trace):
        """The spans of a trace, by name, each with the service that it comes from."""
        found = {}
        for _, request in list(self._requests):
            for resource in request.resource_spans:
                (service,) = [
                    each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
                ]
                for scope in resource.scope_spans:
                    found |= {span.name: (service, span) for span in scope.spans if span.trace_id.hex() == trace}
        return found


@pytest.fixture(scope="module")
async def traced(place):
    """The operator, and an API beside the usual one, with a collector; and what that was sent."""
    stack = place.stack
    with collector() as (endpoint, requests):
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        await asyncio.to_thread(stack.stop, "operator")
        try:
            await asyncio.gather(
                asyncio.to_thread(stack.start_operator, **told), asyncio.to_thread(stack.start_api, "traced", **told)
            )
            yield Collected(requests), told
        finally:
            for name in ("operator", "traced"):
                await asyncio.to_thread(stack.stop, name)
            await asyncio.to_thread(stack.start_operator)


@pytest.fixture
async def agent(place, traced):
    """An agent at the API that traces, in a trace of its own."""
    token, trace = place.account("scout", "anabranch-agent"), secrets.token_hex(16)
    async with AnabranchClient(place.stack.url("traced"), token=token) as client:
        branch = await place.branch(client)
        client._http.headers["traceparent"] = f"00-{trace}-{secrets.token_hex(8)}-01"
        yield client, branch, trace


async def test_two_processes_make_one_trace_of_a_finding(place, traced, agent):
    client, branch, trace = agent
    start = await client.events(place.namespace, "facts")
    await place.submit(client, branch, finding("traced/one", 1))
    await place.publication(client, branch)
    page = await client.events(place.namespace, "facts", after=start.cursor)

    async def whole():
        found = traced[0].of(trace)
        return found if {"work on job", "publish generation", "deliver events"} <= found.keys() else None

    spans = await eventually(whole)
    services = {name: spans[name][0] for name in (PUT, "work on job", "publish generation", "deliver events")}
    assert services == {
        PUT: "anabranch-api",
        "work on job": "anabranch-operator",
        "publish generation": "anabranch-operator",
        "deliver events": "anabranch-api",
    }
    for child, parent in (("work on job", PUT), ("deliver events", "publish generation")):
        assert spans[child][1].parent_span_id == spans[parent][1].span_id
    assert {event.traceparent.split("-")[1] for event in page.events} == {trace}
    (job,) = [job async for job in client.jobs(place.namespace, branch=branch.branch_id)]
    assert job.trace_id == trace


async def test_a_trace_goes_on_when_the_operator_is_killed_once_it_has_published(place, traced, agent):
    client, branch, trace = agent
    start = await client.events(place.namespace, "facts")
    await place.submit(client, branch, finding("traced/two", 2))
    await place.publication(client, branch)
    await asyncio.to_thread(place.stack.kill, "operator")
    try:
        page = await client.events(place.namespace, "facts", after=start.cursor)
        assert {event.traceparent.split("-")[1] for event in page.events} == {trace}
        await eventually(lambda: delivered(traced[0], trace))
    finally:
        await asyncio.to_thread(place.stack.start_operator, **traced[1])
    await place.submit(client, branch, finding("traced/three", 3), sequence=2)
    await place.publication(client, branch, sequence=2)
    assert {job.trace_id async for job in client.jobs(place.namespace, branch=branch.branch_id)} == {trace}


async def delivered(collected, trace):
    return "deliver events" in collected.of(trace)
