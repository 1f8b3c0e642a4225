"""Are reviews on resources guarded in this cluster? What the live admission policies lack, compared with ours.

The operator cannot re-check a person (an access review by user name alone lacks groups), so admission is the check. A
policy that is absent, altered, or bound without Deny is no guard, and what it guards must then be ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.manifests.install import documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def gaps(policies: Iterable[Mapping[str, Any]], bindings: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is missing of the guard, a sentence each; empty when it holds.

    Args:
        policies: The cluster's ValidatingAdmissionPolicies, as JSON objects.
        bindings: Its ValidatingAdmissionPolicyBindings.
    """
    live = {policy["metadata"]["name"]: policy["spec"] for policy in policies}
    bound = {binding["spec"]["policyName"] for binding in bindings if _denies_everywhere(binding["spec"])}
    found = []
    for name, spec in _shipped().items():
        if name not in live:
            found.append(f"The ValidatingAdmissionPolicy {name} is absent.")
        elif live[name] != spec:
            found.append(f"The ValidatingAdmissionPolicy {name} is not the one of this release.")
        elif name not in bound:
            found.append(f"No ValidatingAdmissionPolicyBinding applies {name} with Deny to all namespaces.")
    return found


def _shipped() -> dict[str, dict[str, Any]]:
    return {
        item["metadata"]["name"]: item["spec"]
        for item in documents("policies.yaml")
        if item["kind"] == "ValidatingAdmissionPolicy"
    }


def _denies_everywhere(spec: Mapping[str, Any]) -> bool:
    """A binding that narrows itself to some objects, or takes parameters, guards the rest of them not at all."""
    return "Deny" in spec.get("validationActions", ()) and not spec.get("matchResources") and not spec.get("paramRef")
