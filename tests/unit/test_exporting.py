"""Spans on their way to a collector: it gets them by OTLP, and one that is down or silent costs nothing but spans."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.collector import collector
from tests.pace import allowed

from anabranch.client import AnabranchClient
from anabranch.model.errors import InvalidInputError
from anabranch.telemetry import exporting, tracing
from anabranch.telemetry.common import SPANS
from anabranch.telemetry.sampling import Settings
from anabranch.telemetry.sending import Sender


@pytest.fixture
def environment(monkeypatch):
    def make(endpoint, **more):
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20", **more}
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        return named

    return make


@pytest.fixture(autouse=True)
def nothing_goes_on():
    """No thread of an exporter outlives the end: it would draw random numbers, and log, beside what comes next."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + allowed(3)
    while left := {each for each in threading.enumerate() if each not in before and "asyncio" not in each.name}:
        assert time.monotonic() < until, f"still running: {left}"
        time.sleep(0.02)


async def test_a_collector_is_sent_spans_with_what_the_process_is(environment):
    with collector() as (endpoint, requests):
        named = environment(endpoint, OTEL_RESOURCE_ATTRIBUTES="k8s.pod.name=api-7,service.namespace=ours")
        async with exporting.exported("anabranch-api", named):
            with tracing.begun("reconcile Branch", branch="run"), tracing.span("part", kind="client"):
                pass
    ((path, request),) = requests
    (resource,) = request.resource_spans
    told = {each.key: each.value.string_value for each in resource.resource.attributes}
    names = ("service.name", "service.namespace", "k8s.pod.name")
    assert (path, *(told[name] for name in names)) == ("/v1/traces", "anabranch-api", "ours", "api-7")
    part, whole = resource.scope_spans[0].spans
    assert (whole.name, part.name, part.parent_span_id) == ("reconcile Branch", "part", whole.span_id)
    assert [each.key for each in whole.attributes] == ["anabranch.branch"]


@pytest.mark.parametrize("silent", [True, False])
async def test_a_collector_that_is_silent_or_away_delays_nothing(environment, silent, monkeypatch):
    monkeypatch.setattr(exporting, "_PARTING_SECONDS", 0.5)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        if silent:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1.5")  # seconds for an answer, which nothing cuts short
        else:
            listening.close()
        named = environment(endpoint, OTEL_BSP_MAX_QUEUE_SIZE="8", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="4")
        began, longest = time.perf_counter(), 0.0
        async with exporting.exported("anabranch-api", named):
            for _ in range(200):
                before = time.perf_counter()
                with tracing.begun("work"):
                    await asyncio.sleep(0)
                longest = max(longest, time.perf_counter() - before)
        assert longest < allowed(1.0), "waiting for the silent one takes 1.5 s"
        assert time.perf_counter() - began < allowed(exporting._PARTING_SECONDS + 2)
    assert tracing._recorder is None


class Exporter(SpanExporter):
    """Does with each batch what it is told to, once it may."""

    def __init__(self, *results):
        self.results = list(results)
        self.may = threading.Event()

    def export(self, _spans):
        self.may.wait(10)
        result = self.results.pop(0) if self.results else SpanExportResult.SUCCESS
        if result is None:
            raise ConnectionError
        return result


def counts():
    return {outcome: SPANS.labels(outcome)._value.get() for outcome in ("exported", "lost")}


async def told(exporter, *, spans, queue, batch):
    """How many were sent and lost of some that end while the exporter may do nothing."""
    before = counts()
    sender = Sender(exporter, queue=queue, batch=batch)
    recorder = exporting.Recorder(Settings(), [sender])
    with tracing.recorded_by(recorder):
        for _ in range(spans):
            with tracing.begun("work"):
                pass
    exporter.may.set()
    await asyncio.to_thread(recorder.close)
    after = counts()
    return after["exported"] - before["exported"], after["lost"] - before["lost"]


async def test_what_was_sent_and_what_was_lost_is_counted():
    assert await told(Exporter(), spans=4, queue=4, batch=4) == (4, 0)
    assert await told(Exporter(SpanExportResult.FAILURE), spans=4, queue=4, batch=4) == (0, 4)


async def test_an_exporter_that_breaks_has_lost_its_batch(caplog):
    assert await told(Exporter(None), spans=2, queue=4, batch=4) == (0, 2)
    assert "Exception while exporting" in caplog.text


async def test_what_there_is_no_room_for_is_counted_as_lost_and_the_log_is_not_full_of_it(caplog):
    sent, lost = await told(Exporter(), spans=1_000, queue=8, batch=4)
    assert sent + lost == 1_000
    assert 8 <= sent <= 12, "the queue, and one batch that was under way"
    assert "Queue full" not in caplog.text


def test_a_queue_that_is_smaller_than_a_batch_is_refused_in_words(environment):
    named = environment("http://127.0.0.1:9", OTEL_BSP_MAX_QUEUE_SIZE="8")
    with pytest.raises(InvalidInputError, match="do not fit together"):
        asyncio.run(exporting.exported("anabranch-api", named).__aenter__())


def test_a_process_that_exports_nothing_does_not_load_the_library():
    program = (
        "import sys, asyncio\n"
        "from anabranch.telemetry.exporting import exported\n"
        "async def main():\n"
        "    async with exported('anabranch', {}): pass\n"
        "asyncio.run(main())\n"
        "sys.exit(any(name.startswith('opentelemetry.sdk') for name in sys.modules))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def called(**more):
    """What headers a call of the client has."""
    asked = []

    def answer(request):
        asked.append(request)
        return httpx.Response(404, json={})

    async with AnabranchClient("http://api", token="t", through=httpx.MockTransport(answer)) as client:
        with contextlib.suppress(Exception):
            await client.baseline("team", "facts")
        client._http.headers.update(more)
        with contextlib.suppress(Exception):
            await client.baseline("team", "facts")
    return [request.headers.get("traceparent") for request in asked]


async def test_the_client_names_the_span_of_a_program_that_traces_itself():
    with trace.use_span(TracerProvider(shutdown_on_exit=False).get_tracer("agent").start_span("think")) as span:
        named = span.get_span_context()
        own = f"00-{named.trace_id:032x}-{named.span_id:016x}-01"
        assert await called(traceparent="given") == [own, "given"]
    assert await called() == [None, None]
