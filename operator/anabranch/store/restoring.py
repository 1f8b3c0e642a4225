"""A restore: what an older generation said, published as a new one, as ``git revert`` does.

The difference may be as large as the line, and the head's lock must not be held for that long. So it is staged first,
in temporary tables: the versions, and the nodes that cover them. Then publications are kept out (`publish.enter` tells
them to come back, so none of them waits), and the stage is moved over. The head's lock comes last, and covers nothing
but the manifest. When another generation came in between it is staged again; the last attempt keeps publications out
all along, so that a busy line is restored too. Each restore id acts once per line, ever, so that one left in Git never
repeats.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain import trie
from anabranch.domain.facts import Fact
from anabranch.store import lines, manifests, outbox, publish, queries, versions
from anabranch.store import trie as store_trie

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from anabranch.store.database import Connection, Database
    from anabranch.store.lines import HeadRow
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("restoring")

_ATTEMPTS: Final = 4
"""Attempts before the one that keeps publications out from its beginning."""

_ROWS: Final = 2_000

_NO_FACT: Final = Fact()
"""The provenance of a tombstone that a restore writes: the manifest's origin says where it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """What a restore id has done.

    Attributes:
        line: The line.
        restore_id: The id.
        from_generation: Whose content was restored.
        generation: The generation that has it.
        created_at: When.
    """

    line: str
    restore_id: str
    from_generation: int
    generation: int
    created_at: datetime


async def find(conn: Connection, *, line: str, restore_id: str) -> RestoreRow | None:
    """What a restore id has done; None when it has not acted."""
    row = await _sql.restored(conn, line=line, restore_id=restore_id)
    return None if row is None else RestoreRow(**row)


async def restore(db: Database, *, line: str, generation: int, restore_id: str) -> RestoreRow:
    """Publish the content of a retained generation as a new head, once per restore id.

    Keys that came since get tombstones. Content and provenance are the old ones; the revision is new. One event,
    ``restored``, tells the feed.

    Args:
        db: The database.
        line: The line.
        generation: Whose content.
        restore_id: Names this restore for ever; when it has acted before, what it did then comes back.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    async with db.connection() as conn:
        if (earlier := await find(conn, line=line, restore_id=restore_id)) is not None:
            return earlier
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(publish.HeadMovedError):
            async with db.transaction() as conn:
                staged = await _stage(conn, head=await lines.head(conn, line), generation=generation)
                await _sql.keep_others_out(conn, line=line)
                return await _write(conn, staged=staged, restore_id=restore_id)
    async with db.transaction() as conn:
        await _sql.be_patient(conn)
        await _sql.keep_others_out(conn, line=line)
        staged = await _stage(conn, head=await lines.head(conn, line), generation=generation)
        return await _write(conn, staged=staged, restore_id=restore_id)


@dataclass(frozen=True, slots=True)
class _Staged:
    """A difference that lies in the temporary tables."""

    target: ManifestRow
    parent: ManifestRow
    revision: int
    root: bytes


async def _stage(conn: Connection, *, head: HeadRow, generation: int) -> _Staged:
    """Put the difference between the head and a generation into temporary tables, which this transaction drops."""
    await _sql.be_patient(conn)
    await _sql.make_stage(conn)
    # Both stay until this transaction ends, and with them all that they show.
    target = await manifests.hold(conn, line=head.line, generation=generation)
    if target is None:
        raise manifests.missing(generation, head_generation=head.head_generation)
    parent = await manifests.hold(conn, line=head.line, generation=head.head_generation)
    if parent is None:
        raise publish.HeadMovedError("The head moved on, and was pruned.", hint="Stage the difference again.")
    await _sql.stage_versions(
        conn,
        line=head.line,
        target=target.generation,
        head=parent.generation,
        null_hash=trie.NULL_HASH,
        null_fact=_NO_FACT.hash,
    )
    revision = head.revision + 1
    changes = {key: descriptor async for key, descriptor in _pairs(conn, revision=revision)}
    delta = await store_trie.plan(conn, manifest=parent, changes=changes)
    await conn.copy_records_to_table(
        "stage_nodes",
        columns=("path", "hash", "body"),
        records=itertools.chain(
            ((node.path, node.hash, node.body) for node in delta.puts.values()),
            ((path, None, None) for path in delta.removed),
        ),
    )
    await _sql.stage_node_ends(conn, line=head.line, head=parent.generation)
    return _Staged(target, parent, revision, delta.root)


async def _pairs(conn: Connection, *, revision: int) -> AsyncIterator[trie.Pair]:
    async with _sql.staged_cursor(conn) as staged:
        cursor = await staged
        while some := await cursor.fetch(_ROWS):
            for row in some:
                yield trie.Descriptor(revision=revision, **row).pair


async def _write(conn: Connection, *, staged: _Staged, restore_id: str) -> RestoreRow:
    """Move the staged difference over, while publications are kept out, and then the head."""
    line = staged.parent.line
    if (earlier := await find(conn, line=line, restore_id=restore_id)) is not None:
        return earlier
    # Nobody moves it on any more: what it is now, it is going to be under its lock.
    publish.check_head(await lines.head(conn, line), parent=staged.parent, revision=staged.revision)
    generation = staged.parent.generation + 1
    await versions.add_facts(conn, line=line, bodies={_NO_FACT.hash: _NO_FACT.canonical()})
    await _sql.close_versions(conn, line=line, generation=generation)
    await _sql.open_versions(conn, line=line, generation=generation, revision=staged.revision)
    await _sql.close_nodes(conn, line=line, generation=generation)
    await _sql.open_nodes(conn, line=line, generation=generation)
    records = staged.parent.records + await _sql.more_live(conn)
    head = await lines.lock_head(conn, line)
    publish.check_head(head, parent=staged.parent, revision=staged.revision)
    manifest = await publish.seal(
        conn,
        head=head,
        root=staged.root,
        records=records,
        events=[publish.NewEvent(kind="restored")],
        origin={"kind": "restore", "generation": staged.target.generation, "id": restore_id},
    )
    details = {
        "cause": "restore",
        "generation": generation,
        "baseline_id": manifest.baseline_id,
        "restored_generation": staged.target.generation,
    }
    await outbox.add(
        conn, line=line, notices=[outbox.NewNotice(kind="baseline.rollback", branch_id=None, details=details)]
    )
    row = await _sql.record(
        conn, line=line, restore_id=restore_id, from_generation=staged.target.generation, generation=generation
    )
    return RestoreRow(**row)
