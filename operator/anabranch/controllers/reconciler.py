"""One reconcile for each kind, whoever asks for it: the watch, the wake queue, or a changed ConfigMap.

An object is reconciled by one task at a time, and again later when that failed, always from its newest state. Retries
are kept here and not by kopf, which would write an annotation for each; after a restart every object is seen anew, so
nothing is lost with them.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import structlog

from anabranch.controllers.resuming import Resuming
from anabranch.domain import backoff
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.store import drift, waiting
from anabranch.telemetry import logs
from anabranch.telemetry.of_operator import RECONCILES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import Kind, OwnName
    from anabranch.model.crd import Resource
    from anabranch.store.database import Database

_log = structlog.get_logger(__name__)

INVALID_SPEC: Final = "InvalidSpec"
_PARALLEL: Final = 16
_LONGEST_RETRY_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Key:
    """Names an object: of which kind, and where."""

    kind: OwnName
    namespace: str
    name: str


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
    """

    def __init__(
        self, controllers: Mapping[OwnName, Controller], *, db: Database, kube: KubeClient, changed: Callable[[], None]
    ) -> None:
        self._controllers = controllers
        self._db = db
        self._kube = kube
        self._changed = changed
        self._resuming = Resuming(db)
        self._running = asyncio.Semaphore(_PARALLEL)
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._failures: dict[Key, int] = {}
        self._retries: dict[Key, asyncio.Task[None]] = {}
        self._newest: dict[str, int] = {}

    async def noticed(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """See to an object that was touched in whatever way, if it needs more than its spec tells; never fails."""
        if self._controllers[kind].needs_visit(body):
            await self.seen(kind, body)

    async def found(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """See to an object that was there when this process began, and whose status answers to its spec; never fails.

        Most are as they were left, which Postgres tells of many at once.
        """
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
        metadata = body["metadata"]
        await self._attempt(Key(kind, metadata["namespace"], metadata["name"]), body)

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
            self._try_again(key, error)
            return
        if body is not None:
            await self._attempt(key, body)

    async def gone(self, key: Key, uid: str) -> None:
        """Note that the resource of a uid is deleted; tries again until Postgres has it."""
        self._newest.pop(uid, None)
        self._failures.pop(key, None)
        for attempt in range(1, 1_000):
            try:
                async with self._lock(key):
                    await self._controllers[key.kind].forget(key, uid)
                self._changed()
            except AnabranchError as error:
                _log.warning("deletion not noted yet", **_named(key), error=str(error))
                await asyncio.sleep(_delay(attempt))
            else:
                return

    def is_busy(self, key: Key) -> bool:
        """Whether an object is being reconciled by this process now."""
        lock = self._locks.get(key)
        return lock is not None and lock.locked()

    def will_retry(self, key: Key) -> bool:
        """Whether an object is going to be reconciled again by itself, since that failed."""
        return key in self._retries

    async def close(self) -> None:
        """Drop the retries that are still to come."""
        retries = list(self._retries.values())
        for retry in retries:
            retry.cancel()
        await asyncio.gather(*retries, return_exceptions=True)

    async def _attempt(self, key: Key, body: Mapping[str, Any]) -> None:
        with logs.bound(**_named(key)):
            try:
                async with self._lock(key), self._running:
                    await self._timed(key, body)
            except AnabranchError as error:
                self._try_again(key, error)
            except Exception as error:  # noqa: BLE001  (a defect in one object's handling must not stop the others')
                _log.exception("reconciling failed")
                self._try_again(key, error)
            else:
                self._failures.pop(key, None)
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
            await self._stall(key, body, error)
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
        _log.warning("spec was set back", **_named(key), generation=metadata["generation"])

    async def _stall(self, key: Key, body: Mapping[str, Any], error: InvalidInputError) -> None:
        """Say in the status that this release does not understand the spec: the CRDs are of another one."""
        _log.error("spec not understood", **_named(key), error=str(error))
        async with self._db.connection() as conn:
            await waiting.upsert(
                conn,
                namespace=key.namespace,
                kind=key.kind,
                name=key.name,
                uid=body["metadata"]["uid"],
                observed_generation=body["metadata"]["generation"],
                condition="Stalled",
                reason=INVALID_SPEC,
                message=str(error),
                needs_namespace=key.namespace,
                needs_name=key.name,
                due_in=None,
            )

    def _try_again(self, key: Key, error: Exception) -> None:
        self._failures[key] = attempt = self._failures.get(key, 0) + 1
        seconds = _delay(attempt)
        _log.warning("will reconcile again", **_named(key), seconds=round(seconds, 1), error=str(error))
        if key not in self._retries:
            task = asyncio.create_task(self._retry(key, seconds), name=f"retry {key}")
            self._retries[key] = task

    async def _retry(self, key: Key, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            del self._retries[key]
        await self.revisit(key)

    def _lock(self, key: Key) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


def _is_set_back(body: Mapping[str, Any]) -> bool:
    """Whether the status answers to a newer spec than there is, which no watch and no delay brings about."""
    return bool((body.get("status") or {}).get("observedGeneration", -1) > body["metadata"]["generation"])


def _was_stalled(body: Mapping[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions", ())
    return any(condition.get("reason") == INVALID_SPEC for condition in conditions)


def _delay(attempt: int) -> float:
    return backoff.delay(attempt, chance=random.random(), limit=_LONGEST_RETRY_SECONDS)  # noqa: S311  (jitter)


def _named(key: Key) -> dict[str, str]:
    name = {"Baseline": "baseline", "Branch": "branch", "ConsolidationJob": "job"}[key.kind]
    return {"namespace": key.namespace, name: key.name}
