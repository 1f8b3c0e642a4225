"""What an installation applies: accounts, roles and admission policies, for one system namespace.

The objects stand as YAML beside this module, whole and readable, written for the default namespace; another one is put
in where it belongs, as data and never as text.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

import yaml

DEFAULT_NAMESPACE: Final = "anabranch-system"
AUDIENCE_ANNOTATION: Final = "anabranch.dev/audience"
API_ACCOUNT: Final = "anabranch-api"
OPERATOR_ACCOUNT: Final = "anabranch-operator"
LEASE: Final = "anabranch-operator"
"""The one Lease, in the system namespace, that the operator's role names."""

_LABELS: Final = {"app.kubernetes.io/name": "anabranch", "app.kubernetes.io/managed-by": "anabranch"}


def default_audience(namespace: str) -> str:
    """The audience that tokens for the API of this installation carry, unless it was given another."""
    return f"anabranch.{namespace}"


def install(*, namespace: str = DEFAULT_NAMESPACE, audience: str | None = None) -> list[dict[str, Any]]:
    """Everything but the definitions of `crds()`, in an order that can be applied.

    Args:
        namespace: The system namespace.
        audience: What tokens for the API carry; `anabranch.<namespace>` when None. Written on the API's ServiceAccount,
            where people who mint tokens can look it up.
    """
    objects = [*documents("system.yaml"), *documents("roles.yaml"), *documents("policies.yaml")]
    return [_placed(item, namespace, audience or default_audience(namespace)) for item in objects]


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of one YAML file of this package."""
    return list(yaml.safe_load_all(text(name)))


def text(name: str) -> str:
    """One YAML file of this package, with its comments."""
    return (resources.files("anabranch.manifests") / "data" / name).read_text(encoding="utf-8")


def _placed(item: dict[str, Any], namespace: str, audience: str) -> dict[str, Any]:
    metadata = item["metadata"]
    metadata["labels"] = {**_LABELS, **metadata.get("labels", {})}
    if item["kind"] == "Namespace":
        metadata["name"] = namespace
    elif "namespace" in metadata:
        metadata["namespace"] = namespace
    for subject in item.get("subjects", ()):
        subject["namespace"] = namespace
    if item["kind"] == "ServiceAccount" and metadata["name"] == API_ACCOUNT:
        metadata["annotations"] = {AUDIENCE_ANNOTATION: audience}
    return item
