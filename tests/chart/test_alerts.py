"""The alerts: each leads to its section of the runbook, and none is about another release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.chart.rendering import EXISTING, NAMESPACE, HelmError

RUNBOOK = Path(__file__).parents[2] / "docs/runbook.md"
RULE = {"enabled": True, "labels": {"release": "prometheus"}, "runbookUrl": "https://wiki.example/runbook"}


@pytest.fixture
def rule(render):
    return render({**EXISTING, "metrics": {"prometheusRule": RULE}}).get("PrometheusRule", "anabranch")


def test_each_alert_leads_to_its_section_of_the_runbook(rule):
    (group,) = rule["spec"]["groups"]
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert [each["alert"] for each in group["rules"]] == sections
    for each in group["rules"]:
        assert each["annotations"]["runbook_url"] == f"https://wiki.example/runbook#{each['alert'].lower()}"
        assert each["annotations"].keys() == {"runbook_url", "summary", "description"}
        assert each["labels"]["severity"] in {"critical", "warning"}


def test_an_alert_looks_at_the_releases_namespace_and_at_names_that_the_chart_makes(rule, render):
    made = render().names("Deployment")
    for each in rule["spec"]["groups"][0]["rules"]:
        series = re.findall(r"\{([^}]*)\}", each["expr"])
        assert series
        for selector in series:
            assert f'namespace="{NAMESPACE}"' in selector
        assert set(re.findall(r'deployment="([^"]+)"', each["expr"])) <= made


def test_a_prometheus_can_select_it_and_it_is_made_on_request_only(rule, render):
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert not render().of("PrometheusRule")
    with pytest.raises(HelmError, match=r"metrics\.prometheusRule\.runbookUrl is needed"):
        render({**EXISTING, "metrics": {"prometheusRule": {"enabled": True}}})
