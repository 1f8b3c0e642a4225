"""A backup of a line's head: its archive, read back and checked, then its description, then the row that says so.

The archive is the one that an export makes, with all scopes. It is checked before it goes out, down to the root: a
backup that could not be put back would be worse than none. Whoever dies on the way leaves an archive without a
description, which is no backup, and which the next attempt writes again.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch import __version__
from anabranch.archive import ArchiveLimits, ArchiveReader
from anabranch.archive.verifying import verify
from anabranch.backup.description import (
    BackupDescription,
    DescribedArchive,
    DescribedRestore,
    archive_place,
    described,
)
from anabranch.baselines import exporting
from anabranch.model.canonical import hash_text
from anabranch.model.limits import LINE_RECORDS
from anabranch.store import backups, lines, manifests
from anabranch.store import database as store_database

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from anabranch.backup.target import Target
    from anabranch.store.backups import BackupRow, RestoreName, Turn
    from anabranch.store.database import Database
    from anabranch.store.lines import LineState
    from anabranch.store.manifests import ManifestRow

LIMITS: Final = ArchiveLimits(compressed=1 << 40, ratio=1 << 20, records=4 * LINE_RECORDS)
"""Of a backup's archive. It comes from the store, and not from somebody: what a line has must be let through."""

_RESTORES: Final = 1_000


async def make(db: Database, *, line: str, name: str, target: Target, turn: Turn | None = None) -> BackupRow:
    """Back up what is the head of a line now.

    Args:
        db: The store.
        line: A line with a manifest.
        name: Of the target.
        target: Where the backup goes.
        turn: In which this happens; None: somebody asked for it.

    Raises:
        GoneError: If the head is pruned meanwhile; another one is there by then.
        NotReadyError: If the line has no manifest.
        TargetError: If the target cannot take it.
        UnavailableError: If the database cannot be reached.
    """
    async with db.connection() as conn:
        taken_at = await store_database.now(conn)  # before the head is read: what is published after it may be missing
        manifest = await manifests.resolve(conn, line=line, ref="head")
        state = await lines.get(conn, line)
        restores = await backups.restores(conn, line=line, limit=_RESTORES)
        scopes = await lines.scopes(conn, line)
    with tempfile.TemporaryDirectory(prefix="anabranch-backup-") as folder:
        file, description = Path(folder, "archive"), Path(folder, "description")
        digest, size = await _write(db, file, manifest=manifest, scopes=scopes)
        await asyncio.to_thread(_check, file, manifest)
        place = archive_place(state.line.namespace, state.line.name, manifest, digest)
        about = _describe(
            state,
            manifest,
            taken_at=taken_at,
            archive=DescribedArchive(place=place, digest=digest, bytes=size),
            restores=restores,
        )
        await target.put(place, file)
        await asyncio.to_thread(description.write_bytes, about.encode())
        await target.put(about.place, description)
    backup = backups.BackupRow(
        line=manifest.line,
        taken_at=taken_at,
        target=name,
        place=about.place,
        generation=manifest.generation,
        baseline_id=manifest.baseline_id,
        manifest_hash=manifest.manifest_hash,
        bytes=size,
    )
    async with db.transaction() as conn:
        await backups.record(conn, backup, turn=turn)
    db.notify("work")
    db.notify("status")
    return backup


async def _write(db: Database, file: Path, *, manifest: ManifestRow, scopes: list[str]) -> tuple[str, int]:
    """Write the archive of a manifest; its digest and how many bytes it has."""
    export = exporting.Export(manifest=manifest, scopes=tuple(scopes), withheld_scopes=(), complete=True, limits=LIMITS)
    digest = hashlib.sha256()
    with file.open("wb") as output:
        pieces = exporting.stream(db, export, offset=0, check=_may, among=asyncio.Semaphore())
        async for piece in pieces:
            digest.update(piece)
            await asyncio.to_thread(output.write, piece)
        size = output.tell()
    return hash_text(digest.digest()), size


def _check(file: Path, manifest: ManifestRow) -> None:
    with file.open("rb") as opened:
        verify(ArchiveReader(opened, limits=LIMITS), root=hash_text(manifest.manifest_hash))


def _describe(
    state: LineState,
    manifest: ManifestRow,
    *,
    taken_at: datetime,
    archive: DescribedArchive,
    restores: Sequence[RestoreName],
) -> BackupDescription:
    line = state.line
    return BackupDescription(
        created_by=f"anabranch {__version__}",
        taken_at=taken_at,
        namespace=line.namespace,
        namespace_uid=line.namespace_uid,
        name=line.name,
        line=line.line,
        epoch=state.head.epoch,
        import_digest=None if line.import_digest is None else hash_text(line.import_digest),
        restores=tuple(
            DescribedRestore(id=each.restore_id, from_generation=each.from_generation, generation=each.generation)
            for each in restores
        ),
        manifest=described(manifest),
        archive=archive,
    )


async def _may() -> None:
    """The operator may read all that it has written."""
