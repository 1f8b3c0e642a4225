"""The recall gate: whether what is about to be published may, by what the memory would answer with it.

A set of questions is no sample of anything; it is what somebody wants answered. So the gate goes by what the set shows,
and the interval of the change is told for whoever decides: a fall that holds 0 in its interval may be a task or two.

Below the floor everything is held but what raises recall: a memory that is below it could not get better otherwise.
What is held is for people to decide. They may publish it all the same, having read which questions it costs; what
turns out worse than they have read, or to cost other questions, is held again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from anabranch.domain.recall import compare

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Reason: TypeAlias = Literal["RecallRegressed", "RecallBelowFloor"]

REASONS: Final = frozenset({"RecallRegressed", "RecallBelowFloor"})
"""Why candidates wait that the gate holds."""

NAMED: Final = 20
"""Tasks that are named to people."""

_NAMED_CHARACTERS: Final = 600
_EQUAL: Final = 1e-9
"""Means of the same numbers differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a Baseline asks of its recall.

    Attributes:
        k: How many hits count.
        floor: The lowest recall that is let through; 0: any.
        max_regression: By how much a publication may lower it.
    """

    k: int
    floor: float
    max_regression: float

    def is_below(self, recall: float) -> bool:
        """Whether a recall is below the floor."""
        return recall < self.floor - _EQUAL

    def is_regression(self, change: float) -> bool:
        """Whether a change of recall is a fall by more than is allowed."""
        return change < -self.max_regression - _EQUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says of a publication.

    Attributes:
        reason: Why it is held; None: it is not.
        k: How many hits count.
        recall: Of the set, with what would be published.
        before: Without it.
        mean: The change of recall.
        low: Lower end of its 95 % interval.
        high: Upper end.
        failing: Ids of the tasks that it costs; of one that is held for the floor alone, those that are not answered.
        worse: Ids of the tasks that it costs.
    """

    reason: Reason | None
    k: int
    recall: float
    before: float
    mean: float
    low: float
    high: float
    failing: tuple[str, ...]
    worse: frozenset[str]

    @property
    def detail(self) -> str:
        """For people: the figures, and the first failing tasks."""
        figures = (
            f"recall@{self.k} would go from {self.before:.3f} to {self.recall:.3f}"
            f" (change {self.mean:+.3f}, 95 % interval {self.low:+.3f} to {self.high:+.3f})"
        )
        what = "no longer answered in full" if self.reason == "RecallRegressed" else "not answered in full"
        return f"{figures}; {what}: {named(self.failing)}"

    def is_within(self, recall: float, mean: float, failing: Collection[str]) -> bool:
        """Whether it is no worse than what was held before, and let through by a reviewer.

        Args:
            recall: Of the set, as the reviewer read it.
            mean: The change, likewise.
            failing: Ids of the tasks, likewise: to have read of some says nothing about others.
        """
        return self.recall >= recall - _EQUAL and self.mean >= mean - _EQUAL and self.worse.issubset(failing)


def decide(before: Mapping[str, float], after: Mapping[str, float], bounds: Bounds) -> Verdict:
    """Judge a publication.

    Args:
        before: Recall at k of each task that counts, by its id, without what would be published; at least one.
        after: Of the same tasks, with it.
        bounds: What is asked for.

    Raises:
        ValueError: If no task counts.
    """
    change = compare(before, after)
    if change is None:
        raise ValueError("no task counts for recall")
    recall = sum(after.values()) / len(after)
    reason: Reason | None = None
    failing: Sequence[str] = change.worse
    if bounds.is_regression(change.mean):
        reason = "RecallRegressed"
    elif bounds.is_below(recall) and change.mean <= _EQUAL:
        reason = "RecallBelowFloor"
        missed = [task for task, value in after.items() if value < 1]
        failing = [*change.worse, *(task for task in missed if task not in set(change.worse))]
    return Verdict(
        reason=reason,
        k=bounds.k,
        recall=recall,
        before=sum(before.values()) / len(before),
        mean=change.mean,
        low=change.low,
        high=change.high,
        failing=tuple(failing),
        worse=frozenset(change.worse),
    )


def named(tasks: Sequence[str]) -> str:
    """The first of some tasks, and how many there are beside."""
    shown: list[str] = []
    room = _NAMED_CHARACTERS
    for task in tasks[:NAMED]:
        room -= len(task) + 2
        if room < 0 and shown:
            break
        shown.append(task)
    more = len(tasks) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")
