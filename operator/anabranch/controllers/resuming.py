"""What a process finds when it starts: thousands of objects, nearly all of them as Postgres has them.

To reconcile each of them would cost several transactions an object, to write what is written already: 10,000 Branches
kept a new leader busy for minutes. So Postgres is asked for many at once which of them it has in the very generation
that is there. Only the others are reconciled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.bulk import Bulk
from anabranch.model.errors import InvalidInputError
from anabranch.model.ids import line_of
from anabranch.store import drift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Database

_IDS: Final[dict[OwnName, str]] = {"Branch": "branchId", "ConsolidationJob": "jobId"}


class Resuming:
    """Tells which objects a new process need not reconcile.

    Args:
        db: What is compared with the objects.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._unchanged = {kind: Bulk(partial(self._look, kind), name=f"compare each {kind}") for kind in _IDS}

    async def is_settled(self, kind: OwnName, body: Mapping[str, Any]) -> bool:
        """Whether Postgres has an object as it is, and nothing but its spec matters to it.

        A Baseline never is: what it imports, and the review guard, may have changed. Neither is a job with reviews,
        which count or not by the state of the guard.

        Args:
            kind: Of the object.
            body: As the API server has it, its status being written for this very generation.

        Raises:
            UnavailableError: If Postgres cannot be asked.
        """
        sighting = _sighting(kind, body)
        return sighting is not None and bool(await self._unchanged[kind].ask(sighting))

    async def _look(self, kind: OwnName, sightings: Sequence[drift.Sighting]) -> Mapping[drift.Sighting, bool]:
        async with self._db.connection() as conn:
            unchanged = await drift.unchanged(conn, kind=kind, sightings=sightings)
        return {sighting: sighting.uid in unchanged for sighting in sightings}


def _sighting(kind: OwnName, body: Mapping[str, Any]) -> drift.Sighting | None:
    """What there is to compare; None where the object is to be reconciled anyway."""
    identifier = (body.get("status") or {}).get(_IDS.get(kind, ""))
    if identifier is None or (body.get("spec") or {}).get("reviews") or body["metadata"].get("deletionTimestamp"):
        return None
    try:
        line_of(identifier)
    except InvalidInputError:  # somebody wrote the status
        return None
    return drift.Sighting(identifier, body["metadata"]["uid"], body["metadata"]["generation"])
