"""What follows from what: the versions of records that cite others, and the marks that a retraction puts on them.

A version cites a version, so the steps never lead back in time; an import that cites its own past is the exception, and
the walk goes nowhere twice. A mark is put on what is live now: what was derived once and has been replaced since by
something that cites nothing of it stands on its own.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from anabranch.model.locators import parse_locator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Named: TypeAlias = tuple[str, int]
"""A version of a record: its key and its revision."""

_RECORD: Final = "record:"


@dataclass(frozen=True, slots=True)
class Step:
    """A version of a record that cites another one.

    Attributes:
        source: The version that is cited.
        version: The version that cites it.
        scope: Of the latter.
    """

    source: Named
    version: Named
    scope: str


class Head(Protocol):
    """What marking needs of the newest version of a key."""

    @property
    def revision(self) -> int:
        """The line's revision that wrote it."""

    @property
    def tombstone(self) -> bool:
        """Whether that revision deleted the key."""


def cited(locators: Iterable[str]) -> dict[str, Named]:
    """The versions of records among some source locators, by locator."""
    found: dict[str, Named] = {}
    for text in locators:
        if text.startswith(_RECORD):
            parts = parse_locator(text).parts
            found[text] = (parts["key"], int(parts["revision"]))
    return found


def locator(version: Named) -> str:
    """The source locator that names a version of a record."""
    key, revision = version
    return f"{_RECORD}{key}@{revision}"


def depths(steps: Iterable[Step], *, root: str) -> dict[Named, int]:
    """How many steps each version is from a key at least, in the order of a walk: the nearest first, then by name.

    Args:
        steps: All steps downstream of the key.
        root: The key.
    """
    onward: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        onward[step.source[0]].append(step)
    found: dict[Named, int] = {}
    # Whether the exact version is cited, or one that nobody knows of, was asked when the steps were looked up.
    pending = deque([(root, 0)])
    seen = {root}
    while pending:
        key, depth = pending.popleft()
        for step in sorted(onward[key], key=lambda step: step.version):
            if step.version not in found:
                found[step.version] = depth + 1
                if step.version[0] not in seen:
                    seen.add(step.version[0])
                    pending.append((step.version[0], depth + 1))
    return found


def marks(steps: Iterable[Step], *, head: Mapping[str, Head]) -> dict[str, Sequence[str]]:
    """Which live records a retraction marks, each with those of its sources that lead to what is withdrawn.

    Args:
        steps: All steps downstream of what is withdrawn.
        head: The newest versions of their keys.

    Returns:
        Source locators by key, in the order of the keys.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for step in steps:
        key, revision = step.version
        record = head.get(key)
        if record is not None and not record.tombstone and record.revision == revision:
            found[key].add(locator(step.source))
    return {key: sorted(found[key]) for key in sorted(found)}
