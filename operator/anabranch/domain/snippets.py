"""Snippets: the piece of a text that shows best why it was found, and where in it the words stand.

A snippet is plain text with places beside it. What agents wrote may be anything, markup or instructions included, so
nothing is put into it; who shows it escapes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.domain.words import places
from anabranch.model.found import Snippet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LENGTH: Final = 240
"""Code points of a snippet."""

LOOKED_AT: Final = 1 << 16
"""Code points of a text in which the best piece is looked for."""

_BEFORE: Final = 40
_WORD: Final = 24


def snippet(text: str, weights: Mapping[str, float]) -> Snippet:
    """The piece of a text with the weightiest words of a search.

    Args:
        text: What the record says.
        weights: What each word weighs, as `anabranch.domain.words` gives it.
    """
    text = text[:LOOKED_AT]
    found = [place for place in places(text) if place[2] in weights]
    begin = _begin(text, found, weights) if len(text) > LENGTH else 0
    end = _end(text, begin)
    matches = _joined([(start - begin, stop - begin) for start, stop, _ in found if begin <= start and stop <= end])
    return Snippet.model_construct(text=text[begin:end], matches=matches)


def _begin(text: str, found: list[tuple[int, int, str]], weights: Mapping[str, float]) -> int:
    """Where the piece begins in which the weights of different words are most, the first one of several."""
    best, most = 0, 0.0
    for place, (start, _, _) in enumerate(found):
        seen: set[str] = set()
        for _, stop, word in found[place:]:
            if stop > start + LENGTH - _BEFORE:
                break
            seen.add(word)
        weight = _weight(seen, weights)
        if weight > most:
            best, most = start, weight
    begin = max(0, min(best - _BEFORE, len(text) - LENGTH))
    if begin and not text[begin - 1].isspace():
        gap = next((at for at in range(begin, min(begin + _WORD, best)) if text[at].isspace()), None)
        begin = begin if gap is None else gap + 1
    return begin


def _end(text: str, begin: int) -> int:
    """Where a piece ends: behind a word, if one ends there about."""
    end = begin + LENGTH
    if end >= len(text):
        return len(text)
    return next((at for at in range(end, end - _WORD, -1) if text[at].isspace()), end)


def _weight(words: Collection[str], weights: Mapping[str, float]) -> float:
    return sum(weights[word] for word in words)


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places without those that lie in one another: pairs of characters overlap."""
    made: list[tuple[int, int]] = []
    for begin, end in spans:
        if made and begin < made[-1][1]:
            made[-1] = made[-1][0], max(end, made[-1][1])
        else:
            made.append((begin, end))
    return tuple(made)
