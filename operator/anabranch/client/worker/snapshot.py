"""The download of a parent snapshot: page by page, to be gone on with after any end, and whole or not at all.

Each page is written together with the place behind it. Reads go to a generation only once its last page is there, so an
unfinished snapshot never passes for a complete one, in which a missing key would mean that there is no such record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.client.transport import path
from anabranch.model.answers import RecordPage
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import PAGE_MAX

if TYPE_CHECKING:
    import sqlite3

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile


async def download(file: WorkerFile, client: AnabranchClient, *, namespace: str, name: str, generation: int) -> None:
    """Download what is missing of a generation, deleted keys included: what is based on them names their revision.

    Args:
        file: The worker's.
        client: Of the API.
        namespace: Of the Baseline.
        name: Of the Baseline.
        generation: The generation.

    Raises:
        AnabranchError: If the API cannot be reached, or does not show the records. What is here stays.
    """
    place = path(namespace, "baselines", name, "manifests", generation, "records")
    while not (at := await file.write(_begin, generation))["complete"]:
        query = {"tombstones": "true", "limit": PAGE_MAX, "cursor": at["cursor"]}
        try:
            page = await client.get(RecordPage, place, query=query)
        except InvalidInputError as error:
            if error.code != "InvalidCursor" or at["cursor"] is None:
                raise
            await file.write(drop, generation)  # the API has other keys by now: it cannot tell where we were
        else:
            await file.write(_keep, generation, page)


def is_complete(db: sqlite3.Connection, generation: int) -> bool:
    """Whether a generation is here as a whole."""
    row = db.execute("SELECT complete FROM snapshots WHERE generation = ?", (generation,)).fetchone()
    return row is not None and bool(row["complete"])


def drop(db: sqlite3.Connection, generation: int) -> None:
    """Delete a generation."""
    db.execute("DELETE FROM snapshots WHERE generation = ?", (generation,))


def _begin(db: sqlite3.Connection, generation: int) -> sqlite3.Row:
    db.execute("INSERT INTO snapshots (generation) VALUES (?) ON CONFLICT DO NOTHING", (generation,))
    row: sqlite3.Row = db.execute("SELECT * FROM snapshots WHERE generation = ?", (generation,)).fetchone()
    return row


def _keep(db: sqlite3.Connection, generation: int, page: RecordPage) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO base (generation, key, revision, scope, gone, fact) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (generation, fact.key, int(fact.revision), fact.scope, fact.tombstone, fact.model_dump_json())
            for fact in page.items
        ],
    )
    db.execute(
        "UPDATE snapshots SET cursor = ?, complete = ? WHERE generation = ?",
        (page.next_cursor, page.next_cursor is None, generation),
    )
