"""The values of the Helm chart, whole: from them `values.yaml`, its schema and its reference page are written.

What the code does not read is not here, so a value that is accepted is a value that acts. The named sources are the
models that the operator itself reads.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from anabranch.chart.base import Anything, Duration, Port, Values
from anabranch.chart.database import Database, Migration
from anabranch.chart.workloads import Api, Image, Operator
from anabranch.consolidation.sources.config import (  # noqa: TC001  (pydantic evaluates the annotations)
    EntryName,
    GitRepository,
    HttpSource,
)


class Crds(Values):
    """The definitions of Baseline, Branch and ConsolidationJob."""

    enabled: bool = Field(
        default=True, description="Whether the release holds them. If not, apply `crds/` before each upgrade."
    )
    keep: bool = Field(
        default=True,
        description="Whether they stay when the release is uninstalled. Without them the cluster deletes every "
        "Baseline, Branch and ConsolidationJob.",
    )


class NetworkPolicies(Values):
    """Who may talk to whom, where the network plugin enforces it."""

    enabled: bool = Field(default=True, description="Whether there are NetworkPolicies.")
    api_from: list[Anything] = Field(
        default_factory=list,
        description="Who may call the API, as a NetworkPolicy's `from`. Empty: every pod of the cluster, and whoever "
        "reaches the Service. A token is needed in any case.",
    )
    metrics_from: list[Anything] = Field(
        default_factory=list, description="Who may read metrics. Empty: every pod of the cluster."
    )
    api_server_ports: list[Port] = Field(
        default_factory=lambda: [443, 6443], min_length=1, description="Ports of the Kubernetes API server."
    )
    dns_ports: list[Port] = Field(
        default_factory=lambda: [53],
        min_length=1,
        description="Ports of the cluster's DNS, as its pods listen: 5353 for that of OpenShift.",
    )
    database_ports: list[Port] = Field(default_factory=lambda: [5432], min_length=1, description="Ports of Postgres.")
    extra_egress: list[Anything] = Field(
        default_factory=list,
        description="More that the operator may reach, as a NetworkPolicy's `egress`. `gitRepositories` and "
        "`httpSources` on port 443 need nothing here.",
    )


class ServiceMonitor(Values):
    """Who scrapes, for the Prometheus operator."""

    enabled: bool = Field(default=False, description="Whether there is a ServiceMonitor for operator and API.")
    labels: dict[str, str] = Field(default_factory=dict, description="Its labels, by which a Prometheus selects it.")
    interval: Duration = Field(default="30s", description="How often they are scraped.")


class PrometheusRule(Values):
    """Alerts for the Prometheus operator."""

    enabled: bool = Field(default=False, description="Whether there is a PrometheusRule.")
    labels: dict[str, str] = Field(default_factory=dict, description="Its labels, by which a Prometheus selects it.")
    runbook_url: str = Field(
        default="",
        description="Where your people read `docs/runbooks`: each alert links to its page there. Needed with the rule.",
    )


class Dashboard(Values):
    """A dashboard for Grafana."""

    enabled: bool = Field(default=False, description="Whether there is a ConfigMap with the dashboard.")
    labels: dict[str, str] = Field(
        default_factory=lambda: {"grafana_dashboard": "1"},
        description="Its labels, by which Grafana's sidecar finds it.",
    )


class Metrics(Values):
    """Who watches the release."""

    service_monitor: ServiceMonitor = Field(default_factory=ServiceMonitor, description="Who scrapes.")
    prometheus_rule: PrometheusRule = Field(
        default_factory=PrometheusRule,
        description="Alerts, from what the release tells (with the ServiceMonitor) and kube-state-metrics.",
    )
    dashboard: Dashboard = Field(default_factory=Dashboard, description="A dashboard for Grafana.")


class Uninstall(Values):
    """What happens before the release is deleted."""

    hook: bool = Field(
        default=True,
        description="Whether a Job stops the operator and takes its finalizer off Baselines before the release goes, "
        "so that no namespace hangs afterwards. It deletes no data.",
    )


class ChartValues(Values):
    """Values of the chart."""

    image: Image = Field(default_factory=Image, description="The image that everything runs, but for Postgres.")
    audience: Annotated[str, StringConstraints(max_length=253)] = Field(
        default="", description="What tokens for the API must be made for. Empty: `anabranch.<release namespace>`."
    )
    generate_secrets: bool = Field(
        default=True,
        description="Whether the chart may draw passwords and keys that you do not give. Say false where the chart is "
        "rendered without the cluster, as Argo CD does: each rendering would draw new ones.",
    )
    crds: Crds = Field(default_factory=Crds, description="The definitions of the three resources.")
    database: Database = Field(default_factory=Database, description="Postgres. The tests run on Postgres 18.")
    migration: Migration = Field(
        default_factory=Migration,
        description="The Job that brings the database to the release's schema. Where its pod may go, those of "
        "`helm test` and of the uninstallation may too.",
    )
    operator: Operator = Field(default_factory=Operator, description="The process that reconciles and publishes.")
    api: Api = Field(default_factory=Api, description="The process that agents and reviewers call.")
    git_repositories: dict[EntryName, GitRepository] = Field(
        default_factory=dict,
        description="Repositories that sources `git:<name>@<commit>:<path>` may cite, by name.",
    )
    http_sources: dict[EntryName, HttpSource] = Field(
        default_factory=dict, description="Hosts that sources `https://…` may cite, by a name of your choice."
    )
    network_policy: NetworkPolicies = Field(
        default_factory=NetworkPolicies, description="Who may talk to whom, where the network plugin enforces it."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Who watches the release.")
    uninstall: Uninstall = Field(default_factory=Uninstall, description="What happens before the release is deleted.")
    global_: Anything = Field(
        default_factory=dict, alias="global", description="Helm puts it there where this chart is a dependency."
    )
