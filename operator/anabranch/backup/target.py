"""What a place for archives can do, whatever it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from anabranch.model.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


class TargetError(UnavailableError):
    """A target cannot be used now, or refuses what is asked of it."""

    code = "BackupTargetUnusable"


class UnknownTargetError(InvalidInputError):
    """The operator's configuration has no target of a name, or one that cannot do what is asked for."""

    code = "BackupTargetUnknown"


class Target(Protocol):
    """Files by name. A name is relative, of letters, digits, and ``.-_/``."""

    async def put(self, place: str, file: Path) -> None:
        """Store a file under a name: whole, or not at all. One that has the name is replaced.

        Raises:
            TargetError: If that cannot be done.
        """

    async def get(self, place: str, file: Path) -> None:
        """Write what has a name to a file.

        Raises:
            TargetError: If that cannot be done.
            NotFoundError: If there is nothing of the name.
        """

    async def places(self, prefix: str) -> list[str]:
        """All names that begin with a text, in their order.

        Raises:
            TargetError: If that cannot be done.
        """
