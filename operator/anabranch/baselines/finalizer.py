"""The finalizer that keeps what a Baseline's deletion policy promises: when the resource has gone, no data is left.

It stands only where the policy is Delete. Whoever deletes such a Baseline, or its namespace, waits until the data is
gone; all others go at once, whether an operator runs or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.kube.finalizers import set_finalizer
from anabranch.kube.kinds import BASELINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.kube.client import KubeClient
    from anabranch.model.crd import BaselineResource

FINALIZER: Final = "anabranch.dev/data"


async def follow_policy(kube: KubeClient, resource: BaselineResource) -> None:
    """Put the finalizer on a Baseline whose data goes with it, and take it off any other.

    Raises:
        StaleObjectError: If the Baseline changed meanwhile.
        UnavailableError: If the API server cannot be reached.
    """
    wanted = resource.spec.deletion_policy == "Delete"
    if wanted != (FINALIZER in resource.finalizers):
        await set_finalizer(
            kube,
            BASELINE,
            namespace=resource.namespace,
            name=resource.name,
            uid=resource.uid,
            finalizer=FINALIZER,
            present=wanted,
        )


def needs_visit(body: Mapping[str, Any]) -> bool:
    """Whether a Baseline is to be looked at though its spec has not changed: it goes, or somebody moved the finalizer.

    Args:
        body: In its JSON form.
    """
    metadata = body["metadata"]
    held = FINALIZER in (metadata.get("finalizers") or ())
    if metadata.get("deletionTimestamp"):
        return held
    observed = (body.get("status") or {}).get("observedGeneration", -1)
    return bool(observed == metadata["generation"] and held != is_delete(body))


def is_delete(body: Mapping[str, Any]) -> bool:
    """Whether the data of a Baseline goes with it.

    Args:
        body: In its JSON form; it need not be one that this release understands.
    """
    return (body.get("spec") or {}).get("deletionPolicy") == "Delete"
