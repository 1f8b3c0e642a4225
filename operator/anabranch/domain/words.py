"""The words of a text, as search compares them, and where they stand in it.

A word is a run of letters and digits of any script, without regard to case, accents and width, so that "Café" finds
"cafe". Nothing is stemmed and nothing left out: keys, identifiers and numbers are what agents look for, in whichever
language they write. Scripts that put no spaces between words (Chinese, Japanese, Korean) are compared by pairs of
neighbouring characters. Index and query go through the same function, or nothing would be found.
"""

from __future__ import annotations

import re
import unicodedata
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
        if _UNSPACED.search(shown):
            yield from _unspaced(shown, begin)
        else:
            for word in words(shown):
                yield begin, end, word


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Where letters and digits stand next to each other, with the accents that follow them."""
    if text.isascii():
        yield from (found.span() for found in _WORD.finditer(text))
        return
    begin = None
    for place, character in enumerate(text):
        if character.isalnum() or (begin is not None and unicodedata.combining(character)):
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


def _parts(word: str) -> Iterator[str]:
    """A word, or the pairs of characters of one whose script has no spaces."""
    if word.isascii():
        yield word
        return
    for part in _UNSPACED.split(word):
        if not part:
            continue
        if len(part) == 1 or not _UNSPACED.match(part):
            yield part
        else:
            yield from (part[place : place + 2] for place in range(len(part) - 1))


def _unspaced(shown: str, begin: int) -> Iterator[tuple[int, int, str]]:
    for part in _UNSPACED.split(shown):
        if part and _UNSPACED.match(part) and len(part) > 1:
            for place in range(len(part) - 1):
                for word in words(part[place : place + 2]):
                    yield begin + place, begin + place + 2, word
        else:
            for word in words(part):
                yield begin, begin + len(part), word
        begin += len(part)
