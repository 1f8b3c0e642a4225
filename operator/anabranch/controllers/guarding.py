"""What rests on the review guard is looked at again when it comes or goes.

While an admission policy is missing, reviews on resources are passed over and Baselines say so. Nothing about those
objects changes when the policy is back, so nobody else would tell: a review that was written a moment too early would
never count.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.kube.guard import ReviewGuard
    from anabranch.kube.kinds import OwnName

_log = structlog.get_logger(__name__)
LOOK_SECONDS: Final = 5.0


class GuardFollower:
    """Reconciles every Baseline, and every job with reviews, when the guard has changed.

    Args:
        guard: Whether reviews on resources count.
        reconciler: Called for each.
    """

    def __init__(self, guard: ReviewGuard, reconciler: Reconciler) -> None:
        self._guard = guard
        self._reconciler = reconciler
        self._concerned: dict[str, Key] = {}  # by uid

    def observe(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """Note an object if the guard matters to it."""
        metadata = body["metadata"]
        if kind == "Baseline" or (kind == "ConsolidationJob" and (body.get("spec") or {}).get("reviews")):
            self._concerned[metadata["uid"]] = Key(kind, metadata["namespace"], metadata["name"])
        else:
            self._concerned.pop(metadata["uid"], None)

    def forget(self, uid: str) -> None:
        """An object is gone."""
        self._concerned.pop(uid, None)

    async def run(self) -> None:
        """Follow until cancelled."""
        acted_on = 0
        while True:
            try:
                await self._guard.gaps()
            except AnabranchError as error:
                _log.warning("review guard not checked", error=str(error))
            if self._guard.changes != acted_on:
                acted_on = self._guard.changes
                _log.warning("review guard changed", concerned=len(self._concerned))
                await asyncio.gather(*(self._reconciler.revisit(key) for key in list(self._concerned.values())))
            await asyncio.sleep(LOOK_SECONDS)
