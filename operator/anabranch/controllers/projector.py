"""The one writer of `status`: reads which rows have changed since they were shown, and shows them.

Rows count their changes, so however often one changes between two looks it is written once, in its newest state. A
version is marked as shown only after the write, so a process that dies in between writes again, which changes nothing.
Only the leader writes, and begins no write that could end after another process leads; thus no older state overwrites
a newer one. A status never says what Postgres has not committed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import structlog

from anabranch.controllers import sheets
from anabranch.controllers.keys import Key
from anabranch.controllers.pacing import Pacing
from anabranch.controllers.status import Seen, id_of, occurrences
from anabranch.controllers.verifying import Verifying
from anabranch.kube.errors import ChangedObjectError, ObjectNotFoundError, ObjectRefusedError, StaleObjectError
from anabranch.kube.events import ObjectRef
from anabranch.kube.kinds import OWN
from anabranch.model.errors import AnabranchError
from anabranch.store import projection
from anabranch.telemetry.of_operator import STATUS_WRITES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.controllers.announcer import Announcer
    from anabranch.controllers.bell import Bell
    from anabranch.controllers.homes import Homes
    from anabranch.controllers.reconciler import Reconciler
    from anabranch.controllers.sheets import Sheet
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import OwnName
    from anabranch.kube.leader import Leadership
    from anabranch.store.database import Database
    from anabranch.store.projection import Dirty

_log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 1.0
COALESCE_SECONDS: Final = 0.1
"""Pause between two looks: what changes several times within it is written once."""

_REFUSED_SECONDS: Final = 60.0
_CHANGED_SECONDS: Final = 0.2
_Outcome: TypeAlias = Literal["written", "changed", "theirs", "gone", "refused", "failed"]
_AT_ONCE: Final = 500
_PARALLEL: Final = 16
_REMEMBERED: Final = 50_000
_MANY: Final = 16
_ASIDE_SECONDS: Final = 1.0


class _TheirsError(Exception):
    """The resource is another store's."""


class Projector:
    """Writes statuses.

    Args:
        db: What the statuses show.
        kube: Where they are written.
        leadership: Only the leader writes.
        announcer: Told what happened.
        bell: Rung when there may be something to write.
        reconciler: Tells what is being reconciled now, which is shown when that is done, in one piece; and told of
            what is gone.
        store: Which statuses name, so that other stores' operators leave the resources alone; None: the default one.
        homes: Tells whose a resource is, where there are several stores.
    """

    def __init__(  # noqa: PLR0913  (its collaborators)
        self,
        db: Database,
        kube: KubeClient,
        *,
        leadership: Leadership,
        announcer: Announcer,
        bell: Bell,
        reconciler: Reconciler,
        store: str | None = None,
        homes: Homes | None = None,
    ) -> None:
        self._store = store
        self._homes = homes
        self._db = db
        self._kube = kube
        self._leadership = leadership
        self._announcer = announcer
        self._bell = bell
        self._reconciler = reconciler
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._put_off: dict[Dirty, float] = {}  # until when, unless the row changes again
        self._pacing = Pacing()
        self._verifying = Verifying()
        self._writing = asyncio.Semaphore(_PARALLEL)

    def observe(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """Remember what the status of an object says, as the watch shows it, and have it verified if it is news.

        News is what this process has not written: the first that it sees of an object, and whatever somebody else made
        of the status since. What it wrote a moment ago may look like news too, and then agrees.
        """
        uid, seen = body["metadata"]["uid"], Seen.of(body.get("status"))
        known = self._seen.get(uid)
        if known is None:  # later, what this process wrote is newer than what comes back by the watch
            self._remember(uid, seen)
        if known != seen or self._verifying.awaits(uid):
            self._verifying.add(kind, body, now=_now())

    def forget(self, uid: str) -> None:
        """An object is gone."""
        self._seen.pop(uid, None)
        self._pacing.forget(uid)
        self._verifying.drop(uid)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            try:
                wrote = await self.look() if self._leadership.leading else 0
            except AnabranchError as error:
                _log.warning("statuses not written", error=str(error))
                wrote = 0
            except Exception:  # noqa: BLE001  (one row that cannot be shown must not stop the others' for good)
                _log.exception("statuses not written")
                wrote = 0
            if wrote == 0:
                await self._bell.wait(POLL_SECONDS)
            await asyncio.sleep(COALESCE_SECONDS)

    async def look(self) -> int:
        """Write the statuses that lag behind; how many were written."""
        now = _now()
        async with self._db.connection() as conn:
            self._put_off = {row: until for row, until in self._put_off.items() if until > now}
            found = await projection.dirty(conn, limit=_AT_ONCE, exclude=self._put_off)
            rows = [row for row in found if not self._reconciler.is_busy(_key(row))]
            room = _AT_ONCE - len(rows)
            unverified = await self._verifying.due(conn, now=now, but={row.uid for row in found}, limit=max(room, 0))
            unverified = [row for row in unverified if not self._reconciler.is_busy(_key(row))]
            due = await sheets.read(conn, [*rows, *unverified], seen=self._of, store=self._store)
        rows += [row for row in unverified if not self._is_verified(row, due.get(row.uid))]
        if len(rows) > _MANY:
            self._announcer.step_aside(_ASIDE_SECONDS)
        shown = await asyncio.gather(
            *(self._show(row, due[row.uid]) for row in rows if row.uid in due), return_exceptions=True
        )
        # A row that went away between the two reads is marked too: if it comes back, it is in another version.
        done = [row for row in shown if isinstance(row, projection.Dirty)]
        done += [row for row in rows if row.uid not in due]
        if done:
            async with self._db.connection() as conn:
                await projection.mark(conn, done)
        for error in shown:
            if isinstance(error, BaseException):
                raise error
        return len(done)

    def _is_verified(self, row: Dirty, sheet: Sheet | None) -> bool:
        """Whether a status that was to be verified needs no writing: it agrees, or there is nothing to be said."""
        if sheet is None:
            self._verifying.drop(row.uid)
            return True
        return self._verifying.agrees(row.uid, sheet.status, whole=sheet.whole)

    async def _show(self, row: Dirty, sheet: Sheet) -> Dirty | None:
        """Write one status; the row, if it is to be marked as shown."""
        if row.kind == "Branch" and row.version:  # without a version: what is there is wrong, and cannot wait
            until = self._pacing.wait_until(row.uid, sheet.status, now=_now())
            if until is not None:
                self._put_off[row] = until
                return None
        before = self._of(row.uid)
        async with self._writing:
            outcome = await self._write(row, sheet) if self._leadership.leading else None
        if outcome != "written":
            return await self._missed(row, outcome)
        self._verifying.drop(row.uid)
        self._remember(row.uid, before.then(sheet.status, whole=sheet.whole))
        if row.kind == "Branch":
            self._pacing.wrote(row.uid, sheet.status, now=_now())
        about = ObjectRef(OWN[row.kind], row.namespace, row.name, row.uid)
        for occurrence in occurrences(row.kind, before=before, status=sheet.status, manifests=sheet.manifests):
            self._announcer.tell(about, occurrence)
        return replace(row, version=sheet.version)

    async def _write(self, row: Dirty, sheet: Sheet) -> _Outcome:
        """Write one status; how that went."""
        outcome: _Outcome = "written"
        try:
            await self._kube.write_status(
                OWN[row.kind],
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                status=sheet.status,
                whole=sheet.whole,
                version=await self._settle(row, sheet),
                timeout=self._leadership.margin,
            )
        except _TheirsError:
            outcome = "theirs"
        except ChangedObjectError:
            outcome = "changed"
        except (ObjectNotFoundError, StaleObjectError):
            outcome = "gone"
        except ObjectRefusedError as error:
            outcome = "refused"
            _log.error("status refused", kind=row.kind, object=f"{row.namespace}/{row.name}", error=str(error))
        except AnabranchError:
            STATUS_WRITES.labels(row.kind, "failed").inc()
            raise
        STATUS_WRITES.labels(row.kind, outcome).inc()
        return outcome

    async def _missed(self, row: Dirty, outcome: _Outcome | None) -> Dirty | None:
        """See to a resource whose status was not written; the row, if there is nothing to be shown any more."""
        if outcome in {"gone", "theirs"}:
            self.forget(row.uid)
            if outcome == "gone":
                await self._reconciler.gone(_key(row), row.uid)
            else:
                await self._reconciler.revisit(_key(row))
            return row
        if outcome is not None:
            self._put_off[row] = _now() + (_CHANGED_SECONDS if outcome == "changed" else _REFUSED_SECONDS)
        return None

    async def _settle(self, row: Dirty, sheet: Sheet) -> str | None:
        """Make sure that a resource is this store's, before its status says so for the first time.

        Two stores may have forked the same Branch, when its Baseline was made anew in the other one. The status that
        reaches it first decides; what says of itself whose it is, is not asked about again.

        Returns:
            The version of the resource that this is so of; None: of any.

        Raises:
            _TheirsError: If it is another store's.
            ObjectNotFoundError: If it is gone.
        """
        shown = self._of(row.uid).id
        is_told = shown is not None and shown == (id_of(sheet.status) or shown)
        if self._homes is None or not self._homes.several or row.kind == "Baseline" or is_told:
            return None
        body = await self._kube.get(OWN[row.kind], namespace=row.namespace, name=row.name)
        named = id_of(body.get("status") or {})
        if self._homes.is_others(row.kind, body) and (named is None or named != id_of(sheet.status)):
            raise _TheirsError
        return str(body["metadata"]["resourceVersion"])

    def _remember(self, uid: str, seen: Seen) -> None:
        self._seen[uid] = seen
        self._seen.move_to_end(uid)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _of(self, uid: str) -> Seen:
        return self._seen.get(uid, Seen())


def _key(row: Dirty) -> Key:
    return Key(row.kind, row.namespace, row.name)


def _now() -> float:
    return asyncio.get_running_loop().time()
