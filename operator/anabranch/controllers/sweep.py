"""Deletions that nobody told: of resources that went while no operator ran.

What the API server lists is compared with what Postgres believes to be there. What is missing is asked for once more by
name, noted, and if it is still missing after a while, treated as deleted, as if the event had come: data stays, work on
it ends. A list that lacks much is more likely to be wrong than the world (another cluster, a restored one, a kind that
is gone), so then nothing follows from it but an Event, and a person looks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.kube.events import ObjectRef, Occurrence
from anabranch.kube.kinds import DEFINITION, LEASE, OWN
from anabranch.model.errors import AnabranchError
from anabranch.store import database, drift

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Database
    from anabranch.store.drift import Orphan

_log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 600.0
GRACE_SECONDS: Final = 60.0
MOST: Final = 0.2
"""More than this share of a kind does not vanish unnoticed."""

FEW: Final = 5
"""So many may, however few there were."""


class _SuspectError(Exception):
    """What the API server shows is not to be trusted; the message says why."""


@dataclass(frozen=True)
class Scope:
    """What a sweep compares, and where it is told.

    Attributes:
        namespaces: Those served; empty: all.
        system_namespace: Of the Lease that Events are about.
        lease: Its name.
        trusting: Whether whatever is not there was deleted, however much it is: somebody has looked.
    """

    namespaces: Sequence[str]
    system_namespace: str
    lease: str
    trusting: bool = False


class Sweep:
    """Finds deletions that were missed.

    Args:
        db: What is believed to be there.
        kube: What is there.
        reconciler: Told what is gone.
        tell: Sends an Event.
        scope: What is compared.
    """

    def __init__(
        self,
        db: Database,
        kube: KubeClient,
        *,
        reconciler: Reconciler,
        tell: Callable[[ObjectRef, Occurrence], None],
        scope: Scope,
    ) -> None:
        self._db = db
        self._kube = kube
        self._reconciler = reconciler
        self._tell = tell
        self._scope = scope
        self._missing: dict[tuple[OwnName, Orphan], float] = {}  # since when, on the loop's clock

    async def run(self) -> None:
        """Sweep until cancelled: at once, then every ten minutes."""
        while True:
            try:
                again = await self.look()
            except AnabranchError as error:
                _log.warning("not swept", error=str(error))
                again = True
            await asyncio.sleep(GRACE_SECONDS if again else EVERY_SECONDS)

    async def look(self) -> bool:
        """Compare once; whether something was missing that is to be looked at again."""
        now = asyncio.get_running_loop().time()
        try:
            found = [(kind, orphan) for kind in OWN for orphan in await self._orphans(kind)]
        except _SuspectError as suspect:
            self._missing.clear()
            await self._warn(str(suspect))
            return False
        self._missing = {missing: self._missing.get(missing, now) for missing in found}
        due = [missing for missing, since in self._missing.items() if now - since >= GRACE_SECONDS]
        for kind, orphan in due:
            _log.info("deletion was missed", kind=kind, object=f"{orphan.namespace}/{orphan.name}", uid=orphan.uid)
            await self._reconciler.gone(Key(kind, orphan.namespace, orphan.name), orphan.uid)
            del self._missing[kind, orphan]
        _log.info("swept", missing=len(self._missing), deleted=len(due))
        return bool(self._missing)

    async def _orphans(self, kind: OwnName) -> list[Orphan]:
        """Rows of a kind whose resource is not listed, and not there when asked for by name either."""
        definition = f"{OWN[kind].plural}.{OWN[kind].group}"
        if await self._kube.find(DEFINITION, name=definition) is None:
            raise _SuspectError(f"The CustomResourceDefinition {definition} is absent. Install it again.")
        async with self._db.connection() as conn:
            before = await database.now(conn)
        uids = await self._listed(kind)
        absent = await self._absent(kind, uids, before)
        lost = len(absent.orphans)
        if lost > FEW and lost > MOST * absent.known and not self._scope.trusting:
            raise _SuspectError(
                f"{lost} of {absent.known} {OWN[kind].plural} that the database knows are not in the cluster. Check"
                " that it is the right cluster, and whole. If they were deleted, start the operator once with"
                " --accept-missing."
            )
        return [orphan for orphan in absent.orphans if not await self._is_there(kind, orphan)]

    async def _listed(self, kind: OwnName) -> list[str]:
        return [
            item["metadata"]["uid"]
            for namespace in self._scope.namespaces or (None,)
            async for item in self._kube.items(OWN[kind], namespace=namespace)
        ]

    async def _absent(self, kind: OwnName, uids: list[str], before: datetime) -> drift.Absent:
        async with self._db.connection() as conn:
            return await drift.absent(conn, kind=kind, uids=uids, before=before, namespaces=self._scope.namespaces)

    async def _is_there(self, kind: OwnName, orphan: Orphan) -> bool:
        found = await self._kube.find(OWN[kind], namespace=orphan.namespace, name=orphan.name)
        return found is not None and found["metadata"]["uid"] == orphan.uid

    async def _warn(self, note: str) -> None:
        """Tell of a list that is not to be trusted, once an hour while it lasts."""
        _log.error("sweep stopped", reason=note)
        lease = await self._kube.find(LEASE, namespace=self._scope.system_namespace, name=self._scope.lease)
        if lease is not None:
            metadata = lease["metadata"]
            about = ObjectRef(LEASE, metadata["namespace"], metadata["name"], metadata["uid"])
            async with self._db.connection() as conn:
                hour = (await database.now(conn)).strftime("%Y-%m-%dT%H")
            self._tell(about, Occurrence("SweepStopped", note, key=f"{note} {hour}", type="Warning"))
