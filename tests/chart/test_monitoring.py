"""What watches the release: alerts and dashboard ask for metrics that there are, and each alert leads to its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
from tests.chart.rendering import CHART, EXISTING, NAMESPACE, HelmError

from anabranch.telemetry import reference

RUNBOOKS = Path(__file__).parents[2] / "docs/runbooks"
RULE = {"enabled": True, "labels": {"release": "prometheus"}, "runbookUrl": "https://wiki.example/runbooks/"}
ALL = {
    "prometheusRule": RULE,
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
    "dashboard": {"enabled": True},
}
PARTS = ("Meaning", "Impact", "Diagnosis", "Mitigation")
OWN = {series: each.labels for each in reference.declared() for series in each.series}
TARGET = {"namespace", "pod", "container", "service", "endpoint", "job", "instance", "le"}
"""Labels that a scrape adds, and that of a histogram's buckets."""


@pytest.fixture(scope="module")
def watched(render):
    return render({**EXISTING, "metrics": ALL})


@pytest.fixture
def rules(watched):
    (group,) = watched.get("PrometheusRule", "anabranch")["spec"]["groups"]
    return group["rules"]


def selectors(node):
    """Every selector of an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("lhs", "rhs", "expr", "args", "vector_selector", "param"):
        inner = getattr(node, name, None)
        for each in inner if isinstance(inner, list) else [inner]:
            if each is not None and not isinstance(each, str | int | float):
                yield from selectors(each)


def check(expression):
    """An expression asks for metrics that there are, by labels that they have, in one release's namespace."""
    found = list(selectors(promql_parser.parse(expression)))
    assert found, expression
    for each in found:
        matchers = {matcher.name: matcher.value for matcher in each.matchers.matchers}
        assert matchers["namespace"] == NAMESPACE
        if not each.name.startswith("kube_"):
            assert each.name in OWN, f"there is no metric {each.name}"
            assert matchers.keys() <= {*OWN[each.name], *TARGET}, each.name
    return found


def test_alerts_ask_for_metrics_that_there_are(rules):
    assert len({each["alert"] for each in rules}) == len(rules) > 15
    own = {each.name for rule in rules for each in check(rule["expr"])} & OWN.keys()
    assert len(own) > 10


def test_a_metric_that_there_is_not_is_noticed_wherever_it_stands():
    for wrong in (
        'sum(rate(anabranch_no_such_total{namespace="memory"}[5m])) > 1',
        '1 > bool (max(anabranch_leader{namespace="memory"}) or topk(2, anabranch_leaders{namespace="memory"}))',
        'histogram_quantile(0.9, sum by (le) (rate(anabranch_api_request_duration_bucket{namespace="memory"}[1m])))',
    ):
        with pytest.raises(AssertionError, match="there is no metric anabranch_"):
            check(wrong)
    with pytest.raises(AssertionError):
        check('anabranch_leader{namespace="memory", brnach="x"}')


def test_the_kube_state_metrics_are_asked_about_objects_that_the_chart_makes(rules, watched):
    named = {name for rule in rules for name in re.findall(r'deployment="([^"]+)"', rule["expr"])}
    assert named <= watched.names("Deployment")


def test_an_alerts_words_use_labels_that_its_expression_leaves(rules):
    for rule in rules:
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
        kept = re.search(r"sum by \(([^)]*)\)|max by \(([^)]*)\)", rule["expr"])
        if kept:
            assert used <= set(re.split(r", ?", kept[1] or kept[2])), rule["alert"]
        else:
            assert used <= TARGET | {"job_name"}, rule["alert"]


def test_each_alert_leads_to_its_page_which_has_all_four_parts(rules):
    assert {each["alert"] for each in rules} == {page.stem for page in RUNBOOKS.glob("*.md")}
    index = (RUNBOOKS.parent / "runbook.md").read_text()
    for each in rules:
        text = (RUNBOOKS / f"{each['alert']}.md").read_text()
        assert text.startswith(f"# {each['alert']}\n")
        assert tuple(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == PARTS
        assert (
            f"(runbooks/{each['alert']}.md) | {each['labels']['severity']} | {each['annotations']['summary']}" in index
        )
        assert each["annotations"]["runbook_url"] == f"https://wiki.example/runbooks/{each['alert']}.md"
        assert each["annotations"].keys() == {"runbook_url", "summary", "description"}
        assert each["labels"]["severity"] in {"critical", "warning"}


def test_pages_name_metrics_and_pages_that_there_are():
    names = {each.name for each in reference.declared()} | OWN.keys()
    for page in [*RUNBOOKS.glob("*.md"), RUNBOOKS.parent / "runbook.md"]:
        text = page.read_text()
        assert set(re.findall(r"anabranch_[a-z_]+", text)) <= {*names, "anabranch_"}, page.name
        for link in re.findall(r"\]\(([^)#:]+)", text):
            assert (page.parent / link).exists(), (page.name, link)


def test_the_dashboard_asks_for_metrics_that_there_are(watched):
    config_map = watched.get("ConfigMap", "anabranch-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = json.loads(config_map["data"]["anabranch.json"])
    assert dashboard == json.loads((CHART / "files/dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "5m").replace("$namespace", NAMESPACE)
            labels = {label for each in check(expression) for label in OWN[each.name]}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels | TARGET
    (variable,) = [each for each in dashboard["templating"]["list"] if each["name"] == "namespace"]
    assert "anabranch_build_info" in variable["query"]
    assert "anabranch_build_info" in OWN


def test_a_scrape_reaches_both_programs_on_a_port_that_no_caller_reaches(watched):
    monitor = watched.get("ServiceMonitor", "anabranch")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    scraped = [each for each in watched.of("Service") if wanted.items() <= each["metadata"]["labels"].items()]
    assert {each["metadata"]["name"] for each in scraped} == {"anabranch-operator-metrics", "anabranch-api-metrics"}
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == ["metrics"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    for service in scraped:
        component = service["spec"]["selector"]["app.kubernetes.io/component"]
        container = watched.container(f"anabranch-{component}")
        (port,) = service["spec"]["ports"]
        (named,) = [each for each in container["ports"] if each["name"] == port["targetPort"]]
        assert f"--health-port={named['containerPort']}" in container["args"]
        policy = watched.get("NetworkPolicy", f"anabranch-{component}")
        assert any({"protocol": "TCP", "port": "http"} in each["ports"] for each in policy["spec"]["ingress"])
    called = watched.get("Service", "anabranch-api")["spec"]["ports"]
    assert [port["targetPort"] for port in called] == ["api"]


def test_whoever_may_scrape_is_told_for_both(render):
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    rendered = render({**EXISTING, "networkPolicy": {"metricsFrom": peers}})
    for component in ("operator", "api"):
        ingress = rendered.get("NetworkPolicy", f"anabranch-{component}")["spec"]["ingress"]
        (inner,) = [each for each in ingress if {"protocol": "TCP", "port": "http"} in each["ports"]]
        assert inner["from"] == peers


def test_all_of_it_is_made_on_request_only(watched, render):
    assert watched.get("PrometheusRule", "anabranch")["metadata"]["labels"]["release"] == "prometheus"
    plain = render()
    assert not plain.of("PrometheusRule")
    assert not plain.of("ServiceMonitor")
    assert "anabranch-dashboard" not in plain.names("ConfigMap")
    with pytest.raises(HelmError, match=r"metrics\.prometheusRule\.runbookUrl is needed"):
        render({**EXISTING, "metrics": {"prometheusRule": {"enabled": True}}})
