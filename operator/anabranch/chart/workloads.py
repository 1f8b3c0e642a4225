"""The chart's values of what runs: the image, the operator, and the API with its certificate and its cursors."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from anabranch.chart.base import (
    Anything,
    DisruptionBudget,
    Duration,
    Name,
    OptionalName,
    OptionalQuantity,
    OwnSecrets,
    Period,
    Pods,
    Port,
    SecretKey,
    Values,
)
from anabranch.kube.leader import DEFAULT_PACE, LONGEST_SECONDS

CollectorUrl: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(https?://[^/?#@\s]+(/[^?#\s]*)?)?$")]


class Image(Values):
    """One image for all of it."""

    repository: str = Field(
        default="anabranch", min_length=1, description="The image, with the registry that you keep it in."
    )
    tag: str = Field(default="", description="Its tag. Empty: the chart's `appVersion`.")
    digest: Annotated[str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64})?$")] = Field(
        default="", description="Its digest, `sha256:…`, which then counts and not the tag."
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When it is pulled."
    )
    pull_secrets: list[Name] = Field(default_factory=list, description="Secrets to pull it with, by name.")


class Operator(Pods):
    """The operator: one leads, and each works."""

    replicas: Annotated[int, Field(ge=1, le=10)] = Field(
        default=2,
        description="Processes: one leads, and each works on jobs. Another one takes over when nothing was heard of "
        "the leader for `leaseSeconds`.",
    )
    lease_seconds: Annotated[int, Field(ge=3, le=LONGEST_SECONDS)] = Field(
        default=DEFAULT_PACE.duration,
        description="For how long a leader is waited for that is not heard of. Raise it where the API server is away "
        "or slow for longer, as while a single control plane is upgraded: who cannot renew the Lease begins anew.",
    )
    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=4, description="Jobs that each works on at once.")
    keep_agent_events: Period = Field(
        default="7d", description="How long events for agents are kept, whether they were fetched or not."
    )
    namespaces: list[Name] = Field(
        default_factory=list,
        json_schema_extra={"uniqueItems": True},
        description="Serve only these, which must exist; its rights are then confined to them. Empty: all namespaces.",
    )
    git_credentials_secret: OptionalName = Field(
        default="",
        description="Secret whose key `credentials` holds lines `https://user:token@host`, as `git credential-store` "
        "reads them, for `gitRepositories`.",
    )
    pod_disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget, description="Its PodDisruptionBudget."
    )
    resources: Anything = Field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        description="Requests and limits of the container.",
    )


class Autoscaling(Values):
    """A HorizontalPodAutoscaler for the API."""

    enabled: bool = Field(default=False, description="Whether there is one; `api.replicas` then does not count.")
    min_replicas: Annotated[int, Field(ge=1)] = Field(default=2, description="Fewest replicas.")
    max_replicas: Annotated[int, Field(ge=1)] = Field(default=10, description="Most replicas.")
    target_cpu: Annotated[int, Field(ge=1, le=100)] = Field(
        default=70, description="CPU use that it aims at, in percent of the request."
    )


class Service(Values):
    """How the API is reached."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="Type of the Service."
    )
    port: Port = Field(default=443, description="Its port.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Its annotations.")


class CursorKeys(OwnSecrets):
    """The secrets that feed cursors are sealed with."""


class Signing(Values):
    """The key that manifests are signed with."""

    existing_secret: OptionalName = Field(
        default="",
        description="Secret that holds it: an Ed25519 private key, PEM, without a password. Empty: there is none.",
    )
    key: SecretKey = Field(default="key.pem", description="Its key.")


class Tracing(Values):
    """Where spans go."""

    endpoint: CollectorUrl = Field(
        default="",
        description="A collector that takes OTLP over HTTP, such as `http://otel-collector.observability:4318`: both "
        "processes send it their spans, and may reach its port. Empty: nothing is recorded. See `docs/tracing.md`.",
    )
    sampler: Literal[
        "parentbased_traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "traceidratio",
        "always_on",
        "always_off",
    ] = Field(
        default="parentbased_traceidratio",
        description="What is recorded, by OpenTelemetry's names. `parentbased_`: where a caller says whether its own "
        "span is recorded, that counts, within `callersPerSecond`.",
    )
    ratio: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1, description="Share of the traces that begin here which is recorded, with `…traceidratio`."
    )
    callers: Literal["continue", "link"] = Field(
        default="continue",
        description="Whether a caller's trace goes on here, or each request begins one of its own that names it.",
    )
    callers_per_second: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        default=10,
        description="Requests that each process records because their callers wish it, all callers together; beyond "
        "that their chance is `ratio`.",
    )
    headers_secret: OptionalName = Field(
        default="",
        description="Secret whose key `headers` holds what the collector asks for, written as the variable "
        "`OTEL_EXPORTER_OTLP_HEADERS` is.",
    )


class IssuerRef(Values):
    """Who signs the certificate."""

    name: OptionalName = Field(
        default="", description="Name of the issuer. Empty: an authority of the release's own, run by cert-manager."
    )
    kind: str = Field(default="Issuer", min_length=1, description="`Issuer`, `ClusterIssuer` or another kind.")
    group: str = Field(default="cert-manager.io", min_length=1, description="Its API group.")


class Tls(Values):
    """The API's certificate."""

    mode: Literal["auto", "certManager", "generated", "existingSecret", "disabled"] = Field(
        default="auto",
        description="`certManager`: cert-manager issues and renews it. `generated`: the chart makes it with an "
        "authority of its own, and keeps both over upgrades. `auto`: the first where cert-manager is installed, unless "
        "there is a generated one already; else the second. `existingSecret`: yours. `disabled`: plain HTTP, "
        "for a mesh that encrypts.",
    )
    existing_secret: OptionalName = Field(
        default="", description="Mode `existingSecret`: a Secret with `tls.crt`, `tls.key`, and `ca.crt` for clients."
    )
    extra_names: list[str] = Field(
        default_factory=list, description="More DNS names that the API is called by, besides those of its Service."
    )
    days: Annotated[int, Field(ge=2, le=3650)] = Field(
        default=3650,
        description="Mode `generated`: days that the certificate holds. Its authority holds for ten years.",
    )
    duration: Duration = Field(default="2160h", description="Mode `certManager`: how long a certificate holds.")
    issuer_ref: IssuerRef = Field(default_factory=IssuerRef, description="Mode `certManager`: who signs.")


class Api(Pods):
    """The HTTP API, which keeps nothing."""

    replicas: Annotated[int, Field(ge=1)] = Field(default=2, description="Processes.")
    autoscaling: Autoscaling = Field(
        default_factory=Autoscaling,
        description="Follow the load by a HorizontalPodAutoscaler, which needs the metrics server.",
    )
    pod_disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget, description="Its PodDisruptionBudget."
    )
    service: Service = Field(default_factory=Service, description="How it is reached.")
    cursor_keys: CursorKeys = Field(default_factory=CursorKeys, description="What feed cursors are sealed with.")
    signing: Signing = Field(default_factory=Signing, description="What manifests are signed with.")
    tls: Tls = Field(default_factory=Tls, description="Its certificate.")
    tmp_size_limit: OptionalQuantity = Field(
        default="10Gi",
        description="Room for the temporary files of a pod, which is evicted beyond it: two archives that are being "
        "uploaded have up to 4 GiB each, four exports 320 MB each. Empty: no bound but the node's.",
    )
    resources: Anything = Field(
        default_factory=lambda: {"requests": {"cpu": "200m", "memory": "192Mi"}, "limits": {"memory": "768Mi"}},
        description="Requests and limits of the container.",
    )
