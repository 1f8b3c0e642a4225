"""A line that comes back from a backup: its records, its head, and nothing of what came after.

What was published after the backup was taken is lost, and somebody has seen it: followers have read its events,
agents have noted its revisions. So the numbers that are given out again must not be taken for those. The feed gets
another epoch, by which every place in it that was ever given out has ended. Revisions go on so far ahead that none is
given twice. Generations are counted on, since people name them; what tells two of one number apart is their id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import ConflictError, DigestMismatchError
from anabranch.store import database, importing, lines, queries
from anabranch.store import manifests as store_manifests

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Sequence
    from datetime import datetime

    from anabranch.store.backups import RestoreName
    from anabranch.store.database import Connection, Database
    from anabranch.store.importing import ImportRecord
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("reviving")

JUMP: Final = 1_000_000
"""Revisions that are left out: more publications than there can have been since the backup."""

_EPOCHS_SINCE: Final = 1_577_836_800
"""2020-01-01: an epoch is the second in which it began, and so never one that there was."""


async def revive(  # noqa: PLR0913  (a line has that many parts)
    db: Database,
    *,
    namespace: str,
    namespace_uid: str,
    name: str,
    manifest: ManifestRow,
    epoch: int,
    import_digest: bytes | None,
    restores: Sequence[RestoreName],
    records: AsyncIterable[ImportRecord],
    replace: bool = False,
) -> None:
    """Put a line back as it was at a manifest, in one transaction. Its Baseline takes it up as it would its own.

    Args:
        db: The database.
        namespace: Of its Baseline.
        namespace_uid: ``metadata.uid`` of that namespace, as it was. In another one of that name, its Baseline has to
            name the line in ``spec.adopt``.
        name: Of its Baseline.
        manifest: The head.
        epoch: Of its feed, as it was.
        import_digest: Of the source that was imported last; None: none was.
        restores: That must not act again.
        records: All of the manifest, in any order.
        replace: Whether another line that the Baseline has by now may be set aside; nothing of it is deleted.

    Raises:
        ConflictError: If the line is there, or another one stands in its place and may not be set aside.
        DigestMismatchError: If the records do not lead to the manifest's root; nothing was written.
    """
    line = manifest.line
    async with db.transaction() as conn:
        await _make_room(conn, line=line, namespace=namespace, namespace_uid=namespace_uid, name=name, replace=replace)
        await _sql.add_line(
            conn, line=line, namespace=namespace, namespace_uid=namespace_uid, name=name, import_digest=import_digest
        )
        filled = await importing.fill(conn, line=line, generation=manifest.generation, records=records)
        if (filled.root, filled.live) != (manifest.manifest_hash, manifest.records):
            raise DigestMismatchError(
                "The records of the backup do not lead to its manifest's root.", hint="Restore another backup."
            )
        await _sql.add_manifest(conn, **_members(manifest))
        await _sql.add_head(
            conn,
            line=line,
            generation=manifest.generation,
            revision=manifest.revision + JUMP,
            event_sequence=manifest.feed_watermark,
            epoch=_next_epoch(epoch, await database.now(conn)),
        )
        await _sql.add_restores(
            conn,
            line=line,
            ids=[restore.restore_id for restore in restores],
            sources=[restore.from_generation for restore in restores],
            generations=[restore.generation for restore in restores],
        )


async def renew_epochs(db: Database) -> int:
    """Give every feed another epoch, after the database as a whole was set back; how many there are.

    A line at a time, each in a transaction of its own: done twice it does no harm.
    """
    async with db.connection() as conn:
        found = await queries.rows(_sql.all_lines(conn), lambda row: str(row["line"]))
    for line in found:
        async with db.transaction() as conn:
            await lines.lock_head(conn, line)
            await _sql.renew_epoch(conn, line=line, epoch=_next_epoch(0, await database.now(conn)), jump=JUMP)
    return len(found)


async def _make_room(  # noqa: PLR0913  (what a line is, and where)
    conn: Connection, *, line: str, namespace: str, namespace_uid: str, name: str, replace: bool
) -> None:
    where = {"namespace": namespace, "namespace_uid": namespace_uid, "name": name}
    found = await queries.rows(_sql.others(conn, line=line, **where), lambda row: (row["line"], row["head_generation"]))
    for other, generation in found:
        if other == line:
            raise ConflictError(
                f"The line {line} is there.",
                hint="To go back to what it was, set spec.pin or spec.restore of its Baseline.",
            )
        if generation and not replace:
            raise ConflictError(
                f"The Baseline {namespace}/{name} has begun anew, as the line {other} of {generation} generations.",
                hint="Say --replace to set that line aside; nothing of it is deleted.",
            )
        await _sql.set_aside(conn, line=other)


def _members(manifest: ManifestRow) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in store_manifests.FIELDS}


def _next_epoch(epoch: int, now: datetime) -> int:
    return max(epoch + 1, int(now.timestamp()) - _EPOCHS_SINCE)
