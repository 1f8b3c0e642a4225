"""One reconcile for each kind, whoever asks for it: the watch, the wake queue, or a changed ConfigMap.

An object is reconciled by one task at a time, and again later when that failed (see `retries`), always from its newest
state.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import structlog

from anabranch.controllers import retries
from anabranch.controllers.homes import Homes
from anabranch.controllers.keys import Key
from anabranch.controllers.resuming import Resuming
from anabranch.controllers.retries import Retries
from anabranch.controllers.strays import Strays, is_doubled
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.store import drift, waiting
from anabranch.telemetry import logs, tracing
from anabranch.telemetry.of_operator import RECONCILES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind, OwnName
    from anabranch.model.crd import Resource
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

INVALID_SPEC: Final = "InvalidSpec"
STORE_UNKNOWN: Final = "StoreUnknown"
_STALLS: Final = {INVALID_SPEC, STORE_UNKNOWN}
_PARALLEL: Final = 16


@dataclass(frozen=True)
class Controller:
    """What is done about one kind.

    Attributes:
        kind: The kind, as the API knows it.
        resource: Its parsed form.
        reconcile: Brings Postgres in line with the spec; idempotent.
        forget: Notes that the resource of a uid is gone; idempotent.
        needs_visit: Whether an object, in its JSON form, is to be looked at though its spec has not changed.
        release: Lets go of an object that is being deleted; called with its JSON form while `needs_visit`.
    """

    kind: Kind
    resource: type[Resource[Any]]
    reconcile: Callable[[Any], Awaitable[None]]
    forget: Callable[[Key, str], Awaitable[None]]
    needs_visit: Callable[[Mapping[str, Any]], bool] = lambda _body: False
    release: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None


class Reconciler:
    """Runs the controllers.

    Args:
        controllers: By the name of their kind.
        db: What is known of the objects; a resource that cannot be parsed is noted there.
        kube: Where the newest state is read.
        changed: Called after each reconcile: it may have left work, and a status to write.
        homes: Tells what is this operator's; others are left alone.
    """

    def __init__(
        self,
        controllers: Mapping[OwnName, Controller],
        *,
        db: Database,
        kube: KubeClient,
        changed: Callable[[], None],
        homes: Homes | None = None,
    ) -> None:
        self._homes = homes or Homes(kube)
        self._revisits: set[asyncio.Task[None]] = set()
        self._controllers = controllers
        self._db = db
        self._kube = kube
        self._changed = changed
        self._resuming = Resuming(db)
        self._strays = Strays(db)
        self._running = asyncio.Semaphore(_PARALLEL)
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._retries = Retries(self.revisit)
        self._newest: dict[str, int] = {}

    async def noticed(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """See to an object that was touched in whatever way, if it needs more than its spec tells; never fails."""
        if self._homes.is_others(kind, body):
            await self._leave(kind, body)
        elif self._controllers[kind].needs_visit(body):
            await self.seen(kind, body)

    async def found(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """See to an object that was there when this process began, and whose status answers to its spec; never fails.

        Most are as they were left, which Postgres tells of many at once.
        """
        if self._homes.is_others(kind, body):
            await self._leave(kind, body)
            return
        try:
            settled = not _was_stalled(body) and await self._resuming.is_settled(kind, body)
        except AnabranchError:
            settled = False  # reconciling it meets with the same, and is tried again
        if settled:
            metadata = body["metadata"]
            self._newest[metadata["uid"]] = max(metadata["generation"], self._newest.get(metadata["uid"], 0))
        else:
            await self.seen(kind, body)

    async def seen(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """Reconcile an object in the state that the watch shows; never fails, but tries again later."""
        if self._homes.is_others(kind, body):
            await self._leave(kind, body)
        else:
            await self._attempt(_key(kind, body), body)

    async def revisit(self, key: Key, *, uid: str | None = None) -> None:
        """Read an object and reconcile it; never fails, but tries again later.

        Args:
            key: Of the object.
            uid: Of the object that Postgres knows under this name, which is forgotten if it is not the one read.
        """
        try:
            body = await self._kube.find(self._controllers[key.kind].kind, namespace=key.namespace, name=key.name)
            if uid is not None and (body is None or body["metadata"]["uid"] != uid):
                await self.gone(key, uid)
        except AnabranchError as error:
            self._retries.failed(key, error)
            return
        if body is not None:
            await self._attempt(key, body)

    async def gone(self, key: Key, uid: str) -> None:
        """Note that the resource of a uid is deleted; tries again until Postgres has it."""
        self._newest.pop(uid, None)
        self._retries.settled(key)
        self._homes.forget(key)
        self._strays.forget(uid)
        for attempt in range(1, 1_000):
            try:
                async with self._lock(key):
                    await self._controllers[key.kind].forget(key, uid)
                self._changed()
            except AnabranchError as error:
                _log.warning("deletion not noted yet", **key.named(), error=str(error))
                await asyncio.sleep(retries.delay(attempt))
            else:
                return

    def is_busy(self, key: Key) -> bool:
        """Whether an object is being reconciled by this process now."""
        lock = self._locks.get(key)
        return lock is not None and lock.locked()

    def will_retry(self, key: Key) -> bool:
        """Whether an object is going to be reconciled again by itself, since that failed."""
        return self._retries.awaits(key)

    async def close(self) -> None:
        """Drop the retries that are still to come."""
        revisits = [*self._revisits]
        for revisit in revisits:
            revisit.cancel()
        await asyncio.gather(*self._retries.drop(), *revisits, return_exceptions=True)

    async def _leave(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """Leave an object alone that says whose it is; what there is of it here is let go of. Never fails."""
        key = _key(kind, body)
        await self._homes.is_own(key, body)  # what a Baseline says of its store is kept in mind
        self._look_again(key)
        try:
            is_here = await self._strays.is_here(kind, body)
        except AnabranchError as error:
            self._retries.failed(key, error)
            return
        if is_here:
            await self._attempt(key, body)

    async def _let_go(self, key: Key, body: Mapping[str, Any]) -> None:
        """Have nothing of an object that is another operator's."""
        uid = body["metadata"]["uid"]
        held = await self._strays.held(key.kind, body)
        if held is None:
            return
        if is_doubled(key.kind, body, held):
            _log.warning("another store has it: what is here of it is given up", **key.named(), id=held.id)
            await self._controllers[key.kind].forget(key, uid)
        elif held.waits:
            # For as long as what it names was absent, it was nobody's.
            async with self._db.connection() as conn:
                await waiting.delete(conn, namespace=key.namespace, kind=key.kind, name=key.name, uid=uid)

    async def _attempt(self, key: Key, body: Mapping[str, Any]) -> None:
        with logs.bound(**key.named()), tracing.begun(f"reconcile {key.kind}", **key.named()):
            try:
                async with self._lock(key), self._running:
                    await self._timed(key, body)
            except AnabranchError as error:
                self._retries.failed(key, error)
            except Exception as error:  # noqa: BLE001  (a defect in one object's handling must not stop the others')
                _log.exception("reconciling failed")
                self._retries.failed(key, error)
            else:
                self._retries.settled(key)
            self._changed()

    async def _timed(self, key: Key, body: Mapping[str, Any]) -> None:
        began, outcome = time.perf_counter(), "defect"
        try:
            await self._reconcile(key, body)
            outcome = "done"
        except AnabranchError:
            outcome = "refused"
            raise
        finally:
            RECONCILES.labels(key.kind, outcome).observe(time.perf_counter() - began)

    async def _reconcile(self, key: Key, body: Mapping[str, Any]) -> None:
        uid, generation = body["metadata"]["uid"], body["metadata"]["generation"]
        controller = self._controllers[key.kind]
        is_own = await self._homes.is_own(key, body)
        self._look_again(key)
        if not is_own:
            await self._let_go(key, body)
            return
        if (store := self._homes.unknown(key.kind, body)) is not None and not _may_go(body):
            await self._stall(key, body, STORE_UNKNOWN, _unknown(store))
            return
        if body["metadata"].get("deletionTimestamp"):
            if controller.release is not None and controller.needs_visit(body):
                await controller.release(body)
            return
        if _is_set_back(body):
            await self._rewind(key, body)
        elif generation < self._newest.get(uid, 0):
            return  # older than what was reconciled already: watches lag behind reads
        try:
            resource = controller.resource.parse(body)
        except InvalidInputError as error:
            _log.error("spec not understood", **key.named(), error=str(error))
            await self._stall(key, body, INVALID_SPEC, str(error))
            return
        await controller.reconcile(resource)
        self._newest[uid] = generation
        if _was_stalled(body):
            async with self._db.connection() as conn:
                await waiting.delete(conn, namespace=key.namespace, kind=key.kind, name=key.name, uid=uid)

    async def _rewind(self, key: Key, body: Mapping[str, Any]) -> None:
        """Take an older spec than was seen for the newest: the cluster was restored from a backup."""
        metadata = body["metadata"]
        self._newest.pop(metadata["uid"], None)
        async with self._db.connection() as conn:
            await drift.rewind(conn, **vars(key), uid=metadata["uid"], generation=metadata["generation"])
        _log.warning("spec was set back", **key.named(), generation=metadata["generation"])

    def _look_again(self, key: Key) -> None:
        """See to what named an object while it was absent."""
        for astray in self._homes.found(key):
            task = asyncio.create_task(self.revisit(astray), name=f"revisit {astray}")
            self._revisits.add(task)
            task.add_done_callback(self._revisits.discard)

    async def _stall(self, key: Key, body: Mapping[str, Any], reason: str, message: str) -> None:
        """Say in the status what keeps this installation from doing anything about a resource."""
        async with self._db.connection() as conn:
            await waiting.upsert(
                conn,
                namespace=key.namespace,
                kind=key.kind,
                name=key.name,
                uid=body["metadata"]["uid"],
                observed_generation=body["metadata"]["generation"],
                condition="Stalled",
                reason=reason,
                message=message,
                needs_namespace=key.namespace,
                needs_name=key.name,
                due_in=None,
            )

    def _lock(self, key: Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


def _key(kind: OwnName, body: Mapping[str, Any]) -> Key:
    metadata = body["metadata"]
    return Key(kind, metadata["namespace"], metadata["name"])


def _is_set_back(body: Mapping[str, Any]) -> bool:
    """Whether the status answers to a newer spec than there is, which no watch and no delay brings about."""
    return bool((body.get("status") or {}).get("observedGeneration", -1) > body["metadata"]["generation"])


def _was_stalled(body: Mapping[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions", ())
    return any(condition.get("reason") in _STALLS for condition in conditions)


def _may_go(body: Mapping[str, Any]) -> bool:
    """Whether an object is being deleted, and what it stands for is to stay."""
    policy = (body.get("spec") or {}).get("deletionPolicy")
    return bool(body["metadata"].get("deletionTimestamp")) and policy != "Delete"


def _unknown(store: str) -> str:
    return (
        f"This installation has no store {store}: nothing is done. Have it added to the chart's `stores`; or, if"
        " nothing lies in it, delete this and make it anew with another name in spec.store."
    )
