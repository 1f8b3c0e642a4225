"""Spans of a release: what the chart says of them is what its processes read, and they may reach the collector."""

from __future__ import annotations

import pytest
from tests.chart.rendering import EXISTING, HelmError
from tests.chart.test_security import ports

from anabranch.telemetry.sampling import Settings

PROCESSES = ("anabranch-api", "anabranch-operator")
COLLECTOR = {"endpoint": "http://otel-collector.observability:4318"}


def values(**tracing):
    return {**EXISTING, "tracing": tracing}


def told(rendered, name):
    return Settings.from_environment(
        {key: value for key, value in rendered.env(name).items() if isinstance(value, str)}
    )


def test_without_a_collector_nothing_is_said_of_it(render):
    rendered = render()
    for name in PROCESSES:
        assert told(rendered, name) is None
        assert not [each for each in rendered.env(name) if each.startswith(("OTEL", "ANABRANCH_TRACE"))]


def test_both_processes_read_what_the_chart_tells_them(render):
    more = {"sampler": "traceidratio", "ratio": 0.01, "callers": "link", "callersPerSecond": 0.5}
    for name in PROCESSES:
        assert told(render(values(**COLLECTOR)), name) == Settings(share=0.1)
        assert told(render(values(**COLLECTOR, **more)), name) == Settings(
            share=0.01, heeds=False, callers="link", per_second=0.5
        )


def test_what_the_collector_asks_for_comes_from_a_secret(render):
    for name in PROCESSES:
        assert "OTEL_EXPORTER_OTLP_HEADERS" not in render(values(**COLLECTOR)).env(name)
        rendered = render(values(**COLLECTOR, headersSecret="collector"))
        assert rendered.env(name)["OTEL_EXPORTER_OTLP_HEADERS"] == ("collector", "headers")


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("http://collector:4318", 4318), ("https://traces.example/otlp", 443), ("http://[fd00::1]:80/", 80)],
)
def test_both_processes_may_reach_the_collector_and_no_other_pod_may(render, endpoint, port):
    tracing = [render(values(**each)) for each in ({}, {"endpoint": endpoint})]
    for name in (*PROCESSES, "anabranch-migrate"):
        without, with_ = (ports(each.get("NetworkPolicy", name)["spec"]["egress"]) for each in tracing)
        assert with_ - without == ({port} - without if name in PROCESSES else set())


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "collector:4318"},
        {"endpoint": "http://user:pw@collector"},
        {"ratio": 2},
        {"sampler": "jaeger_remote"},
    ],
)
def test_what_is_none_is_refused(render, wrong):
    with pytest.raises(HelmError, match=f"/tracing/{next(iter(wrong))}"):
        render(values(**COLLECTOR | wrong))
