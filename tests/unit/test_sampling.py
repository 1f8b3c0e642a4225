"""What is recorded: as OpenTelemetry's variables say, and no more of it for a caller who asks for all."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from anabranch.model.errors import InvalidInputError
from anabranch.model.trace import TraceContext
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.exporting import Recorder
from anabranch.telemetry.sampling import Settings

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
CALLER = TraceContext("a" * 32, "b" * 16, sampled=True)
UNSAMPLED = TraceContext("a" * 32, "b" * 16, sampled=False)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def recorder(clock=None, exporter=None, **settings):
    return Recorder(
        Settings(**settings), [SimpleSpanProcessor(exporter or InMemorySpanExporter())], clock=clock or Clock()
    )


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", CALLER),
        (f"00-{'a' * 32}-{'b' * 16}-03", CALLER),
        (f"00-{'a' * 32}-{'b' * 16}-00", UNSAMPLED),
        (f"cc-{'a' * 32}-{'b' * 16}-01-what-comes-later", CALLER),
        (f"cc-{'a' * 32}-{'b' * 16}-01", CALLER),
        (f"cc-{'a' * 32}-{'b' * 16}-01.later", None),
        (f"00-{'a' * 32}-{'b' * 16}-01-more", None),
        (f"ff-{'a' * 32}-{'b' * 16}-01", None),
        (f"00-{'0' * 32}-{'b' * 16}-01", None),
        (f"00-{'a' * 32}-{'0' * 16}-01", None),
        (f"00-{'A' * 32}-{'b' * 16}-01", None),
        (f"00-{'a' * 32}-{'b' * 16}-01\n", None),
        (f"cc-{'a' * 32}-{'b' * 16}-01-{'x' * 500}", None),
        ("", None),
        (None, None),
    ],
)
def test_a_traceparent_is_read_as_the_recommendation_says(text, context):
    assert TraceContext.parse(text) == context


def test_what_is_read_is_written_in_one_spelling():
    assert str(TraceContext.parse(f"cc-{'a' * 32}-{'b' * 16}-ff-later")) == f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "anabranch"}, None),
        (ENDPOINT, Settings()),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, Settings()),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, None),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, None),
        (ENDPOINT | {"OTEL_TRACES_SAMPLER": "always_off"}, Settings(share=0.0, heeds=False)),
        (
            ENDPOINT | {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            Settings(share=0.25),
        ),
        (
            ENDPOINT | {"ANABRANCH_TRACE_CALLERS": "link", "ANABRANCH_TRACE_CALLERS_PER_SECOND": "2"},
            Settings(callers="link", per_second=2.0),
        ),
    ],
)
def test_the_environment_says_what_is_recorded(environment, settings):
    assert Settings.from_environment(environment) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"ANABRANCH_TRACE_CALLERS": "trust"},
        {"ANABRANCH_TRACE_CALLERS_PER_SECOND": "many"},
    ],
)
def test_what_there_is_not_is_refused_at_the_start(wrong):
    with pytest.raises(InvalidInputError, match=next(reversed(wrong))):
        Settings.from_environment(ENDPOINT | wrong)


def test_callers_who_ask_for_everything_are_granted_some_a_second():
    clock = Clock()
    recording = recorder(clock, share=0.0, per_second=3.0)
    assert sum(recording.admits(CALLER) for _ in range(1_000)) == 30  # saved up for ten seconds
    clock.now += 2.0
    assert sum(recording.admits(CALLER) for _ in range(1_000)) == 6
    assert not recording.admits(UNSAMPLED)


def test_what_a_caller_says_counts_for_nothing_where_the_sampler_does_not_heed_it():
    assert not recorder(share=0.0, heeds=False).admits(CALLER)
    assert recorder(share=1.0, heeds=False).admits(UNSAMPLED)


def test_chance_decides_and_not_the_id_that_a_caller_has_chosen(monkeypatch):
    drawn = iter([0.05, 0.95] * 2)
    monkeypatch.setattr("anabranch.telemetry.exporting.random.random", lambda: next(drawn))
    recording = recorder(share=0.1, heeds=False)
    assert [recording.admits(CALLER) for _ in range(4)] == [True, False, True, False]


def test_a_callers_trace_goes_on_here_or_is_named_by_one_of_our_own():
    exporter = InMemorySpanExporter()
    with tracing.recorded_by(recorder(exporter=exporter, callers="link")):
        tracing.request(str(CALLER)).end()
    with tracing.recorded_by(recorder(exporter=exporter)):
        tracing.request(str(CALLER)).end()
    linked, continued = exporter.get_finished_spans()
    assert (linked.parent, len(linked.links)) == (None, 1)
    assert f"{linked.links[0].context.trace_id:032x}" == CALLER.trace_id != f"{linked.context.trace_id:032x}"
    assert (f"{continued.context.trace_id:032x}", continued.links) == (CALLER.trace_id, ())


def test_what_is_not_recorded_is_handed_on_as_not_recorded():
    with tracing.recorded_by(recorder(share=0.0, per_second=0.0)):
        assert not tracing.request(str(CALLER)).recorded
        assert tracing.handed_on() == str(UNSAMPLED)
        assert tracing.ids() == {"trace_id": CALLER.trace_id}
        assert logs._with_ids(None, "info", {"event": "here"})["trace_id"] == CALLER.trace_id
    tracing.request(None)
    assert (tracing.handed_on(), tracing.ids()) == (None, {})


def test_work_that_serves_more_traces_than_are_told_goes_on_in_all_of_them():
    exporter = InMemorySpanExporter()
    contexts = [str(TraceContext(f"{number:032x}", "b" * 16, sampled=True)) for number in range(1, 50)]
    with tracing.recorded_by(recorder(exporter=exporter)), tracing.together("publish", contexts) as made:
        handed = [made.handed_on(context) for context in contexts]
    assert len(exporter.get_finished_spans()) == tracing.TOGETHER
    assert [text.split("-")[1] for text in handed] == [text.split("-")[1] for text in contexts]
    assert [text != before for text, before in zip(handed, contexts, strict=True)].count(True) == tracing.TOGETHER
