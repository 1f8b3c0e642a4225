"""Writing an archive to a file, record by record.

What matters is what a crash leaves: a file without its trailer, which no reader takes for whole. So the trailer is
written only when the `with` block ends without an exception. And the same records give the same bytes: no clock, no
file name, no thread has a part in them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import zstandard

from anabranch.archive.limits import ArchiveLimits
from anabranch.archive.lines import ArchiveHeader, ArchiveTrailer
from anabranch.archive.record import (
    ArchiveRecord,
    WithheldRecord,
    check_kind,
    encode_record,
    encode_withheld,
)
from anabranch.model.canonical import ContentHash, hash_text
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from types import TracebackType

_LEVEL: Final = 3
_FLUSH_BYTES: Final = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSummary:
    """A finished archive.

    Attributes:
        digest: SHA-256 of the file: the name by which a Baseline imports it.
        size: Bytes of the file.
        records: Records in it, withheld ones not counted.
        withheld: Withheld records.
        records_digest: As in the trailer; unlike `digest` it does not depend on the version of zstd.
    """

    digest: ContentHash
    size: int
    records: int
    withheld: int
    records_digest: ContentHash


class ArchiveWriter:
    """Writes an archive; a context manager, whose clean end completes it.

    Records come in ascending order of their keys' UTF-8 bytes, then withheld ones in ascending order of key hash. So a
    key cannot stand twice, and neither side needs a set of keys to know it.

    Args:
        output: Where the bytes go; only `write` is called. Not closed.
        header: The first line.
        limits: The reader's limits, enforced here too.
    """

    def __init__(self, output: BinaryIO, header: ArchiveHeader, *, limits: ArchiveLimits | None = None) -> None:
        self._header = header
        self._limits = limits or ArchiveLimits()
        self._sink = _Sink(output, self._limits)
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=False)
        self._frame = compressor.stream_writer(self._sink, closefd=False)  # type: ignore[arg-type]  # needs `write` only
        self._records_hash = hashlib.sha256()
        self._pending: list[bytes] = [header.encode(), b"\n"]
        self._pending_bytes = 0
        self._expanded = 0
        self._records = self._withheld = 0
        self._last_key = self._last_hash = ""
        self._summary: ArchiveSummary | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    @property
    def summary(self) -> ArchiveSummary:
        """What was written.

        Raises:
            RuntimeError: If the archive is not complete.
        """
        if self._summary is None:
            raise RuntimeError(
                "the archive is not complete: its `with` block has not ended, or ended with an exception"
            )
        return self._summary

    def write(self, record: ArchiveRecord) -> None:
        """Append a record.

        Raises:
            InvalidInputError: If its key is not after the last one, or its history does not fit the archive's kind.
            ArchiveTooLargeError: Over a limit, which is named.
        """
        # Code points sort as their UTF-8 bytes do.
        if record.key <= self._last_key or self._withheld:
            raise InvalidInputError(
                f"{record.key!r} does not come after {self._last_key!r}.",
                hint="Write records in ascending order of key, each once, and withheld ones last.",
            )
        check_kind(record, self._header.kind)
        self._last_key = record.key
        self._records += 1
        self._append(encode_record(record))

    def withhold(self, withheld: WithheldRecord) -> None:
        """Append a record's two hashes in place of the record.

        Raises:
            InvalidInputError: If the archive is not partial, or the hash is not after the one before it.
            ArchiveTooLargeError: Over a limit, which is named.
        """
        if not self._header.partial or withheld.key_hash <= self._last_hash:
            raise InvalidInputError(
                f"{withheld.key_hash} cannot be withheld here.",
                hint="Withhold in a partial archive only, in ascending order of key hash, each once.",
            )
        self._last_hash = withheld.key_hash
        self._withheld += 1
        self._append(encode_withheld(withheld))

    def _append(self, line: bytes) -> None:
        self._limits.check_records(self._records + self._withheld)
        self._limits.check_line(len(line), number=1 + self._records + self._withheld)
        self._records_hash.update(line)
        self._records_hash.update(b"\n")
        self._pending += (line, b"\n")
        self._pending_bytes += len(line) + 1
        if self._pending_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._frame.write(data)
        self._pending, self._pending_bytes = [], 0
        self._expanded += len(data)
        self._limits.check_ratio(expanded=self._expanded, compressed=self._sink.size)

    def _finish(self) -> None:
        records_digest = hash_text(self._records_hash.digest())
        trailer = ArchiveTrailer(records=self._records, records_digest=records_digest, withheld=self._withheld)
        self._pending += (trailer.encode(), b"\n")
        self._flush()
        self._frame.close()  # type: ignore[no-untyped-call]
        self._summary = ArchiveSummary(
            digest=hash_text(self._sink.hash.digest()),
            size=self._sink.size,
            records=self._records,
            withheld=self._withheld,
            records_digest=records_digest,
        )


class _Sink:
    """Counts and hashes what zstd puts out, on its way to the file."""

    def __init__(self, output: BinaryIO, limits: ArchiveLimits) -> None:
        self._output = output
        self._limits = limits
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self._limits.check_compressed(self.size)
        self.hash.update(data)
        self._output.write(data)
        return len(data)
