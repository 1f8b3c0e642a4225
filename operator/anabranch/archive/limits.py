"""How much an archive may ask of its reader.

A few hundred bytes of zstd can expand to gigabytes. The reader therefore bounds what it holds (window, line) and what
it will expand (ratio), and the writer enforces the same, so that whatever is written can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anabranch.archive.errors import ArchiveTooLargeError
from anabranch.model.limits import ARCHIVE_BYTES, ARCHIVE_RATIO, CONTENT_BYTES, LINE_RECORDS

FREE_BYTES: Final = 8 << 20
"""Expanded bytes that the ratio does not count: one record of a single repeated letter is legitimate, and harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """The limits of one archive.

    Attributes:
        compressed: Bytes of the archive itself.
        ratio: Expanded bytes for each compressed byte, at any point of the stream, beyond the first 8 MiB.
        records: Record lines, withheld ones included.
        line: Bytes of one line: the largest content, and room for its key and sources.
        window: Bytes of the zstd window: what a decoder must hold.
    """

    compressed: int = ARCHIVE_BYTES
    ratio: int = ARCHIVE_RATIO
    records: int = LINE_RECORDS
    line: int = CONTENT_BYTES + (1 << 20)
    window: int = 8 << 20

    def check_compressed(self, size: int) -> None:
        """Refuse an archive of more than `compressed` bytes.

        Raises:
            ArchiveTooLargeError: ``limit`` is ``compressed``.
        """
        if size > self.compressed:
            raise ArchiveTooLargeError(
                f"The archive is larger than {self.compressed:,} bytes.",
                hint="Split the directory over several baselines.",
                limit="compressed",
            )

    def check_ratio(self, *, expanded: int, compressed: int) -> None:
        """Refuse an archive that expands more than `ratio` fold.

        Raises:
            ArchiveTooLargeError: ``limit`` is ``ratio``.
        """
        if expanded > FREE_BYTES and expanded > self.ratio * compressed:
            raise ArchiveTooLargeError(
                f"The archive expands to more than {self.ratio} times its size.",
                hint="Records that repeat each other so much are not knowledge; import fewer of them.",
                limit="ratio",
            )

    def check_records(self, count: int) -> None:
        """Refuse an archive of more than `records` records.

        Raises:
            ArchiveTooLargeError: ``limit`` is ``records``.
        """
        if count > self.records:
            raise ArchiveTooLargeError(
                f"The archive has more than {self.records:,} records.",
                hint="Split the directory over several baselines.",
                limit="records",
            )

    def check_line(self, size: int, *, number: int) -> None:
        """Refuse a line of more than `line` bytes.

        Raises:
            ArchiveTooLargeError: ``limit`` is ``line``.
        """
        if size > self.line:
            raise ArchiveTooLargeError(
                f"Line {number} of the archive is longer than {self.line:,} bytes.",
                hint="A record's content is at most 1 MiB; give it fewer sources.",
                limit="line",
            )

    def check_window(self, size: int) -> None:
        """Refuse a zstd frame that needs more than `window` bytes to decode.

        Raises:
            ArchiveTooLargeError: ``limit`` is ``window``.
        """
        if size > self.window:
            raise ArchiveTooLargeError(
                f"The archive's zstd window is {size:,} bytes, the limit is {self.window:,}.",
                hint="Compress it at level 19 or lower, without --long.",
                limit="window",
            )
