"""Which of a line's past is kept: rules over values, so that whoever asks why something is gone can read why.

Every number of ``spec.retention`` is a promise to keep, and nothing else: what no promise covers goes. So a generation
goes only when it is neither among the newest ones nor was the head lately, and "lately" counts from when another took
its place: any state of the last ``age`` can be returned to. Nothing here knows a store or a clock; what others stand on
(a run's parent) the store refuses to remove, in the transaction that would.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias

from anabranch.model.crd import parse_period

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

Reason: TypeAlias = Literal["head", "current", "previous", "pinned", "newest", "age"]

_LONGEST: Final = timedelta(days=36_500)
"""A century: a longer period would leave the calendar when it is counted back."""

_SHORTEST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_PAUSE: Final = timedelta(minutes=10)

_SHORTEST_MEMORY: Final = timedelta(days=90)
"""However short the promises are: who names a removed generation by its id is to be told that it was removed."""

_PURGE_SLACK: Final = 1.1
"""A tombstone may stay a tenth longer than promised, so that many go together: each purge is a generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """A Baseline's ``spec.retention``.

    Attributes:
        generations: How many of the newest generations are kept.
        age: How long a generation is kept after another took its place.
        events: How long the feed reaches back.
        completed_runs: How long a run's data is kept after its end.
        tombstones: How long the mark of a deleted record is kept.
        transitions: How long a finished job and its log are kept.
    """

    generations: int = 50
    age: timedelta = timedelta(days=30)
    events: timedelta = timedelta(days=7)
    completed_runs: timedelta = timedelta(days=30)
    tombstones: timedelta = timedelta(days=90)
    transitions: timedelta = timedelta(days=90)

    @classmethod
    def parse(cls, retention: Mapping[str, Any]) -> Self:
        """The policy of a ``spec.retention`` in its JSON form; what is left out has its default.

        Raises:
            ValueError: If a period has another form than ``90s``, ``12h`` or ``30d``.
        """
        default = cls()

        def period(member: str, otherwise: timedelta) -> timedelta:
            return min(parse_period(retention[member]), _LONGEST) if member in retention else otherwise

        return cls(
            generations=retention.get("generations", default.generations),
            age=period("age", default.age),
            events=period("events", default.events),
            completed_runs=period("completedRuns", default.completed_runs),
            tombstones=period("tombstones", default.tombstones),
            transitions=period("transitions", default.transitions),
        )

    @property
    def pause(self) -> timedelta:
        """How long to wait from one look at a line to the next: a tenth of the shortest period, within bounds."""
        return min(max(min(self._periods()) / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE)

    @property
    def overdue(self) -> timedelta:
        """The age of a tombstone at which all go that have been kept as long as promised."""
        return self.tombstones * _PURGE_SLACK

    @property
    def jobs(self) -> timedelta:
        """How long a finished job is kept: its log is of no use without it, nor it without the run's data."""
        return max(self.transitions, self.completed_runs)

    @property
    def memory(self) -> timedelta:
        """How long it is remembered what a removed generation was called, and when it was made."""
        return max(*self._periods(), _SHORTEST_MEMORY)

    def _periods(self) -> tuple[timedelta, ...]:
        return self.age, self.events, self.completed_runs, self.tombstones, self.transitions


class Places(Protocol):
    """Where a line is."""

    @property
    def head_generation(self) -> int:
        """The newest generation."""

    @property
    def current_generation(self) -> int:
        """What readers see."""

    @property
    def previous_generation(self) -> int:
        """What readers saw before; 0 for none."""

    @property
    def pinned_generation(self) -> int | None:
        """What is pinned."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A generation, as far as its age decides.

    Attributes:
        generation: Its number.
        replaced_at: When the next one was made; None: longer ago than anybody remembers.
    """

    generation: int
    replaced_at: datetime | None


def oldest_counted(places: Places, policy: RetentionPolicy) -> int:
    """The oldest generation that is kept for its number alone."""
    return places.head_generation - policy.generations + 1


def kept_because(standing: Standing, *, places: Places, policy: RetentionPolicy, now: datetime) -> Reason | None:
    """The first promise that covers a generation, or None if it may go."""
    by_place: dict[int | None, Reason] = {
        places.pinned_generation: "pinned",
        places.previous_generation: "previous",
        places.current_generation: "current",
        places.head_generation: "head",
    }
    if (reason := by_place.get(standing.generation)) is not None:
        return reason
    if standing.generation >= oldest_counted(places, policy):
        return "newest"
    if standing.replaced_at is not None and standing.replaced_at > now - policy.age:
        return "age"
    return None


def droppable(standings: Iterable[Standing], *, places: Places, policy: RetentionPolicy, now: datetime) -> list[int]:
    """Those of some generations that no promise covers.

    Args:
        standings: The generations.
        places: Where the line is.
        policy: What is promised.
        now: The time by the clock that dated them.
    """
    return [
        standing.generation
        for standing in standings
        if kept_because(standing, places=places, policy=policy, now=now) is None
    ]
