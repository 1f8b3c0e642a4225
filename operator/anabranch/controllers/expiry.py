"""Finished Branches and jobs are deleted once they have been kept as long as their spec says, by the leader alone.

Postgres tells what is due. Before one is deleted it is read: what the row says follows from an older spec if another
one was written since, and then its reconcile comes first. The deletion itself names the uid and the version that was
read, so it reaches neither a namesake nor an object that changed in between. What is gone is noted at once; if this
process dies before that, the next one finds it due again, and absent.
"""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import TYPE_CHECKING, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.domain import backoff
from anabranch.kube.errors import ObjectNotFoundError
from anabranch.kube.kinds import OWN
from anabranch.model.errors import AnabranchError
from anabranch.store import expiry
from anabranch.telemetry.of_operator import EXPIRED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.kube.client import KubeClient
    from anabranch.kube.leader import Leadership
    from anabranch.store.database import Database
    from anabranch.store.expiry import Expired

_log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 2.0
_AT_ONCE: Final = 50
_PARALLEL: Final = 4
"""So many may be deleted and not noted when a process dies; the sweep believes as many at any time."""

_CHANGED_SECONDS: Final = 5.0
"""Until a newer spec is reconciled, or whoever holds a finalizer has let go."""

_LONGEST_RETRY_SECONDS: Final = 600.0


class Expiry:
    """Deletes resources whose time is over.

    Args:
        db: Tells what is due.
        kube: Where it is deleted.
        reconciler: Told what is gone.
        leadership: Only the leader deletes.
        namespaces: Those served; empty: all.
    """

    def __init__(
        self,
        db: Database,
        kube: KubeClient,
        *,
        reconciler: Reconciler,
        leadership: Leadership,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._db = db
        self._kube = kube
        self._reconciler = reconciler
        self._leadership = leadership
        self._namespaces = namespaces
        self._put_off: dict[str, tuple[int, float]] = {}  # of a branch or job: failures so far, and until when
        self._deleting = asyncio.Semaphore(_PARALLEL)

    async def run(self) -> None:
        """Delete until cancelled."""
        while True:
            more = False
            try:
                more = self._leadership.leading and await self.look()
            except AnabranchError as error:
                _log.warning("what has expired cannot be read", error=str(error))
            except Exception:  # noqa: BLE001  (one resource that cannot be handled must not stop the others' for good)
                _log.exception("what has expired is not deleted")
            if not more:
                await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> bool:
        """Delete some of what is due; whether there may be more."""
        now = asyncio.get_running_loop().time()
        waiting = [identifier for identifier, (_, until) in self._put_off.items() if until > now]
        async with self._db.connection() as conn:
            found = await expiry.due(conn, namespaces=self._namespaces, exclude=waiting, limit=_AT_ONCE)
        # What is neither due nor waiting any more was kept after all, or is gone.
        known = {*waiting, *(row.id for row in found)}
        self._put_off = {name: put_off for name, put_off in self._put_off.items() if name in known}
        gone = await asyncio.gather(*(self._try(row) for row in found))
        return len(found) >= _AT_ONCE and any(gone)

    async def _try(self, row: Expired) -> bool:
        key = Key(row.kind, row.namespace, row.name)
        try:
            async with self._deleting:
                wait = await self._delete(row)
                if wait is None:
                    await self._reconciler.gone(key, row.uid)
        except AnabranchError as error:
            failures = self._put_off.get(row.id, (0, 0.0))[0] + 1
            wait = backoff.delay(failures, chance=random.random(), limit=_LONGEST_RETRY_SECONDS)  # noqa: S311  (jitter)
            _log.warning("not deleted yet", kind=row.kind, object=f"{row.namespace}/{row.name}", error=str(error))
        else:
            failures = 0
        if wait is None:
            self._put_off.pop(row.id, None)
            return True
        self._put_off[row.id] = (failures, asyncio.get_running_loop().time() + wait)
        return False

    async def _delete(self, row: Expired) -> float | None:
        """Delete a resource, if it still is to be: None when it is gone, else seconds until it is looked at again."""
        kind = OWN[row.kind]
        found = await self._kube.find(kind, namespace=row.namespace, name=row.name)
        if found is None or found["metadata"]["uid"] != row.uid:
            return None
        metadata = found["metadata"]
        if metadata.get("deletionTimestamp") or metadata["generation"] != row.observed_generation:
            return _CHANGED_SECONDS
        made = datetime.fromisoformat(metadata["creationTimestamp"])
        if (young := row.ttl_seconds - (row.now - made).total_seconds()) > 0:  # made for a job that had ended before
            return young
        try:
            gone = await self._kube.delete(
                kind,
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                resource_version=metadata["resourceVersion"],
            )
        except ObjectNotFoundError:
            return None
        if not gone:
            return _CHANGED_SECONDS
        EXPIRED.labels(row.kind).inc()
        _log.info("deleted after its end", kind=row.kind, object=f"{row.namespace}/{row.name}", uid=row.uid)
        return None
