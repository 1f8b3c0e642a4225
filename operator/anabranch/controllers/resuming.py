"""What a process finds when it starts: thousands of objects, nearly all of them as Postgres has them.

To reconcile each of them would cost several transactions an object, to write what is written already: 10,000 Branches
kept a new leader busy for minutes. So they are gathered, and Postgres is asked for many at once which of them it has in
the very generation that is there. Only the others are reconciled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import InvalidInputError
from anabranch.model.ids import line_of
from anabranch.store import drift

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.kube.kinds import OwnName
    from anabranch.store.database import Database

GATHER_SECONDS: Final = 0.02
"""How long the first of a handful waits for more."""

_IDS: Final[dict[OwnName, str]] = {"Branch": "branchId", "ConsolidationJob": "jobId"}


class Resuming:
    """Tells which objects a new process need not reconcile.

    Args:
        db: What is compared with the objects.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._gathered: dict[OwnName, dict[drift.Sighting, asyncio.Future[bool]]] = {kind: {} for kind in _IDS}
        self._asking: set[asyncio.Task[None]] = set()

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
        if sighting is None:
            return False
        gathered = self._gathered[kind]
        if not gathered:
            task = asyncio.create_task(self._ask(kind), name=f"compare each {kind}")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        if sighting not in gathered:
            gathered[sighting] = asyncio.get_running_loop().create_future()
        return await gathered[sighting]

    async def _ask(self, kind: OwnName) -> None:
        """Wait for more, then ask for all of them."""
        await asyncio.sleep(GATHER_SECONDS)
        asked, self._gathered[kind] = self._gathered[kind], {}
        try:
            async with self._db.connection() as conn:
                unchanged = await drift.unchanged(conn, kind=kind, sightings=list(asked))
        except Exception as error:  # noqa: BLE001  (whoever waits for the answer takes it, whatever it is)
            for answer in asked.values():
                if not answer.done():
                    answer.set_exception(error)
            return
        for sighting, answer in asked.items():
            if not answer.done():
                answer.set_result(sighting.uid in unchanged)


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
