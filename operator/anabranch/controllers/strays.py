"""What this store has of resources that are another store's: it is let go of, for no run is in two places.

It comes about where a store went away after it had forked a run, and before the run's status could say so: its Baseline
may be made anew in another store meanwhile, whose operator forks the run too. Whichever status reached the resource
first has decided. Besides, whoever had waited for something on a resource's behalf waits no more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.bulk import Bulk
from anabranch.kube.kinds import OWN
from anabranch.store import drift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Database
    from anabranch.store.drift import Held

_REMEMBERED: Final = 50_000
_IDS: Final[dict[OwnName, str]] = {"Branch": "branchId", "ConsolidationJob": "jobId"}


class Strays:
    """Finds what this store has of others' resources.

    Args:
        db: Of this store.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._held = {kind: Bulk(partial(self._look, kind), name=f"look for strays: {kind}") for kind in OWN}
        self._none: set[str] = set()

    async def held(self, kind: OwnName, body: Mapping[str, Any]) -> Held | None:
        """What this store has of a resource; None: nothing. Many are looked up at once.

        Raises:
            UnavailableError: If Postgres cannot be asked.
        """
        metadata = body["metadata"]
        return await self._held[kind].ask((metadata["namespace"], metadata["name"], metadata["uid"]))

    async def is_here(self, kind: OwnName, body: Mapping[str, Any]) -> bool:
        """Whether this store has anything of a resource; of one of which it has nothing it is asked once.

        Raises:
            UnavailableError: If Postgres cannot be asked.
        """
        uid = body["metadata"]["uid"]
        if uid in self._none:
            return False
        if await self.held(kind, body) is not None:
            return True
        if len(self._none) >= _REMEMBERED:
            self._none.clear()
        self._none.add(uid)
        return False

    def forget(self, uid: str) -> None:
        """A resource is gone."""
        self._none.discard(uid)

    async def _look(self, kind: OwnName, places: Sequence[tuple[str, str, str]]) -> Mapping[tuple[str, str, str], Held]:
        async with self._db.connection() as conn:
            return await drift.held(conn, kind=kind, places=places)


def is_doubled(kind: OwnName, body: Mapping[str, Any], held: Held) -> bool:
    """Whether a resource stands for something else than what this store has for it: its status has another id."""
    shown = (body.get("status") or {}).get(_IDS.get(kind, ""))
    return held.id is not None and shown is not None and shown != held.id
