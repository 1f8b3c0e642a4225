"""What can be wrong with an archive.

An archive comes from outside, and may be torn by a broken upload, altered, or made to exhaust its reader. Each is told
apart, because each asks something else of the person who sent it: send again, look who changed it, or split it.
"""

from __future__ import annotations

from anabranch.model.errors import DigestMismatchError, InvalidInputError, TooLargeError


class ArchiveFormatError(InvalidInputError):
    """The bytes are no archive, or a line of it is not as the format demands."""

    code = "ArchiveMalformed"


class ArchiveTornError(DigestMismatchError):
    """The archive ends before its trailer: what was read of it must not be used."""

    code = "ArchiveTorn"


class ArchiveDigestError(DigestMismatchError):
    """A digest in the archive, or the one that it was asked for by, is not that of the bytes."""

    code = "ArchiveDigestMismatch"


class ArchiveTooLargeError(TooLargeError):
    """Over one of the limits of an archive; ``extra["limit"]`` names which (a field of `ArchiveLimits`)."""

    code = "ArchiveTooLarge"
