"""Archives: a baseline's records as one file, which imports and exports make, and the operator reads.

docs/spec/archive.md describes the format. Writing and reading stream: neither holds more than a few lines, whatever the
archive's size.
"""

from anabranch.archive.errors import (
    ArchiveDigestError,
    ArchiveFormatError,
    ArchiveTooLargeError,
    ArchiveTornError,
)
from anabranch.archive.limits import ArchiveLimits
from anabranch.archive.lines import MEDIA_TYPE, ArchiveHeader, ArchiveManifest, ArchiveTrailer
from anabranch.archive.reader import ArchiveReader
from anabranch.archive.record import ArchiveRecord, WithheldRecord
from anabranch.archive.writer import ArchiveSummary, ArchiveWriter

__all__ = [
    "MEDIA_TYPE",
    "ArchiveDigestError",
    "ArchiveFormatError",
    "ArchiveHeader",
    "ArchiveLimits",
    "ArchiveManifest",
    "ArchiveReader",
    "ArchiveRecord",
    "ArchiveSummary",
    "ArchiveTooLargeError",
    "ArchiveTornError",
    "ArchiveTrailer",
    "ArchiveWriter",
    "WithheldRecord",
]
