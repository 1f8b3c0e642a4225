"""BM25: how well a document answers some words, from how often it has them, how rare they are, and how long it is.

The same formula is computed in two places: in SQL over the index, and here over the few documents that are not in it
(an agent's private records, what was published a moment ago). Both take what a word weighs, and what a length costs,
from here, so their scores compare.

Lengths are kept in a byte, on a scale of sixteen steps to the double, exact up to some twenty words and 2 % off beyond.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

K1: Final = 1.2
"""How soon another occurrence of a word stops to matter."""

B: Final = 0.75
"""How much longer documents are held to account for being long."""

_STEPS: Final = 16
_CODES: Final = 256

MOST: Final = 255
"""Occurrences of a word that are counted; more change nothing that could be seen."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What documents are compared with.

    Attributes:
        documents: How many there are.
        words: How many words they have together.
    """

    documents: int
    words: int


@dataclass(frozen=True)
class Scale:
    """How documents are scored for a query.

    Attributes:
        weights: What each of its words weighs.
        mean: Words of a document of usual length.
    """

    weights: Mapping[str, float]
    mean: float

    @cached_property
    def costs(self) -> list[float]:
        """What a length costs, by its code: what the count of a word is held against."""
        return [_cost(length(code), self.mean) for code in range(_CODES)]

    def score(self, counts: Mapping[str, int], *, words: int) -> float:
        """The score of a document.

        Args:
            counts: How often it has each word of the query.
            words: How many words it has.
        """
        cost = self.costs[code(words)]
        return sum(
            self.weights[word] * min(count, MOST) / (min(count, MOST) + cost) for word, count in counts.items() if count
        )


def weight(having: int, *, documents: int) -> float:
    """What a word weighs that so many of the documents have: more, the rarer it is, and never nothing.

    It is the most that the word brings to a score, which the first occurrence in a document of usual length brings
    nearly half of.
    """
    having = min(having, documents)
    return (K1 + 1) * math.log(1 + (documents - having + 0.5) / (having + 0.5))


def code(words: int) -> int:
    """A number of words in a byte."""
    return min(round(_STEPS * math.log2(words)), _CODES - 1) if words > 1 else 0


def length(code: int) -> float:
    """About how many words a byte stands for."""
    return float(2 ** (code / _STEPS))


def _cost(words: float, mean: float) -> float:
    return K1 * (1 - B + B * words / mean) if mean else K1
