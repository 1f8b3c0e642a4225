"""How a record reads, and what has changed of it: line by line, and within a line word by word."""

from __future__ import annotations

import difflib
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.cli.output import as_yaml, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CONTEXT: Final = 2
"""Unchanged lines that are shown beside a change."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST: Final = 2_000
"""Characters of a line whose words are compared."""

_MOST: Final = 2_000
"""Lines of a record that are compared: the work grows with their square."""

_RED: Final = "red"
_GREEN: Final = "green"


def lines_of(content: Any, sources: Iterable[str] = ()) -> list[str]:
    """A record's content and sources as lines: a text as it is, everything else as YAML."""
    text = content if isinstance(content, str) else as_yaml(content)
    lines = [*text.removesuffix("\n...\n").splitlines(), *(f"source {locator}" for locator in sources)]
    return list(map(visible, lines))


def diff(before: Sequence[str], after: Sequence[str], *, context: int | None = CONTEXT) -> Iterator[str]:
    """What turns some lines into others: ``-`` before those that go, ``+`` before those that come.

    On a terminal they are coloured, and where a line replaces another the words that differ stand out.

    Args:
        before: The lines as they were.
        after: The lines as they are.
        context: Unchanged lines to show beside a change; None: all.
    """
    if max(len(before), len(after)) > _MOST:
        yield f"  {len(before)} lines before, {len(after)} after: too many to compare here"
        return
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            first, last = a1 == 0, a2 == len(before)
            yield from _unchanged(before[a1:a2], context, first=first, last=last)
            continue
        pairs = [
            _words(old, new) if old is not None and new is not None else (_styled(old, _RED), _styled(new, _GREEN))
            for old, new in zip_longest(before[a1:a2], after[b1:b2])
        ]
        yield from (f"{click.style('-', fg=_RED)} {old}" for old, _ in pairs if old is not None)
        yield from (f"{click.style('+', fg=_GREEN)} {new}" for _, new in pairs if new is not None)


def _unchanged(lines: Sequence[str], context: int | None, *, first: bool, last: bool) -> Iterator[str]:
    """Unchanged lines, those that are far from every change left out."""
    if context is None:
        yield from (f"  {line}" for line in lines)
        return
    head, tail = (0 if first else context), (0 if last else context)
    if len(lines) <= head + tail + 1:
        yield from (f"  {line}" for line in lines)
        return
    yield from (f"  {line}" for line in lines[:head])
    yield f"  … {len(lines) - head - tail} lines"
    yield from (f"  {line}" for line in lines[len(lines) - tail :])


def _words(old: str, new: str) -> tuple[str, str]:
    """Both lines, with the words that only one of them has in reverse."""
    if max(len(old), len(new)) > _LONGEST:
        return click.style(old, fg=_RED), click.style(new, fg=_GREEN)
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    left, right = "", ""
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        left += click.style("".join(a[a1:a2]), fg=_RED, reverse=(tag != "equal") or None) if a1 < a2 else ""
        right += click.style("".join(b[b1:b2]), fg=_GREEN, reverse=(tag != "equal") or None) if b1 < b2 else ""
    return left, right


def _styled(line: str | None, colour: str) -> str | None:
    return None if line is None else click.style(line, fg=colour)
