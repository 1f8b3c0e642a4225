"""Takes the marks of deleted records out of a line: a generation of its own, for the manifest hash covers them.

A tombstone tells whoever compares generations that the record is gone. So it stays while any manifest still shows the
record, however old it is. Once it is the last row of its key, a comparison finds the key on neither side without it.
What readers see does not change, so followers of the feed are told nothing: they were told of the deletion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import trie
from anabranch.store import lines, manifests, publish, queries, versions
from anabranch.store import trie as store_trie

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.store.database import Connection
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("tombstones")

KEYS: Final = 10_000
"""Tombstones that one generation takes out: its transaction holds the head's lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """A generation that only needs the lock.

    Attributes:
        parent: The manifest that it goes on from.
        revision: The revision that it brings.
        keys: Whose tombstones go.
        delta: The change of the trie.
    """

    parent: ManifestRow
    revision: int
    keys: Sequence[str]
    delta: trie.TrieDelta


async def plan(conn: Connection, *, line: str, overdue: datetime, expired: datetime) -> Purge | None:
    """Plan a generation without the tombstones that have been kept long enough; None: there is no need for one.

    Args:
        conn: A connection; no lock is needed, nothing is written.
        line: The line.
        overdue: Only if there is one from before this moment;
        expired: then all from before this one, at most `KEYS` of them, the oldest.

    Raises:
        GoneError: If the head moved on meanwhile, and was pruned.
    """
    head = await lines.head(conn, line)
    if head.paused or not await _expired(conn, line=line, before=overdue, limit=1):
        return None
    keys = await _expired(conn, line=line, before=expired, limit=KEYS)
    parent = await manifests.resolve(conn, line=line, ref=head.head_generation)
    delta = await store_trie.plan(conn, manifest=parent, changes={trie.key_hash(key): None for key in keys})
    return Purge(parent=parent, revision=head.revision + 1, keys=keys, delta=delta)


async def purge(conn: Connection, *, planned: Purge) -> ManifestRow | None:
    """Write a planned generation, and make it the head; None if the line was paused meanwhile.

    Args:
        conn: Inside a transaction.
        planned: What `plan` gave.

    Raises:
        HeadMovedError: If the head is not the one that was planned for; nothing was written.
        RestoreUnderWayError: If a restore is being written.
    """
    line = planned.parent.line
    head = await lines.lock_head(conn, line)
    if head.paused:
        return None
    await publish.enter(conn, head=head, parent=planned.parent, revision=planned.revision)
    generation = head.head_generation + 1
    live = await versions.end(conn, line=line, generation=generation, keys=planned.keys)
    await versions.write_nodes(conn, line=line, generation=generation, delta=planned.delta)
    return await publish.seal(
        conn,
        head=head,
        root=planned.delta.root,
        records=planned.parent.records - live,
        events=(),
        origin={"kind": "purge", "tombstones": len(planned.keys)},
    )


async def _expired(conn: Connection, *, line: str, before: datetime, limit: int) -> list[str]:
    through = await _sql.made_before(conn, line=line, moment=before)
    return await queries.rows(_sql.expired(conn, line=line, through=through, limit=limit), lambda row: str(row["key"]))
