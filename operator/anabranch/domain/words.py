"""The words of a text, as search compares them, and where they stand in it.

A word is a run of letters and digits of any script, without regard to case, accents and width, so that "Café" finds
"cafe". Nothing is stemmed and nothing left out: keys, identifiers and numbers are what agents look for, in whichever
language they write. Scripts that put no spaces between words (Chinese, Japanese, Korean) are compared by pairs of
neighbouring characters. Index and query go through the same function, or nothing would be found.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 64
"""Characters of a word; a longer run is several words."""

_ASCII: Final = re.compile(rf"[a-z0-9]{{1,{LONGEST}}}")
_WORD: Final = re.compile(rf"[^\W_]{{1,{LONGEST}}}")
_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]+)")


def words(text: str) -> list[str]:
    """The words of a text in their order, as they are compared."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    return [part for word in _WORD.findall(_plain(text)) for part in _parts(word)]


def places(text: str) -> Iterator[tuple[int, int, str]]:
    """The words of a text with their places: beginning and end in code points, and the word as it is compared."""
    for begin, end in _runs(text):
        shown = text[begin:end]
        if shown.isascii() or not _UNSPACED.search(plain := _plain(shown)):
            for word in words(shown):
                yield begin, end, word
        else:
            yield from _unspaced(shown, plain, begin)


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Where letters and digits stand next to each other, with the accents that follow them."""
    if text.isascii():
        yield from (found.span() for found in _WORD.finditer(text))
        return
    begin = None
    for place, character in enumerate(text):
        if _is_told(character) or (begin is not None and unicodedata.combining(character)):
            begin = place if begin is None else begin
        elif begin is not None:
            yield begin, place
            begin = None
    if begin is not None:
        yield begin, len(text)


def text_of(content: Any) -> str:
    """What a record's content says, as one text: names and values of JSON in their order, a line each."""
    return content if isinstance(content, str) else "\n".join(_lines(content, ""))


def _lines(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for each, inner in value.items():
            yield from _lines(inner, f"{name}{each}: ")
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name)
            name = ""
    elif isinstance(value, bool) or value is None:
        yield f"{name}{str(value).lower() if value is not None else 'null'}"
    else:
        yield f"{name}{value}"


def _plain(text: str) -> str:
    """A text without case, accents and width."""
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(character for character in apart if not unicodedata.combining(character))
    # Hangul comes apart too, and is put together again: its syllables are its characters.
    return unicodedata.normalize("NFKC", bare).casefold()


@lru_cache(maxsize=4_096)
def _is_told(character: str) -> bool:
    """Whether a character is compared: some that are no letters become such, as squared units and radicals do."""
    return character.isalnum() or (not character.isascii() and _WORD.search(_plain(character)) is not None)


def _parts(word: str) -> Iterator[str]:
    """A word, or the pairs of characters of one whose script has no spaces."""
    return (part for _, part in _placed(word))


def _placed(word: str) -> Iterator[tuple[int, str]]:
    """The parts of a word, each with the place where it begins."""
    if word.isascii():
        yield 0, word
        return
    begin = 0
    for part in _UNSPACED.split(word):
        if len(part) == 1 or (part and not _UNSPACED.match(part)):
            yield begin, part
        else:
            yield from ((begin + place, part[place : place + 2]) for place in range(len(part) - 1))
        begin += len(part)


def _unspaced(shown: str, plain: str, begin: int) -> Iterator[tuple[int, int, str]]:
    """The words of a run, each at the characters that it comes from."""
    apart = [_alone(character) for character in shown]
    if "".join(apart) != plain:  # some characters are one only together: nobody can say which word comes from which
        for word in words(shown):
            yield begin, begin + len(shown), word
        return
    origin = [place for place, character in enumerate(apart) for _ in character]
    for run in _WORD.finditer(plain):
        for place, word in _placed(run.group()):
            first = run.start() + place
            yield begin + origin[first], begin + origin[first + len(word) - 1] + 1, word


@lru_cache(maxsize=4_096)
def _alone(character: str) -> str:
    return _plain(character)
