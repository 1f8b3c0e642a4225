"""Exact duplicates: the same statement made twice is one statement with two witnesses.

Only equality of the canonical content counts. Likeness may be shown to a reviewer, it never decides: two findings
that differ by one digit may be a correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class Statement(Protocol):
    """What makes two candidates the same statement."""

    @property
    def op(self) -> str:
        """``put`` or ``tombstone``."""

    @property
    def key(self) -> str:
        """The record's key."""

    @property
    def scope(self) -> str:
        """Where it would be visible."""

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""


S = TypeVar("S", bound=Statement)


@dataclass(frozen=True, slots=True)
class Group(Generic[S]):
    """One statement of a job.

    Attributes:
        first: The candidate that stands for it.
        others: The later ones that say the same, in order.
    """

    first: S
    others: tuple[S, ...]

    @property
    def all(self) -> tuple[S, ...]:
        """The first and the others."""
        return (self.first, *self.others)


def group(candidates: Iterable[S]) -> list[Group[S]]:
    """Gather candidates that say the same, in the order in which each statement was first made."""
    groups: dict[tuple[str, str, str, bytes], list[S]] = {}
    for candidate in candidates:
        same = (candidate.op, candidate.key, candidate.scope, candidate.content_hash)
        groups.setdefault(same, []).append(candidate)
    return [Group(first, tuple(others)) for first, *others in groups.values()]
