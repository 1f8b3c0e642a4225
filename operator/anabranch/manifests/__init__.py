"""What is applied to a cluster before anything runs: definitions, accounts, roles and admission policies."""

from anabranch.manifests.crds import crds
from anabranch.manifests.guard import gaps
from anabranch.manifests.install import (
    API_ACCOUNT,
    AUDIENCE_ANNOTATION,
    DEFAULT_NAMESPACE,
    LEASE,
    OPERATOR_ACCOUNT,
    default_audience,
    install,
)
from anabranch.manifests.yaml import dump

__all__ = [
    "API_ACCOUNT",
    "AUDIENCE_ANNOTATION",
    "DEFAULT_NAMESPACE",
    "LEASE",
    "OPERATOR_ACCOUNT",
    "crds",
    "default_audience",
    "dump",
    "gaps",
    "install",
]
