"""Statuses that nobody has changed, and that are wrong all the same: after etcd was restored from a backup.

Rows say which version was shown, and a restored cluster shows an older one, so nothing would ever be written again. So
each status that is seen for the first time is compared, once and in bulk, with what it should say; in the usual case
they agree, and nothing is written.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.pacing import steady
from anabranch.controllers.reconciler import Key
from anabranch.store import branches, jobs, lines
from anabranch.store.projection import Dirty

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Connection

GRACE_SECONDS: Final = 5.0
"""What is new is shown by then in the usual way, and needs no verification."""

_LOOKUPS: Final = 50
_IDS: Final[dict[OwnName, str]] = {"Baseline": "lineId", "Branch": "branchId", "ConsolidationJob": "jobId"}


@dataclass(frozen=True)
class _Seen:
    key: Key
    identifier: str | None
    steady: bytes
    at: float


class Verifying:
    """The statuses that are still to be verified."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def add(self, kind: OwnName, body: Mapping[str, Any], *, now: float) -> None:
        """Have an object's status verified after a while."""
        metadata, status = body["metadata"], body.get("status") or {}
        key = Key(kind, metadata["namespace"], metadata["name"])
        self._seen[metadata["uid"]] = _Seen(key, status.get(_IDS[kind]), steady(status), now)

    def drop(self, uid: str) -> None:
        """It was written, or is gone."""
        self._seen.pop(uid, None)

    def agrees(self, uid: str, status: Mapping[str, Any]) -> bool:
        """Whether a status that was to be verified says what it should; from now on it is verified."""
        seen = self._seen.pop(uid, None)
        return seen is not None and seen.steady == steady(status)

    async def due(self, conn: Connection, *, now: float, but: Collection[str], limit: int) -> list[Dirty]:
        """Some whose time has come, as rows to be shown; version 0 marks nothing.

        Args:
            conn: A connection.
            now: On the loop's clock.
            but: Uids of those that are shown anyway.
            limit: How many at most.
        """
        found: list[Dirty] = []
        lookups = 0
        for uid, seen in list(self._seen.items()):
            if now - seen.at < GRACE_SECONDS or len(found) == limit or lookups == _LOOKUPS:
                break
            if uid in but:
                continue
            identifier = seen.identifier
            if identifier is None:
                lookups += 1
                identifier = await _look_up(conn, seen.key, uid)
            if identifier is None:
                self.drop(uid)  # it waits, and its wait is shown by itself
                continue
            # The line is only told from None, which would mean that it waits.
            found.append(Dirty(**vars(seen.key), uid=uid, line=identifier, id=identifier, version=0))
        return found


async def _look_up(conn: Connection, key: Key, uid: str) -> str | None:
    """The id of what Postgres has for an object whose status does not tell it."""
    match key.kind:
        case "Baseline":
            state = await lines.find(conn, namespace=key.namespace, name=key.name)
            return state.line.line if state is not None and state.line.uid == uid else None
        case "Branch":
            branch = await branches.by_uid(conn, namespace=key.namespace, name=key.name, uid=uid)
            return branch.branch_id if branch is not None else None
        case "ConsolidationJob":
            job = await jobs.by_name(conn, namespace=key.namespace, name=key.name)
            return job.job_id if job is not None and job.uid == uid else None
