"""What can be counted of the records of a generation: how many name a source, were verified, and how old they are.

More records are no better ones, so these are shares of what there is, never a grade. All of it follows from the
provenance that a manifest commits to: whoever has the records can count them again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from anabranch.domain.facts import Fact

_WEEK_SECONDS: Final = 7 * 24 * 3600
_IMPORT: Final = "import:"

BANDS: Final = (1, 4, 13, 52)
"""Weeks that part the ages of records: up to a week, a month, a quarter, a year, and older."""


def week(moment: datetime) -> int:
    """The week of a moment, since 1970 (UTC); each begins on a Thursday."""
    return int(moment.timestamp() // _WEEK_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How long ago records were validated, to the week.

    Attributes:
        week: A week ago at most.
        month: Up to four weeks ago.
        quarter: Up to 13 weeks ago.
        year: Up to 52 weeks ago.
        older: Longer ago.
        undated: Never here: imported.
    """

    week: int
    month: int
    quarter: int
    year: int
    older: int
    undated: int


@dataclass(slots=True, kw_only=True)
class Counts:
    """What some records are.

    Attributes:
        records: How many.
        sourced: How many name a source.
        verified: How many of these were validated, or imported by digest, and name no source that was withdrawn since.
        undated: How many have no date of validation.
        weeks: How many of the others were validated in which week.
    """

    records: int = 0
    sourced: int = 0
    verified: int = 0
    undated: int = 0
    weeks: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, fact: Fact, number: int = 1) -> Self:
        """Those of records of one provenance.

        Args:
            fact: The provenance.
            number: How many records; less than 0: so many are no more.
        """
        sourced = bool(fact.source_locators)
        imported = any(locator.startswith(_IMPORT) for locator in fact.source_locators)
        dated = fact.validated_at is not None
        return cls(
            records=number,
            sourced=number * sourced,
            verified=number * (sourced and (dated or imported) and fact.state == "reviewed"),
            undated=number * (not dated),
            weeks=Counter({week(fact.validated_at): number} if fact.validated_at is not None else {}),
        )

    def add(self, other: Counts) -> None:
        """Count others too."""
        self.records += other.records
        self.sourced += other.sourced
        self.verified += other.verified
        self.undated += other.undated
        for number, count in other.weeks.items():
            self.weeks[number] += count
            if not self.weeks[number]:
                del self.weeks[number]

    def ages(self, now: datetime) -> Ages:
        """How old they are."""
        bands = _banded(self.weeks, week(now))
        return Ages(
            week=bands[0], month=bands[1], quarter=bands[2], year=bands[3], older=bands[4], undated=self.undated
        )


def _banded(weeks: Mapping[int, int], now: int) -> list[int]:
    bands = [0] * (len(BANDS) + 1)
    for number, count in weeks.items():
        bands[sum(now - number > limit for limit in BANDS)] += count
    return bands
