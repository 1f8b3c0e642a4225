"""Statuses that are wrong though Postgres has not changed: etcd was restored from a backup, or somebody wrote them.

Rows say which version was shown, and such a status shows another, so nothing would ever be written again. So each
status that is seen for the first time, or that this process has not written, is compared with what it should say, some
time later and in bulk; in the usual case they agree, and nothing is written.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.keys import Key
from anabranch.controllers.pacing import steady
from anabranch.model.ids import is_id, line_of
from anabranch.store import branches, jobs, lines
from anabranch.store.projection import Dirty

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Connection

GRACE_SECONDS: Final = 5.0
"""What is new is shown by then in the usual way, and needs no verification."""

_LOOKUPS: Final = 50
_OF_WAITING: Final = ("observedGeneration", "conditions")
_UNSETTLED: Final = frozenset({"leaseDeadline", "pendingBatches"})
_IDS: Final[dict[OwnName, str]] = {"Baseline": "lineId", "Branch": "branchId", "ConsolidationJob": "jobId"}
_PREFIXES: Final[dict[OwnName, str]] = {"Baseline": "ln", "Branch": "br", "ConsolidationJob": "job"}


@dataclass(frozen=True)
class _Seen:
    key: Key
    identifier: str | None
    settled: bytes
    waiting: bytes
    at: float


class Verifying:
    """The statuses that are still to be verified."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def add(self, kind: OwnName, body: Mapping[str, Any], *, now: float) -> None:
        """Have an object's status verified after a while, in the state in which it was seen last by then."""
        metadata, status = body["metadata"], body.get("status") or {}
        key, before = Key(kind, metadata["namespace"], metadata["name"]), self._seen.get(metadata["uid"])
        at = now if before is None else before.at
        self._seen[metadata["uid"]] = _Seen(
            key, status.get(_IDS[kind]), _settled(status), _settled(status, _OF_WAITING), at
        )

    def awaits(self, uid: str) -> bool:
        """Whether an object's status is still to be verified."""
        return uid in self._seen

    def drop(self, uid: str) -> None:
        """It was written, or is gone."""
        self._seen.pop(uid, None)

    def agrees(self, uid: str, status: Mapping[str, Any], *, whole: bool) -> bool:
        """Whether a status that was to be verified says what it should; from now on it is verified.

        Args:
            uid: Of the object.
            status: What it should say.
            whole: Whether it is all that it should say; if not, only what a waiting object says is compared.
        """
        seen = self._seen.pop(uid, None)
        if seen is None:
            return False
        return seen.settled == _settled(status) if whole else seen.waiting == _settled(status, _OF_WAITING)

    async def due(self, conn: Connection, *, now: float, but: Collection[str], limit: int) -> list[Dirty]:
        """Some whose time has come, as rows to be shown, without an id if they may wait; of no version yet.

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
            if identifier is None or not is_id(_PREFIXES[seen.key.kind], identifier):  # somebody may have written it
                lookups += 1
                identifier = await _look_up(conn, seen.key, uid)
            line = None if identifier is None else line_of(identifier)
            found.append(Dirty(**vars(seen.key), uid=uid, line=line, id=identifier, version=0))
        return found


def _settled(status: Mapping[str, Any], members: Collection[str] = ()) -> bytes:
    """The hash of what these members of a status say; without any, all but what changes without being shown at once."""
    if members:
        return steady({name: status.get(name) for name in members})
    return steady({name: value for name, value in status.items() if name not in _UNSETTLED})


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
