"""What the chart's values have in common: strict, camelCase, and empty where nothing is set.

A template tests a value by its truth, so what is not set is an empty string, list or mapping and never null: Helm takes
a null for the wish to remove a key.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

Anything: TypeAlias = dict[str, Any]
"""A piece of a Kubernetes object, which the API server checks."""

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Name: TypeAlias = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
OptionalName: TypeAlias = Annotated[str, StringConstraints(pattern=rf"^({_LABEL}(\.{_LABEL})*)?$", max_length=253)]
SecretKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
OptionalKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]*$", max_length=253)]
OptionalQuantity: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?)?$")]
Duration: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([0-9]+(ms|h|m|s))+$")]
Period: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[dhms]$")]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]


class Values(BaseModel):
    """A mapping of values: a name that it does not know is refused when the chart is rendered."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class OwnSecrets(Values):
    """Secrets that something is sealed with, which the chart can make by itself."""

    existing_secret: OptionalName = Field(
        default="", description="Secret that holds them. Empty: the chart makes one, and keeps it over upgrades."
    )
    key: SecretKey = Field(
        default="keys",
        description="Its key: one secret of 32 characters or more, or two with a comma between while the first takes "
        "over from the second.",
    )


class Placed(Values):
    """Where pods go."""

    node_selector: dict[str, str] = Field(default_factory=dict, description="Nodes that the pods may run on.")
    tolerations: list[Anything] = Field(default_factory=list, description="Taints that the pods tolerate.")
    affinity: Anything = Field(default_factory=dict, description="Affinity of the pods.")
    priority_class_name: OptionalName = Field(default="", description="PriorityClass of the pods.")


class Pods(Placed):
    """What can be said of every Deployment's pods."""

    resources: Anything = Field(description="Requests and limits of the container.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations of the pods.")
    labels: dict[str, str] = Field(default_factory=dict, description="More labels of the pods.")
    topology_spread_constraints: list[Anything] = Field(
        default_factory=list,
        description="Instead of the default, which spreads the pods over nodes and zones where it can. "
        "An entry without `labelSelector` gets that of the Deployment.",
    )
    extra_env: list[Anything] = Field(
        default_factory=list, description="More environment variables of the container, as Kubernetes writes them."
    )
    extra_volumes: list[Anything] = Field(default_factory=list, description="More volumes of the pods.")
    extra_volume_mounts: list[Anything] = Field(default_factory=list, description="Where the container mounts them.")
    service_account_annotations: dict[str, str] = Field(
        default_factory=dict, description="Annotations of the ServiceAccount, such as those of a cloud's identity."
    )


class DisruptionBudget(Values):
    """How many pods may be away at once while nodes are drained."""

    enabled: bool = Field(
        default=True, description="Whether there is a PodDisruptionBudget. There is none for a single replica."
    )
    max_unavailable: Annotated[int, Field(ge=1)] | Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]?%$")] = Field(
        default=1, description="Pods that may be away at once: a number, or a percentage such as `25%`."
    )
