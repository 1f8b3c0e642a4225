"""A line put back from a backup: what the description says and the archive holds, checked before and after."""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.archive import ArchiveReader, ArchiveRecord
from anabranch.archive.verifying import verify
from anabranch.backup.description import ENDING, BackupDescription, folder_of
from anabranch.backup.making import LIMITS
from anabranch.domain.facts import Fact
from anabranch.model.canonical import hash_bytes, hash_text
from anabranch.model.errors import DigestMismatchError, NotFoundError
from anabranch.store import reviving
from anabranch.store.importing import ImportRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from anabranch.backup.target import Target
    from anabranch.store.database import Database

_AT_ONCE: Final = 500
_DESCRIPTION: Final = re.compile(rf"(\d{{1,18}})-(\d{{8}}T\d{{12}}Z){re.escape(ENDING)}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A backup in a target, as its name tells.

    Attributes:
        place: The name of its description.
        generation: Of the manifest that it holds.
        taken: When it was taken, as its name has it: ``20260131T120000000000Z``.
    """

    place: str
    generation: int
    taken: str


async def listed(target: Target, *, namespace: str, name: str) -> list[Listed]:
    """The backups of a Baseline in a target, the newest last.

    Raises:
        TargetError: If the target cannot be read.
    """
    # What somebody else has put there is none of ours, whatever it is called.
    found = [
        Listed(place=place, generation=int(matched[1]), taken=matched[2])
        for place in await target.places(folder_of(namespace, name))
        if (matched := _DESCRIPTION.fullmatch(place.rpartition("/")[2]))
    ]
    return sorted(found, key=lambda each: each.taken)


async def newest(target: Target, *, namespace: str, name: str) -> str:
    """The place of the newest backup of a Baseline.

    Raises:
        NotFoundError: If there is none.
        TargetError: If the target cannot be read.
    """
    found = await listed(target, namespace=namespace, name=name)
    if not found:
        raise NotFoundError(f"There is no backup of {namespace}/{name}.", hint="Look in another target.")
    return found[-1].place


async def check(target: Target, *, place: str, root: str | None = None) -> BackupDescription:
    """Fetch a backup and check it: digest, contents, provenance, and the root that they lead to.

    Args:
        target: Where it is.
        place: The name of its description.
        root: A manifest hash that is trusted, ``sha256:…``; None: the one that the description has.

    Raises:
        ArchiveDigestError: If it is not what it says.
        NotFoundError: If there is none of this name.
        TargetError: If the target cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="anabranch-restore-") as folder:
        about, _ = await _fetch(target, place=place, folder=Path(folder), root=root)
    return about


async def restore(
    db: Database, target: Target, *, place: str, root: str | None = None, replace: bool = False
) -> BackupDescription:
    """Put a line back that the database does not have.

    Args:
        db: The store, to which nobody else writes the line.
        target: As for `check`.
        place: As for `check`.
        root: As for `check`.
        replace: Whether a line that its Baseline has begun anew may be set aside.

    Raises:
        ArchiveDigestError: If the backup is not what it says.
        ConflictError: If the line is there, or another stands in its place.
        NotFoundError: If there is no backup of this name.
        TargetError: If the target cannot be read.
        UnavailableError: If the database cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="anabranch-restore-") as folder:
        about, file = await _fetch(target, place=place, folder=Path(folder), root=root)
        await reviving.revive(
            db,
            namespace=about.namespace,
            namespace_uid=about.namespace_uid,
            name=about.name,
            manifest=about.row(),
            epoch=about.epoch,
            import_digest=None if about.import_digest is None else hash_bytes(about.import_digest),
            restores=about.restored(),
            records=_records(file),
            replace=replace,
        )
    return about


async def _fetch(target: Target, *, place: str, folder: Path, root: str | None) -> tuple[BackupDescription, Path]:
    description, file = folder / "description", folder / "archive"
    await target.get(place, description)
    about = BackupDescription.parse(description.read_bytes())
    await target.get(about.archive.place, file)
    await asyncio.to_thread(_check, file, about, root)
    return about, file


def _check(file: Path, about: BackupDescription, root: str | None) -> None:
    with file.open("rb") as opened:
        digest = hash_text(hashlib.file_digest(opened, "sha256").digest())
    if digest != about.archive.digest:
        raise DigestMismatchError(
            f"The archive {about.archive.place} is not what its description names.", hint="Take another backup."
        )
    if root is not None and hash_bytes(root) != hash_bytes(about.manifest.manifest_hash):
        raise DigestMismatchError(
            f"The backup is of the manifest {about.manifest.manifest_hash}, not {root}.", hint="Take another backup."
        )
    with file.open("rb") as opened:
        verify(ArchiveReader(opened, limits=LIMITS), root=about.manifest.manifest_hash)


async def _records(file: Path) -> AsyncIterator[ImportRecord]:
    """The records of a checked archive, with their history."""
    with file.open("rb") as opened:
        entries: Iterator[object] = iter(ArchiveReader(opened, limits=LIMITS))
        while chunk := await asyncio.to_thread(lambda: list(islice(entries, _AT_ONCE))):
            for entry in chunk:
                if not isinstance(entry, ArchiveRecord):
                    raise DigestMismatchError("The archive withholds records.", hint="A backup holds all of them.")
                yield _imported(entry)


def _imported(record: ArchiveRecord) -> ImportRecord:
    fact = Fact(
        source_locators=record.source_locators,
        origin_runs=record.origin_runs,
        validated_at=None if record.validated_at is None else datetime.fromisoformat(record.validated_at),
        supersedes=record.supersedes,
        retracted_sources=record.retracted_sources,
    )
    return ImportRecord(
        key=record.key,
        scope=record.scope,
        content_hash=hash_bytes(record.content_hash),
        content_body=record.body,
        fact_body=fact.canonical(),
        revision=record.revision or 0,
        tombstone=record.tombstone,
    )
