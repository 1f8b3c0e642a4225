"""What reviewers have said of a candidate, and who they are, for whoever shows it: a page or a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACCOUNT: Final = "system:serviceaccount:"


def who(username: str) -> tuple[str, str]:
    """A username as a name, and what it is a name in: a ServiceAccount's own name and its namespace."""
    if username.startswith(_ACCOUNT):
        namespace, _, name = username.removeprefix(_ACCOUNT).partition(":")
        return name, namespace
    return username, ""


def latest(entries: Iterable[Any]) -> list[Any]:
    """Of the decisions on a candidate the last one of each reviewer, those that were taken back left out."""
    found = {entry.reviewer: entry for entry in entries}
    return [entry for entry in found.values() if entry.action != "withdraw"]
