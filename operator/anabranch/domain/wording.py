"""How a record reads, and what has changed of it: line by line, and within a line word by word.

A reviewer decides on what can be seen. So a text that would hide something, by turning the direction of what stands
beside it or by not being seen at all, is written out; and of two texts what differs is told to the word.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_LINES: Final = 2_000
"""Of a text that is compared: the work grows with their square."""

_LONGEST: Final = 2_000
"""Characters of a line whose words are compared."""

_ALIKE: Final = 0.45
"""Lines that have less in common were not edited but replaced: single words that they share would only distract."""

_ISLAND: Final = 3
"""Characters of a word that stays between two changes, and is marked with them: the eye should not stop at it."""

_WIDE: Final = 10**6
"""Columns of YAML: lines are as long as their text."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")

_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What moves a terminal's cursor, turns the direction of its text, or is not seen at all."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line.

    Attributes:
        text: As it reads.
        marked: Whether it is what differs from the other side's line.
    """

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines of two texts that are the same, or that were replaced by each other.

    Attributes:
        before: Lines of the first text; each is its pieces.
        after: Likewise of the second one; the same lines where `same`.
        same: Whether nothing differs.
    """

    before: tuple[tuple[Piece, ...], ...]
    after: tuple[tuple[Piece, ...], ...]
    same: bool


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as a person would."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


class _Spelling(_Dumper):
    """Quotes texts in which something hides: an escape means something between quotes alone."""


def _spelled(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return (
        dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
        if _HIDDEN.search(text)
        else _text(dumper, text)
    )


_Spelling.add_representer(str, _spelled)


def visible(text: str) -> str:
    """A text with what a person would not see written out.

    Records are what agents wrote. No record may paint over what a reviewer reads beside it.
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_yaml(value: Any, *, exact: bool = False) -> str:
    """A value as YAML that a person likes to read: members in their order, texts as blocks.

    Args:
        value: As JSON has it.
        exact: Spell out what hides in a way that means the same, so that a terminal shows it and a program reads it.
    """
    dumper = _Spelling if exact else _Dumper
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=_WIDE)
    return visible(text) if exact else text


def exact_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that hides nothing from a person, and is to a program exactly what there was."""
    return visible(json.dumps(value, indent=indent, ensure_ascii=False))


def lines_of(content: Any) -> list[str]:
    """A record's content as lines that hide nothing: a text as it is, everything else as YAML."""
    text = content if isinstance(content, str) else as_yaml(content)
    return list(map(visible, text.removesuffix("\n...\n").splitlines()))


def compare(before: Sequence[str], after: Sequence[str]) -> Iterator[Stretch] | None:
    """What turns some lines into others, in stretches; None: there are too many to compare."""
    if max(len(before), len(after)) > MOST_LINES:
        return None
    return _stretches(before, after)


def _stretches(before: Sequence[str], after: Sequence[str]) -> Iterator[Stretch]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            lines = tuple((Piece(line),) for line in before[a1:a2])
            yield Stretch(lines, lines, same=True)
            continue
        old, new = before[a1:a2], after[b1:b2]
        pairs = [_words(*pair) for pair in zip(old, new, strict=False)]
        paired = len(pairs)
        yield Stretch(
            (*(left for left, _ in pairs), *((Piece(line),) for line in old[paired:])),
            (*(right for _, right in pairs), *((Piece(line),) for line in new[paired:])),
            same=False,
        )


def _words(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both lines, with the words marked that only one of them has."""
    plain = (Piece(old),), (Piece(new),)
    if max(len(old), len(new)) > _LONGEST:
        return plain
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    codes = difflib.SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes()
    common = sum(_ink(a[a1:a2]) for tag, a1, a2, _, _ in codes if tag == "equal")
    if 2 * common < _ALIKE * (_ink(a) + _ink(b)):
        return plain
    left: list[Piece] = []
    right: list[Piece] = []
    for place, (tag, a1, a2, b1, b2) in enumerate(codes):
        between = 0 < place < len(codes) - 1
        marked = tag != "equal" or (between and _ink(a[a1:a2]) <= _ISLAND)
        _add(left, "".join(a[a1:a2]), marked=marked)
        _add(right, "".join(b[b1:b2]), marked=marked)
    return tuple(left), tuple(right)


def _ink(words: Sequence[str]) -> int:
    """Characters of some words that are no blanks."""
    return sum(len(word) for word in words if not word.isspace())


def _add(pieces: list[Piece], text: str, *, marked: bool) -> None:
    """Append a piece to a line; to its last one where both are alike."""
    if not text:
        return
    if pieces and pieces[-1].marked == marked:
        text = pieces.pop().text + text
    pieces.append(Piece(text, marked))
