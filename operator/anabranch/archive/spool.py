"""Records on their way into an archive, sorted by key.

Files are met in the order of their paths, and an archive is in the order of its keys, so all records must be held once.
A private SQLite database does that in bounded memory, for a directory of any size, and finds each duplicate key.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Self

from anabranch.archive.record import ArchiveRecord
from anabranch.model.canonical import hash_text, sha256
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator


class RecordSpool:
    """A temporary, sorted store of records; a context manager."""

    def __init__(self) -> None:
        # An empty name: a temporary file of SQLite's own, gone when it is closed. Keys compare as UTF-8 bytes.
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
            "CREATE TABLE records (key TEXT PRIMARY KEY, place TEXT, scope TEXT, body BLOB, sources TEXT);"
            "BEGIN"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._database.close()

    def add(self, record: ArchiveRecord, *, place: str) -> None:
        """Store a record.

        Args:
            record: As an import makes it, without history.
            place: Where it is stated, for people.

        Raises:
            InvalidInputError: If its key was stored before; naming both places.
        """
        sources = "\n".join(record.source_locators)  # a locator has no control characters
        row = (record.key, place, record.scope, record.body, sources)
        try:
            self._database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            (other,) = self._database.execute("SELECT place FROM records WHERE key = ?", (record.key,)).fetchone()
            raise InvalidInputError(
                f"{place} and {other} both state the record {record.key!r}.",
                hint="Rename one of them, or give it another key in its front matter.",
            ) from None

    def __iter__(self) -> Iterator[ArchiveRecord]:
        """The records in ascending order of key."""
        for key, scope, body, sources in self._database.execute(
            "SELECT key, scope, body, sources FROM records ORDER BY key"
        ):
            yield ArchiveRecord(
                key=key,
                scope=scope,
                body=body,
                content_hash=hash_text(sha256(body)),
                source_locators=tuple(sources.split("\n")),
            )
