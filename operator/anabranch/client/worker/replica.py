"""The terms of what was downloaded: how long it may be used unseen, and what becomes of it when a grant is gone.

A Baseline's `retention.replica` binds every copy of its records that a worker keeps: the parent snapshot, the shared
updates, and events on their way. The private overlay, the outbox and the scratch space are the agent's own, and stay.
A scope that the agent may not read any more goes alone: it shows in a record of that scope which the API, asked for
again, does not have for this agent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from anabranch.client.worker import layers
from anabranch.model.errors import GoneError, NotFoundError

if TYPE_CHECKING:
    import sqlite3

    from anabranch.client import AnabranchClient
    from anabranch.client.worker.file import WorkerFile
    from anabranch.model.answers import ReplicaTerms

PURGE: Final = "Purge"

_DOWNLOADED: Final = ("snapshots", "base", "shared", "inbox", "arrivals")


async def keep_terms(file: WorkerFile) -> None:
    """Purge a replica that is older than its terms allow, so that nothing of it is left on the disk."""
    if await file.write(expired):
        await file.flush()


async def give_up(file: WorkerFile, why: str) -> None:
    """Purge a replica whose grant is gone, where its terms say so, so that nothing of it is left on the disk."""
    await file.write(revoked, why)
    await file.flush()


def seen(db: sqlite3.Connection, terms: ReplicaTerms) -> None:
    """The API has answered with what the grants show: the replica is good from now on, on these terms."""
    db.execute(
        "UPDATE run SET seen_at = ?, max_age = ?, on_revoke = ?",
        (time.time(), terms.max_age_seconds, terms.on_revoke),
    )


def expired(db: sqlite3.Connection) -> bool:
    """Purge a replica that was not seen to be granted for too long; whether it was."""
    row = layers.run(db)
    if row["purged"] is not None or (age := layers.over_age(row)) is None:
        return False
    purge(db, f"it was last seen to be granted {age:.0f} s ago, and may be used for {row['max_age']:.0f} s")
    return True


def revoked(db: sqlite3.Connection, why: str) -> None:
    """A grant is gone: purge the replica, where its terms say so."""
    row = layers.run(db)
    if row["on_revoke"] == PURGE and row["purged"] is None and row["start"] is not None:
        purge(db, why)


def purge(db: sqlite3.Connection, why: str) -> None:
    """Delete what was downloaded; a later download begins anew, at the parent that the branch has then."""
    for table in _DOWNLOADED:
        db.execute(f"DELETE FROM {table}")  # noqa: S608  (constants)
    db.execute(
        "UPDATE run SET purged = ?, base = NULL, cursor = NULL, start = NULL, received = 0, applied = 0,"
        " applied_cursor = NULL, applied_generation = NULL",
        (why,),
    )


async def purge_unreadable(file: WorkerFile, client: AnabranchClient, *, namespace: str, name: str) -> list[str]:
    """Delete what is in scopes that the agent may not read any more, where the terms say so.

    Returns:
        The scopes.

    Raises:
        AnabranchError: If the API cannot be reached, or shows no records to this agent at all.
    """
    lost = []
    for scope, generation, key in await file.read(_samples):
        try:
            await client.record(namespace, name, key, ref=generation)
        except NotFoundError:
            lost.append(scope)
        except GoneError:
            continue  # the generation went: that tells nothing of the grant
    if lost:
        # Only if the Baseline is still there to be seen, these are scopes that were lost, and not all of it.
        await client.baseline(namespace, name)
        await file.write(_purge_scopes, lost)
        await file.flush()
    return lost


def _samples(db: sqlite3.Connection) -> list[tuple[str, int, str]]:
    """A record of each scope, and the generation that has it."""
    row = layers.run(db)
    found: dict[str, tuple[str, int, str]] = {}
    scope = ""
    # One index look-up a scope: DISTINCT would walk through a million entries.
    while one := db.execute(
        "SELECT scope, key FROM base WHERE generation = ? AND scope > ? AND NOT gone ORDER BY scope, key LIMIT 1",
        (row["base"], scope),
    ).fetchone():
        scope = one["scope"]
        found[scope] = (scope, row["base"], one["key"])
    for one in db.execute("SELECT scope, min(key) AS key FROM shared WHERE NOT gone GROUP BY scope"):
        found.setdefault(one["scope"], (one["scope"], row["applied_generation"], one["key"]))
    return list(found.values())


def _purge_scopes(db: sqlite3.Connection, scopes: list[str]) -> None:
    if layers.run(db)["on_revoke"] != PURGE:
        return
    for scope in scopes:
        for table in ("base", "shared", "arrivals"):
            db.execute(f"DELETE FROM {table} WHERE scope = ?", (scope,))  # noqa: S608  (constants)
