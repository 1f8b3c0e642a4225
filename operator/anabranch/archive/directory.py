"""A directory as an archive: what `anabranch import DIR` does.

The reading is apart from the walk (`walk`), from the splitting (`anabranch.domain.documents`, pure) and from the format
(`writer`). The same directory gives the same bytes on any machine: files are met in the order of their names,
records stand in the order of their keys, and nothing tells the time.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from anabranch.archive.lines import ArchiveHeader
from anabranch.archive.record import ArchiveRecord
from anabranch.archive.spool import RecordSpool
from anabranch.archive.walk import Skipped, SourceFile
from anabranch.archive.writer import ArchiveSummary, ArchiveWriter
from anabranch.domain.documents import (
    DocumentFormat,
    DocumentRecord,
    import_locator,
    split,
    split_lines,
)
from anabranch.domain.documents.record import at_place
from anabranch.model.errors import InvalidInputError, TooLargeError
from anabranch.model.limits import LINE_SCOPES, SOURCES_PER_CHANGE
from anabranch.model.locators import check_locator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.archive.git import GitTree
    from anabranch.archive.walk import Directory

DOCUMENT_BYTES: Final = 16 << 20
"""Largest file that is parsed as a whole; JSON Lines have no such limit."""

_BLOCK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 8 << 10
"""How much of a file is looked at for the NUL that betrays a binary one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What an import made.

    Attributes:
        summary: The archive: digest, size, records.
        scopes: Records in each scope.
        skipped: Files that gave no record, the walk's included.
        private: Records left out because their documents say ``visibility: private``.
        committed: Files that have a git locator.
    """

    summary: ArchiveSummary
    scopes: dict[str, int]
    skipped: tuple[Skipped, ...]
    private: int
    committed: int


def write_archive(
    directory: Directory,
    output: BinaryIO,
    *,
    created_by: str,
    git: GitTree | None = None,
    progress: Callable[[SourceFile], None] | None = None,
) -> ImportResult:
    """Read a directory's files and write their records as one archive.

    Args:
        directory: What `scan` found.
        output: Gets the archive; nothing is written before all files were read.
        created_by: The program and its version, for the header.
        git: Adds git locators to what is committed.
        progress: Called after each file.

    Raises:
        InvalidInputError: If a file is not what its ending says, two places state one key, or there is no record.
        TooLargeError: Over a limit, which is named.
    """
    skipped = list(directory.skipped)
    scopes: Counter[str] = Counter()
    private = committed = 0
    with RecordSpool() as spool:
        for file in directory.files:
            reader = _FileReader(file, git)
            stated = 0
            for record in reader.records():
                stated += 1
                if record.visibility == "private":
                    private += 1
                    continue
                scope = record.scope or directory.settings.scope_of(file.path)
                spool.add(_archived(record, scope, reader.locators), place=record.place)
                scopes[scope] += 1
            if not stated:
                skipped.append(Skipped(file.path, reader.binary or "states no record"))
            committed += len(reader.locators) > 1
            if progress:
                progress(file)
        _check_scopes(directory, scopes)
        with ArchiveWriter(output, ArchiveHeader(kind="import", created_by=created_by)) as writer:
            for entry in spool:
                writer.write(entry)
    return ImportResult(
        summary=writer.summary,
        scopes=dict(sorted(scopes.items())),
        skipped=tuple(sorted(skipped, key=lambda skip: skip.path)),
        private=private,
        committed=committed,
    )


class _FileReader:
    """Reads one file twice: for the digest that its records name as their source, then for the records.

    Attributes:
        locators: The file's source locators, once its records are being read.
        binary: Why the file states no record, where it is not text.
    """

    def __init__(self, file: SourceFile, git: GitTree | None) -> None:
        self._file = file
        self._git = git
        self.locators: tuple[str, ...] = ()
        self.binary = ""

    def records(self) -> Iterator[DocumentRecord]:
        """The file's records.

        Raises:
            InvalidInputError: If it cannot be read, is ill-formed, or changed between the two readings.
            TooLargeError: If it is too large to be parsed as a whole.
        """
        path = self._file.path
        try:
            with self._file.location.open("rb") as handle:
                if b"\0" in handle.read(_HEAD_BYTES):
                    self.binary = "binary"
                    return
                digest = self._locate(handle)
                if self._file.format is DocumentFormat.JSON_LINES:
                    second = hashlib.sha256()
                    yield from split_lines(path, _hashed(handle, second))
                    if second.hexdigest() != digest:
                        raise _changed(path)
                else:
                    data = handle.read(DOCUMENT_BYTES + 1)
                    if len(data) > DOCUMENT_BYTES:
                        raise TooLargeError(
                            f"{path} is larger than {DOCUMENT_BYTES:,} bytes.",
                            hint="Split it, turn it into JSON Lines, or ignore it in .anabranch.yaml.",
                        )
                    if hashlib.sha256(data).hexdigest() != digest:
                        raise _changed(path)
                    yield from split(path, data)
        except OSError as error:
            raise InvalidInputError(
                f"{path} cannot be read: {error.strerror}.",
                hint="Mend its permissions, or ignore it in .anabranch.yaml.",
            ) from None

    def _locate(self, handle: BinaryIO) -> str:
        """Hash the whole file, note its locators, and rewind; the SHA-256 in hex."""
        digest = hashlib.sha256()
        blob = self._git.blob_hash(os.fstat(handle.fileno()).st_size) if self._git else None
        handle.seek(0)
        while block := handle.read(_BLOCK_BYTES):
            digest.update(block)
            if blob:
                blob.update(block)
        handle.seek(0)
        try:
            own = check_locator(import_locator(self._file.path, digest.digest()))
            committed = self._git.locator(self._file.path, blob.hexdigest()) if self._git and blob else None
        except InvalidInputError as error:
            raise at_place(self._file.path, error) from None
        self.locators = (own, committed) if committed else (own,)
        return digest.hexdigest()


def _archived(record: DocumentRecord, scope: str, locators: tuple[str, ...]) -> ArchiveRecord:
    sources = tuple(dict.fromkeys((*locators, *record.sources)))
    if len(sources) > SOURCES_PER_CHANGE:
        raise InvalidInputError(
            f"{record.place}: a record has more than {SOURCES_PER_CHANGE} sources.", hint="Name fewer."
        )
    try:
        return ArchiveRecord.of(key=record.key, scope=scope, content=record.content, source_locators=sources)
    except InvalidInputError as error:
        raise at_place(record.place, error) from None


def _check_scopes(directory: Directory, scopes: Counter[str]) -> None:
    if not scopes:
        raise InvalidInputError(
            f"{directory.root} holds no record.", hint="Put Markdown, JSON, YAML or JSON Lines files into it."
        )
    if len(scopes) > LINE_SCOPES:
        raise TooLargeError(f"The records are in {len(scopes)} scopes, the limit is {LINE_SCOPES}.", hint="Merge some.")


def _hashed(handle: BinaryIO, digest: hashlib._Hash) -> Iterator[bytes]:
    for line in handle:
        digest.update(line)
        yield line


def _changed(path: str) -> InvalidInputError:
    return InvalidInputError(f"{path} changed while it was read.", hint="Import again when nobody writes it.")
