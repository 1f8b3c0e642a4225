"""A move to another parent snapshot: only when the agent says so, and from one read to the next.

The branch is moved by its resource; the worker notices, and goes on reading the old snapshot until `rebase`. What was
applied of the feed is told anew, as the difference between the new parent and where the follower was. The private
overlay stays as it is, with what each record was written over: so what conflicts with the new parent is listed, and
never resolved here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.client.worker import layers, shared, snapshot
from anabranch.model.errors import GoneError

if TYPE_CHECKING:
    import sqlite3

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.client.worker.following import Follower

_STAGED: Final = -1
"""The sequence that the new overlay is staged under: no event has it."""


async def rebase(  # noqa: PLR0913  (all but what it works with by keyword)
    file: WorkerFile, client: AnabranchClient, follower: Follower, *, namespace: str, name: str, generation: int
) -> None:
    """Make a generation the parent snapshot; until it is there as a whole, and after any failure, the old one stays.

    Args:
        file: The worker's.
        client: Of the API.
        follower: The worker's.
        namespace: Of the Baseline.
        name: Of the Baseline.
        generation: The branch's new parent.

    Raises:
        AnabranchError: If the API cannot be reached, or does not show the records.
    """
    await snapshot.download(file, client, namespace=namespace, name=name, generation=generation)
    at = await file.read(layers.run)
    applied = at["applied_generation"]
    goes_on = applied is not None and applied > generation
    if goes_on:
        try:
            await follower.stage_difference(_STAGED, base=generation, to=applied)
        except GoneError:
            await follower.stage_difference(_STAGED, base=generation, to="current")
    await file.write(_switch, generation, goes_on=goes_on)


def _switch(db: sqlite3.Connection, generation: int, *, goes_on: bool) -> None:
    """Let reads go to the new generation.

    What is held was told as a difference to the old one, so it is received again. Where the new parent is ahead of what
    was applied, following begins behind it.
    """
    db.execute("DELETE FROM inbox")
    db.execute("DELETE FROM arrivals WHERE sequence <> ?", (_STAGED,))
    if goes_on:
        shared.rebuild(db, _STAGED)
        db.execute("UPDATE run SET cursor = applied_cursor, received = applied")
    else:
        db.execute("DELETE FROM shared")
        db.execute(
            "UPDATE run SET cursor = NULL, applied_cursor = NULL, received = 0, applied_generation = ?", (generation,)
        )
    db.execute("UPDATE run SET base = ?, start = ?", (generation, generation))
    db.execute("DELETE FROM snapshots WHERE generation <> ?", (generation,))
    layers.settle(db)
