"""Recall: how much of what a memory is asked for it finds, and whether that has changed.

A task's recall at k is the share of its answering records among the first k hits; nothing if a record is among them
that must not be there; and all, of a task that has no answers, if none is. A set's is the mean over its tasks. Whether
a change is more than chance is told by the paired bootstrap: the tasks are drawn anew, with replacement, a few thousand
times, and the middle 95 % of the mean changes are the interval. An interval that holds 0 says that these tasks do not
show a change, not that there is none.

Abstentions have no answer. A search by words always finds something, so what is told of them is how often it finds
nothing, and how well the best score separates questions that have an answer from those that have none: the chance that
one of the former scores higher than one of the latter (0.5: not at all).

Everything here is a function of values: the API's client, the gate before a publication and the benchmarks share it.
"""

from __future__ import annotations

import bisect
import random
import statistics
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from anabranch.model.canonical import parse_json
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import RECALL_BYTES, RECALL_TASKS
from anabranch.model.misfits import misfits, told
from anabranch.model.recall import RecallTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RESAMPLES: Final = 2_000
"""Draws of the bootstrap: the ends of its interval move by about a fiftieth of its width from one seed to the next."""


def parse(data: bytes, *, name: str) -> list[RecallTask]:
    """Read an evaluation set.

    Args:
        data: JSON Lines in UTF-8, a task a line; blank lines are passed over.
        name: Of the file, for errors.

    Raises:
        InvalidInputError: On a line that is no task, a repeated id, or a set that is empty or too large.
    """
    if len(data) > RECALL_BYTES:
        raise InvalidInputError(
            f"{name}: the evaluation set has {len(data)} bytes, the limit is {RECALL_BYTES}.", hint="Split it."
        )
    tasks: dict[str, RecallTask] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        task = _task(line, place=f"{name}:{number}")
        if task.id in tasks:
            raise InvalidInputError(f"{name}:{number}: the id {task.id} comes twice.", hint="Give each task its own.")
        tasks[task.id] = task
    if not tasks or len(tasks) > RECALL_TASKS:
        raise InvalidInputError(
            f"{name}: the evaluation set has {len(tasks)} tasks; 1 to {RECALL_TASKS} are possible.",
            hint="Leave out those that tell least, or split the set." if tasks else "Write one task a line.",
        )
    return list(tasks.values())


def _task(line: bytes, *, place: str) -> RecallTask:
    hint = 'A line is like {"id": "exit-137", "query": "exit code 137", "answers": ["builds/exit-137"]}.'
    try:
        return RecallTask.model_validate(parse_json(line.decode()))
    except UnicodeDecodeError:
        raise InvalidInputError(f"{place}: not UTF-8.", hint=hint) from None
    except ValidationError as error:
        raise InvalidInputError(f"{place}: {told(misfits(error.errors()))}", hint=hint) from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{place}: {error.detail}", hint=hint) from None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a search gave, as far as a task looks at it.

    Attributes:
        key: Of the record.
        score: BM25, to be compared with others of the same manifest alone.
    """

    key: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: The task.
        ranks: Where its answers came, from 1, in order; those that were not found, or say something else, are left out.
        intruder: Where the first record came that must not be there; None: nowhere.
        best: The score of the first hit; 0 if there was none.
    """

    task: RecallTask
    ranks: tuple[int, ...]
    intruder: int | None
    best: float

    def recall(self, k: int) -> float:
        """Recall at k, from 0 to 1."""
        if self.intruder is not None and self.intruder <= k:
            return 0.0
        wanted = len(self.task.answers)
        return sum(rank <= k for rank in self.ranks) / wanted if wanted else 1.0

    def reciprocal_rank(self, k: int) -> float:
        """1 by the rank of the first answer; 0 if there is none among the first k."""
        return 1 / self.ranks[0] if self.ranks and self.ranks[0] <= k else 0.0


def judge(task: RecallTask, hits: Sequence[Hit], *, texts: Mapping[str, str]) -> Outcome:
    """Judge what a search gave.

    Args:
        task: The task.
        hits: The best first; as many as it is going to be judged by, or more.
        texts: What the records say that are among its answers, by key (see `anabranch.domain.words.text_of`). Looked
            at only if the task has ``says``.
    """
    right = {key for key in task.answers if task.says is None or task.says.casefold() in texts.get(key, "").casefold()}
    places = [(place, hit.key) for place, hit in enumerate(hits, start=1)]
    return Outcome(
        task=task,
        ranks=tuple(place for place, key in places if key in right),
        intruder=next((place for place, key in places if key in task.absent), None),
        best=hits[0].score if hits else 0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The tasks of a set that recall counts, or those of one kind.

    Attributes:
        tasks: How many.
        recall: At k, the mean.
        recall_at_1: At 1, the mean.
        mrr: The mean reciprocal rank of the first answer, of the tasks that have answers; None: none has.
    """

    tasks: int
    recall: float
    recall_at_1: float
    mrr: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """The tasks without an answer.

    Attributes:
        tasks: How many.
        silent: The share that nothing was found for.
        separation: The chance that a question with answers scores higher than one without; None: there are none.
    """

    tasks: int
    silent: float
    separation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a set says of a generation.

    Attributes:
        k: How many hits count.
        all: All that recall counts; None if the set has abstentions alone.
        kinds: The same by kind.
        abstention: The others; None if there are none.
    """

    k: int
    all: Part | None
    kinds: Mapping[str, Part]
    abstention: Abstention | None


def report(outcomes: Iterable[Outcome], *, k: int) -> Report:
    """Sum up a set.

    Args:
        outcomes: Of all its tasks.
        k: How many hits count.
    """
    counted: list[Outcome] = []
    abstained: list[Outcome] = []
    kinds: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        (counted if outcome.task.counts else abstained).append(outcome)
        if outcome.task.counts:
            kinds[outcome.task.kind].append(outcome)
    return Report(
        k=k,
        all=_part(counted, k) if counted else None,
        kinds={kind: _part(some, k) for kind, some in sorted(kinds.items())},
        abstention=_abstention(abstained, [one for one in counted if one.task.answers]) if abstained else None,
    )


def _part(outcomes: Sequence[Outcome], k: int) -> Part:
    ranked = [outcome.reciprocal_rank(k) for outcome in outcomes if outcome.task.answers]
    return Part(
        tasks=len(outcomes),
        recall=statistics.fmean(outcome.recall(k) for outcome in outcomes),
        recall_at_1=statistics.fmean(outcome.recall(1) for outcome in outcomes),
        mrr=statistics.fmean(ranked) if ranked else None,
    )


def _abstention(abstained: Sequence[Outcome], answerable: Sequence[Outcome]) -> Abstention:
    scores = sorted(outcome.best for outcome in abstained)
    # How many lie below, and half of those that are equal: the area under the ROC curve.
    wins = [(bisect.bisect_left(scores, one.best) + bisect.bisect_right(scores, one.best)) / 2 for one in answerable]
    return Abstention(
        tasks=len(abstained),
        silent=statistics.fmean(score == 0 for score in scores),
        separation=statistics.fmean(wins) / len(scores) if wins else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of recall between two generations.

    Attributes:
        mean: The later one's recall at k less that of the earlier one.
        low: Lower end of its 95 % interval.
        high: Upper end.
        better: Ids of the tasks whose recall rose.
        worse: Ids of those whose recall fell.
    """

    mean: float
    low: float
    high: float
    better: tuple[str, ...]
    worse: tuple[str, ...]


def change(before: Iterable[Outcome], after: Iterable[Outcome], *, k: int) -> Change | None:
    """Compare the outcomes of one set in two generations, task by task.

    Args:
        before: In the earlier one.
        after: In the later one. Tasks that are not in both are left out.
        k: How many hits count.

    Returns:
        The change; None if there is no task to compare.
    """
    return compare(recalls(before, k=k), recalls(after, k=k))


def recalls(outcomes: Iterable[Outcome], *, k: int) -> dict[str, float]:
    """Recall at k of those tasks that count, by their ids."""
    return {outcome.task.id: outcome.recall(k) for outcome in outcomes if outcome.task.counts}


def compare(before: Mapping[str, float], after: Mapping[str, float]) -> Change | None:
    """Compare recall task by task, as `recalls` gives it; None if there is no task in both."""
    changes = {task: value - before[task] for task, value in after.items() if task in before}
    if not changes:
        return None
    low, high = interval(list(changes.values()))
    return Change(
        mean=statistics.fmean(changes.values()),
        low=low,
        high=high,
        better=tuple(task for task, value in changes.items() if value > 0),
        worse=tuple(task for task, value in changes.items() if value < 0),
    )


def interval(differences: Sequence[float], *, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Between which values the mean of some paired differences lies, 95 times of a hundred; always the same.

    Args:
        differences: Of one pair each; at least one.
        resamples: How often they are drawn anew.
    """
    if all(one == other for one, other in pairwise(differences)):
        return differences[0], differences[0]
    chance = random.Random(1)  # noqa: S311  (the same each time, so that a verdict can be repeated)
    count = len(differences)
    means = sorted(statistics.fmean(chance.choices(differences, k=count)) for _ in range(resamples))
    return means[resamples // 40], means[-1 - resamples // 40]
