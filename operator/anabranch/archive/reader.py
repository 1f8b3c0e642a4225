"""Reading an archive from a file or from chunks, line by line, trusting none of it.

Records are handed out before the trailer has been seen, for an archive may be larger than memory. Whoever stores them
does so in a transaction that commits only after the iteration has ended by itself: an archive that is torn, altered or
too large ends it with an error instead.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import zstandard

from anabranch.archive.errors import ArchiveDigestError, ArchiveFormatError, ArchiveTornError
from anabranch.archive.frame import Frame
from anabranch.archive.limits import ArchiveLimits
from anabranch.archive.lines import ArchiveHeader, ArchiveTrailer, parse_header, parse_trailer
from anabranch.archive.record import ArchiveRecord, WithheldRecord, check_kind, parse_record, parse_withheld
from anabranch.model.canonical import hash_text
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BLOCK_BYTES: Final = 128 << 10
_FRAME_HEADER_BYTES: Final = 18
_DECODER: Final = json.JSONDecoder()
_MAKE_AGAIN: Final = "Make the archive again with anabranch import."


class ArchiveReader:
    """Reads one archive, once.

    Iterating yields the records in ascending order of key, then the withheld ones. Memory stays at one window, one
    block and one line, whatever the archive says.

    Args:
        source: A binary file, or the archive's bytes in chunks of any size.
        limits: How much the archive may ask of this program.
        expected_digest: The archive's own digest, ``sha256:…``, where it was asked for by one.

    Raises:
        ArchiveFormatError: At once, when the header shows that this is no archive.
        ArchiveTooLargeError: At once, when it needs too large a window.
        ArchiveTornError: At once, when it ends within the header.
    """

    def __init__(
        self,
        source: BinaryIO | Iterable[bytes],
        *,
        limits: ArchiveLimits | None = None,
        expected_digest: str | None = None,
    ) -> None:
        self._limits = limits or ArchiveLimits()
        self._expected_digest = expected_digest
        self._source = _Source(source, self._limits)
        self._lines = self._read_lines()
        self._trailer: ArchiveTrailer | None = None
        self._open()
        line = next(self._lines, None)
        if line is None:
            raise _torn()
        self.header: ArchiveHeader = parse_header(_parse(line, number=1), line)
        self._entries = self._read_entries()

    def __iter__(self) -> Iterator[ArchiveRecord | WithheldRecord]:
        """The records that have not been read yet.

        Raises:
            ArchiveFormatError: On a line that is not as the format demands.
            ArchiveDigestError: On content or an archive that is not what its digest names.
            ArchiveTornError: When the archive ends before its trailer.
            ArchiveTooLargeError: Over a limit, which is named.
        """
        return self._entries

    @property
    def trailer(self) -> ArchiveTrailer:
        """The last line: all records came, and none was altered.

        Raises:
            RuntimeError: Before the iteration has ended by itself.
        """
        if self._trailer is None:
            raise RuntimeError("the archive has not been read to its end")
        return self._trailer

    def _read_entries(self) -> Iterator[ArchiveRecord | WithheldRecord]:
        records_hash = hashlib.sha256()
        records = withheld = 0
        last_key = last_hash = ""
        for number, line in enumerate(self._lines, start=2):
            members = _parse(line, number=number)
            entry: ArchiveRecord | WithheldRecord
            if "key" in members:
                entry = parse_record(members, line, number=number)
                self._check_record(entry, number=number, ordered=entry.key > last_key and not withheld)
                last_key = entry.key
                records += 1
            elif "key_hash" in members:
                entry = parse_withheld(members, line, number=number)
                if not self.header.partial or entry.key_hash <= last_hash:
                    raise ArchiveFormatError(f"Line {number}: withheld out of order or unannounced.", hint=_MAKE_AGAIN)
                last_hash = entry.key_hash
                withheld += 1
            else:
                trailer = parse_trailer(members, line)
                counted = ArchiveTrailer(
                    records=records, records_digest=hash_text(records_hash.digest()), withheld=withheld
                )
                self._check_end(trailer, counted)
                return
            self._limits.check_records(records + withheld)
            records_hash.update(line)
            records_hash.update(b"\n")
            yield entry
        raise _torn()

    def _check_record(self, record: ArchiveRecord, *, number: int, ordered: bool) -> None:
        if not ordered:
            raise ArchiveFormatError(
                f"Line {number}: {record.key!r} stands twice or out of order.", hint="Sort records by key, each once."
            )
        try:
            check_kind(record, self.header.kind)
        except InvalidInputError as error:
            raise ArchiveFormatError(f"Line {number}: {error.detail}", hint=error.hint) from None

    def _check_end(self, trailer: ArchiveTrailer, counted: ArchiveTrailer) -> None:
        if trailer != counted:
            raise ArchiveDigestError(
                f"The trailer counts {trailer.records} records and {trailer.withheld} withheld, with another digest "
                f"than the {counted.records} and {counted.withheld} that came.",
                hint=_MAKE_AGAIN,
            )
        # Draining the source is what lets its digest be compared, and finds what hides behind the trailer.
        if next(self._lines, None) is not None:
            raise ArchiveFormatError("The archive goes on after its trailer.", hint=_MAKE_AGAIN)
        if not self._source.frame.complete:  # zstd itself would not miss the checksum at the end
            raise _torn()
        digest = hash_text(self._source.hash.digest())
        if self._expected_digest not in (None, digest):
            raise ArchiveDigestError(
                f"The archive's digest is {digest}, not {self._expected_digest}.",
                hint="Upload the archive that the Baseline names.",
            )
        self._trailer = trailer

    def _open(self) -> None:
        start = self._source.peek(_FRAME_HEADER_BYTES)
        if not start:
            raise _torn()
        try:
            window = zstandard.get_frame_parameters(start).window_size
        except zstandard.ZstdError:
            raise ArchiveFormatError("The bytes are no zstd frame.", hint=_MAKE_AGAIN) from None
        self._limits.check_window(window)
        self._source.frame = Frame(start)

    def _read_lines(self) -> Iterator[bytes]:
        """The lines of the expanded stream, without their ends."""
        decompressor = zstandard.ZstdDecompressor(max_window_size=self._limits.window)
        # Reading across frames, so that bytes behind the first one are met and refused instead of left unread.
        stream = decompressor.stream_reader(self._source, read_size=_BLOCK_BYTES, read_across_frames=True)  # type: ignore[arg-type]  # needs `read` only
        rest, number, expanded = b"", 1, 0
        while True:
            try:
                block = stream.read(_BLOCK_BYTES)
            except zstandard.ZstdError as error:
                raise ArchiveFormatError(f"The archive does not decompress: {error}.", hint=_MAKE_AGAIN) from None
            if not block:
                break
            expanded += len(block)
            self._limits.check_ratio(expanded=expanded, compressed=self._source.size)
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._limits.check_line(len(line), number=number)
                number += 1
                yield line
            self._limits.check_line(len(rest), number=number)
        if rest:
            raise _torn()


class _Source:
    """The compressed bytes as a file, counted and hashed; chunks may have any size."""

    def __init__(self, source: BinaryIO | Iterable[bytes], limits: ArchiveLimits) -> None:
        read = getattr(source, "read", None)
        self._chunks: Iterator[bytes] = iter(source) if read is None else iter(lambda: read(_BLOCK_BYTES), b"")
        self._limits = limits
        self._rest = memoryview(b"")
        self.frame = Frame(b"")
        self.hash = hashlib.sha256()
        self.size = 0

    def peek(self, size: int) -> bytes:
        """The first bytes, up to this many, still to be read."""
        while len(self._rest) < size and (chunk := self._next()):
            self._rest = memoryview(bytes(self._rest) + chunk)
        return bytes(self._rest[:size])

    def read(self, size: int) -> bytes:
        """At most this many bytes; none at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        self.frame.follow(data)
        return data

    def _next(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                self.size += len(chunk)
                self._limits.check_compressed(self.size)
                self.hash.update(chunk)
                return chunk
        return b""


def _parse(line: bytes, *, number: int) -> dict[str, Any]:
    try:
        # What may follow the value is found later: a line is compared with its canonical form.
        members, _ = _DECODER.raw_decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise ArchiveFormatError(f"Line {number} is not JSON: {error}.", hint=_MAKE_AGAIN) from None
    if not isinstance(members, dict):
        raise ArchiveFormatError(f"Line {number} is not a JSON object.", hint=_MAKE_AGAIN)
    return members


def _torn() -> ArchiveTornError:
    return ArchiveTornError("The archive ends before its trailer.", hint="It was cut off; send it again whole.")
