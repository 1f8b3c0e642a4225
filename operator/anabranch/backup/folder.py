"""Backups in a folder of a volume: what stands there under its name is whole, even after the power was gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.backup.target import TargetError
from anabranch.model.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.backup.config import FolderTarget

_UNFINISHED = ".unfinished-"


class Folder:
    """A target in a folder.

    Args:
        config: Its entry.
    """

    def __init__(self, config: FolderTarget) -> None:
        self._root = Path(config.path)

    async def put(self, place: str, file: Path) -> None:
        """Store a file under a name (see `Target`)."""
        await self._do(lambda: _put(self._path(place), file))

    async def get(self, place: str, file: Path) -> None:
        """Write what has a name to a file (see `Target`)."""
        try:
            await self._do(lambda: shutil.copyfile(self._path(place), file))
        except FileNotFoundError:
            raise NotFoundError(f"There is no {place} in {self._root}.", hint="List the backups.") from None

    async def places(self, prefix: str) -> list[str]:
        """All names that begin with a text (see `Target`)."""
        found: list[str] = []
        await self._do(lambda: found.extend(self._files()))
        return sorted(place for place in found if place.startswith(prefix))

    def _files(self) -> list[str]:
        return [
            path.relative_to(self._root).as_posix()
            for path in self._root.rglob("*")
            if path.is_file() and not path.name.startswith(_UNFINISHED)
        ]

    def _path(self, place: str) -> Path:
        path = (self._root / place).resolve()
        if not path.is_relative_to(self._root.resolve()) or not place:
            raise InvalidInputError(f"{place!r} leads out of the folder.", hint="Name a file that is listed.")
        return path

    async def _do(self, work: Callable[[], object]) -> None:
        def checked() -> None:
            # A volume that is not mounted must not look like an empty one, nor be filled in its place.
            if not self._root.is_dir():
                raise TargetError(f"There is no folder {self._root}.", hint="Is the volume mounted?")
            work()

        try:
            await asyncio.to_thread(checked)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TargetError(
                f"The folder {self._root} cannot be used: {error}.", hint="Check the volume, its room and its rights."
            ) from error


def _put(path: Path, file: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
    unfinished = Path(name)
    try:
        with file.open("rb") as source, os.fdopen(handle, "wb") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name, too
    finally:
        os.close(folder)
