"""Which files of a directory an import takes, told from their names alone.

Apart from the reading, so that a command can show how much there is to do before it does it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.domain.documents import DocumentFormat, document_format
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anabranch.archive.settings import ImportSettings


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to import: its path below the root with ``/`` between names, and where it lies."""

    path: str
    location: Path
    format: DocumentFormat


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that gives no record, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Directory:
    """What a walk found, in the order of the paths, and the settings that it went by."""

    root: Path
    settings: ImportSettings
    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...]


def scan(root: Path, settings: ImportSettings) -> Directory:
    """Find the files to import; only names are read.

    Names that begin with a dot are passed over, and a symbolic link counts only where it leads to a file below the
    root.

    Raises:
        InvalidInputError: If the root is no directory, or one below it cannot be read.
    """
    if not root.is_dir():
        raise InvalidInputError(f"{root} is no directory.", hint="Name the directory that holds the documents.")
    root = root.resolve()
    files: list[SourceFile] = []
    skipped: list[Skipped] = []
    for path, location in _walk(root, ""):
        if settings.ignores(path):
            continue
        kind = document_format(path)
        if reason := _unfit(path, location, root):
            skipped.append(Skipped(_printable(path), reason))
        elif kind is None:
            skipped.append(Skipped(path, "unknown kind of file"))
        else:
            files.append(SourceFile(path, location, kind))
    return Directory(root, settings, tuple(files), tuple(skipped))


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Every path but directories and hidden ones, depth first, in the order of the names."""
    try:
        with os.scandir(folder) as entries:
            children = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        raise InvalidInputError(
            f"{prefix or folder} cannot be read: {error.strerror}.", hint="Mend its permissions, or move it away."
        ) from None
    for name, is_directory in children:
        if name.startswith("."):
            continue
        if is_directory:
            yield from _walk(folder / name, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", folder / name


def _unfit(path: str, location: Path, root: Path) -> str:
    """Why a path cannot be imported, whatever its kind; empty if it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "name is not UTF-8"
    if location.is_symlink():
        target = location.resolve()
        if not target.is_relative_to(root):
            return "symbolic link that leads out of the directory"
        if target.is_dir():
            return "symbolic link to a directory"
    return "" if location.is_file() else "not a regular file"


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()
