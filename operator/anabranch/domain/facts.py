"""What is known of a record beside its content: where it comes from, who found it, what it replaced.

A manifest commits to these by digest, so they have one form in bytes: the RFC 8785 form of a small object. Imports,
publications and restores all write it, and every reader takes it apart again, here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Final, Self

from anabranch.model.canonical import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anabranch.model.objects import FactState

FACT_SOURCES: Final = 256
"""Source locators that a fact keeps at most. A fact that hundreds of runs confirm must not grow with each of them."""

FACT_RUNS: Final = 256
"""Origin runs that a fact keeps at most, for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The provenance of one version of a record.

    Attributes:
        source_locators: Where the content comes from, first named first, none twice.
        origin_runs: The runs that found it, likewise; none for what was imported from a document.
        validated_at: When it was accepted, in UTC; None for what was imported without a validation.
        supersedes: Revisions of the same key that it replaced in a conflict.
        retracted_sources: Those of its sources that were withdrawn since, or that were derived from what was; as long
            as there are any, the fact awaits a new review. None: its bytes, and so its hash, do not mention them.
    """

    source_locators: tuple[str, ...] = ()
    origin_runs: tuple[str, ...] = ()
    validated_at: datetime | None = None
    supersedes: tuple[int, ...] = ()
    retracted_sources: tuple[str, ...] = ()

    @property
    def state(self) -> FactState:
        """Whether what it says may be relied on as reviewed."""
        return "sourceRetracted" if self.retracted_sources else "reviewed"

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The fact of its canonical bytes, as a store keeps them."""
        value = json.loads(body)
        validated_at = value["validated_at"]
        return cls(
            source_locators=tuple(value["source_locators"]),
            origin_runs=tuple(value["origin_runs"]),
            validated_at=None if validated_at is None else datetime.fromisoformat(validated_at),
            supersedes=tuple(map(int, value["supersedes"])),
            retracted_sources=tuple(value.get("retracted_sources", ())),
        )

    def canonical(self) -> bytes:
        """The RFC 8785 bytes that a fact hash covers; revisions are decimal strings, as everywhere on the wire."""
        # Written out, as a descriptor's: this is done for each record of an import.
        validated_at = "null" if self.validated_at is None else f'"{utc(self.validated_at)}"'
        retracted = f'"retracted_sources":[{_texts(self.retracted_sources)}],' if self.retracted_sources else ""
        return (
            f'{{"origin_runs":[{_texts(self.origin_runs)}],{retracted}"source_locators":[{_texts(self.source_locators)}],'
            f'"supersedes":[{_texts(map(str, self.supersedes))}],"validated_at":{validated_at}}}'
        ).encode()

    @property
    def hash(self) -> bytes:
        """SHA-256 of the canonical bytes, 32 bytes."""
        return sha256(self.canonical())


def union(*lists: Iterable[str], limit: int) -> tuple[str, ...]:
    """The distinct texts of several lists in the order of their first mention, the first ``limit`` of them."""
    seen = dict.fromkeys(text for texts in lists for text in texts)
    return tuple(seen)[:limit]


def _texts(texts: Iterable[str]) -> str:
    return ",".join(map(_quoted, texts))


def utc(moment: datetime) -> str:
    """A moment as facts write it: RFC 3339 in UTC, with six digits of a second."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
