"""The kinds of Kubernetes object that this system reads or writes, and where each lives in the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from anabranch.model.crd import GROUP, VERSION


@dataclass(frozen=True)
class Kind:
    """A kind of object: its API group (empty for the core group), version, name and plural."""

    group: str
    version: str
    name: str
    plural: str

    @property
    def api_version(self) -> str:
        """What stands in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource; parts are percent-encoded.

        Args:
            namespace: None for cluster-scoped kinds, and for a collection over all namespaces.
            name: None for the collection.
            subresource: Such as ``status``; only with a name.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part is not None)]
        return "/" + "/".join(quote(part, safe="") for part in parts)


BASELINE: Final = Kind(GROUP, VERSION, "Baseline", "baselines")
BRANCH: Final = Kind(GROUP, VERSION, "Branch", "branches")
JOB: Final = Kind(GROUP, VERSION, "ConsolidationJob", "consolidationjobs")
OwnName: TypeAlias = Literal["Baseline", "Branch", "ConsolidationJob"]
OWN: Final[dict[OwnName, Kind]] = {"Baseline": BASELINE, "Branch": BRANCH, "ConsolidationJob": JOB}
"""The kinds that this operator reconciles, by name."""

CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
POD: Final = Kind("", "v1", "Pod", "pods")
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces")
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases")
EVENT: Final = Kind("events.k8s.io", "v1", "Event", "events")
TOKEN_REVIEW: Final = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")
ACCESS_REVIEW: Final = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews")
DEFINITION: Final = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
POLICY: Final = Kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
POLICY_BINDING: Final = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)
