"""The values of the Helm chart, whole: from them `values.yaml`, its schema and its reference page are written.

What the code does not read is not here, so a value that is accepted is a value that acts. The named sources are the
models that the operator itself reads.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anabranch.backup.config import TargetName  # noqa: TC001  (pydantic evaluates the annotations)
from anabranch.chart.auth import Auth
from anabranch.chart.backups import BackupTarget  # noqa: TC001  (pydantic evaluates the annotations)
from anabranch.chart.base import Anything, Duration, OptionalName, Port, Values
from anabranch.chart.database import Database, Migration, Store
from anabranch.chart.workloads import Api, Image, Operator, Tracing
from anabranch.consolidation.sources.config import (  # noqa: TC001  (pydantic evaluates the annotations)
    EntryName,
    GitRepository,
    HttpSource,
)
from anabranch.model.crd.baseline import StoreName  # noqa: TC001  (pydantic evaluates the annotations)
from anabranch.proposals.config import ModelSettings


class Model(ModelSettings):
    """A model, and the Secrets that it takes."""

    api_key_secret: OptionalName = Field(
        default="", description="Secret whose key `api-key` holds what its API asks for, which is sent over https only."
    )
    ca_secret: OptionalName = Field(
        default="",
        description="Secret whose key `ca.crt` holds the authority of its certificate. Empty: those that the image "
        "trusts.",
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
    oidc_ports: list[Port] = Field(
        default_factory=lambda: [443],
        min_length=1,
        description="Ports of the issuer of people's tokens, where `auth.oidc` names one.",
    )
    extra_egress: list[Anything] = Field(
        default_factory=list,
        description="More that the operator may reach, as a NetworkPolicy's `egress`. `gitRepositories`, "
        "`httpSources` on port 443, and the ports of `models` and of buckets of `backupTargets`, need nothing here.",
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


class Search(Values):
    """How records are searched."""

    embedder: Annotated[str, StringConstraints(pattern=r"^(wordllama|/.*)?$", max_length=512)] = Field(
        default="",
        description="What makes vectors, so that records are found by their meaning too: `wordllama`, or the folder of "
        "another table, mounted into both Deployments. Either needs an image that was built with `--build-arg "
        "VARIANT=embeddings`. Empty: nothing; records are found by their words.",
    )
    mode: Literal["", "words", "hybrid"] = Field(
        default="",
        description="How it is searched where a search does not say it. Empty: `hybrid` where there is an embedder.",
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
    stores: dict[StoreName, Store] = Field(
        default_factory=dict,
        description="Databases besides that one, which is `default`, by the name that a Baseline selects one by "
        "(`spec.store`). Each has an operator of its own, as `operator` says. See `docs/guides/stores.md`.",
    )
    migration: Migration = Field(
        default_factory=Migration,
        description="The Job that brings the database to the release's schema. Where its pod may go, those of "
        "`helm test` and of the uninstallation may too.",
    )
    operator: Operator = Field(default_factory=Operator, description="The process that reconciles and publishes.")
    api: Api = Field(default_factory=Api, description="The process that agents and reviewers call.")
    auth: Auth = Field(default_factory=Auth, description="Who may call besides ServiceAccounts.")
    search: Search = Field(default_factory=Search, description="How records are searched.")
    git_repositories: dict[EntryName, GitRepository] = Field(
        default_factory=dict,
        description="Repositories that sources `git:<name>@<commit>:<path>` may cite, by name.",
    )
    http_sources: dict[EntryName, HttpSource] = Field(
        default_factory=dict, description="Hosts that sources `https://…` may cite, by a name of your choice."
    )
    models: dict[EntryName, Model] = Field(
        default_factory=dict,
        description="Models that Baselines may select by name (`spec.review.proposals.model`), to propose merges.",
    )
    backup_targets: dict[TargetName, BackupTarget] = Field(
        default_factory=dict, description="Where Baselines may be backed up (`spec.backup.target`), by name."
    )
    network_policy: NetworkPolicies = Field(
        default_factory=NetworkPolicies, description="Who may talk to whom, where the network plugin enforces it."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Who watches the release.")
    tracing: Tracing = Field(default_factory=Tracing, description="Where spans go.")
    uninstall: Uninstall = Field(default_factory=Uninstall, description="What happens before the release is deleted.")
    global_: Anything = Field(
        default_factory=dict, alias="global", description="Helm puts it there where this chart is a dependency."
    )
