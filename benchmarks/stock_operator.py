"""The peer of the operator: a stock kopf operator for Branches, whose handler only sets the status.

Run by ``kopf run``. It stores nothing anywhere, asks nobody, and checks nothing. It also does without what costs kopf
writes without being asked for: no Events, and no handler on resumption.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Post no Events of handlers that succeeded."""
    settings.posting.enabled = False


@kopf.on.create("anabranch.dev", "v1alpha1", "branches")
@kopf.on.update("anabranch.dev", "v1alpha1", "branches")
async def reconcile(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Say that the Branch is ready."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Forked",
        "message": "Forked.",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": body["metadata"]["generation"],
    }
    patch.status["phase"] = "Active"
    patch.status["observedGeneration"] = body["metadata"]["generation"]
    patch.status["conditions"] = [condition]
