"""What a candidate that was made of others takes over from them, whatever its author says.

Where a text comes from is not its author's to tell: sources and runs are those of all that it was made of, and it is
shown to no more people than the most reserved of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from anabranch.domain.facts import FACT_RUNS, FACT_SOURCES, Fact, union
from anabranch.model.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

EVERYBODYS: Final = "shared"
"""The scope that all of a Baseline's readers have, by convention: any other one is narrower."""


class Input(Protocol):
    """What is asked of a candidate that another is made of."""

    @property
    def scope(self) -> str:
        """Where it would be visible."""

    @property
    def visibility(self) -> Literal["private", "shareable"]:
        """What its run made it."""

    @property
    def sources(self) -> Sequence[Mapping[str, Any]]:
        """``{locator, status, detail}`` each."""

    @property
    def origin_runs(self) -> Sequence[str]:
        """The runs that found it."""

    @property
    def author(self) -> str:
        """Username of who wrote it."""

    @property
    def contributors(self) -> Collection[str] | None:
        """Usernames of who wrote what it was made of in its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordInput:
    """A record that a candidate is made of, beside other candidates.

    Attributes:
        fact: Its provenance.
    """

    key: str
    revision: int
    scope: str
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Inheritance:
    """What is set of a candidate that was made of others.

    Attributes:
        sources: ``{locator, status, detail}`` each; the record's own version is one of them.
        contributors: Usernames: they count as its authors.
    """

    scope: str
    visibility: Literal["private", "shareable"]
    sources: tuple[dict[str, Any], ...]
    origin_runs: tuple[str, ...]
    contributors: tuple[str, ...]


def inherit(inputs: Sequence[Input], record: RecordInput | None = None) -> Inheritance:
    """What a candidate takes over from what it was made of.

    Args:
        inputs: The candidates, one at least.
        record: The record that is an input, too.

    Raises:
        ConflictError: If no scope is the narrowest.
    """
    sources: dict[str, dict[str, Any]] = {}
    named = _cited(record) + [source for one in inputs for source in one.sources]
    # The same locator may have been resolved for one run and not for another. And a fact keeps so many: what was merely
    # named takes no place of what was verified, nor anything that of the record, by which a retraction finds the merge.
    for source in sorted(named, key=lambda source: source["status"] != "verified"):
        sources.setdefault(source["locator"], dict(source))
    runs = [one.origin_runs for one in inputs] + ([record.fact.origin_runs] if record else [])
    contributors = {name for one in inputs for name in (one.author, *(one.contributors or ()))}
    return Inheritance(
        scope=narrowest([one.scope for one in inputs] + ([record.scope] if record else [])),
        visibility="private" if any(one.visibility == "private" for one in inputs) else "shareable",
        sources=tuple(sources.values())[:FACT_SOURCES],
        origin_runs=union(*runs, limit=FACT_RUNS),
        contributors=tuple(sorted(contributors)),
    )


def narrowest(scopes: Iterable[str]) -> str:
    """The scope of something that was made of things in these scopes.

    Raises:
        ConflictError: If two of them are for different readers: nothing tells which of them may read of the other.
    """
    found = set(scopes)
    narrow = sorted(found - {EVERYBODYS})
    if len(narrow) > 1:
        raise ConflictError(
            f"What it is made of lies in the scopes {', '.join(narrow)}, and none of them is narrower than the others.",
            hint="Make it of what lies in one scope, or in one beside `shared`.",
        )
    return narrow[0] if narrow else EVERYBODYS


def _cited(record: RecordInput | None) -> list[dict[str, Any]]:
    """The version of a record as a source, first: whoever withdraws it finds what was made of it; then its own."""
    if record is None:
        return []
    detail = f"cited by revision {record.revision}, which it was made of"
    return [
        {
            "locator": f"record:{record.key}@{record.revision}",
            "status": "verified",
            "detail": f"it was made of revision {record.revision}",
        },
        *({"locator": locator, "status": "verified", "detail": detail} for locator in record.fact.source_locators),
    ]
