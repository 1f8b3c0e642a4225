"""How a record reads in a terminal, and what has changed of it: line by line, and within a line word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from anabranch.domain import wording
from anabranch.domain.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anabranch.domain.wording import Piece

CONTEXT: Final = 2
"""Unchanged lines that are shown beside a change."""

_RED: Final = "red"
_GREEN: Final = "green"


def lines_of(content: Any, sources: Iterable[str] = ()) -> list[str]:
    """A record's content and sources as lines: a text as it is, everything else as YAML."""
    return [*wording.lines_of(content), *(visible(f"source {locator}") for locator in sources)]


def diff(before: Sequence[str], after: Sequence[str], *, context: int | None = CONTEXT) -> Iterator[str]:
    """What turns some lines into others: ``-`` before those that go, ``+`` before those that come.

    On a terminal they are coloured, and where a line replaces another the words that differ stand out.

    Args:
        before: The lines as they were.
        after: The lines as they are.
        context: Unchanged lines to show beside a change; None: all.
    """
    stretches = wording.compare(before, after)
    if stretches is None:
        yield f"  {len(before)} lines before, {len(after)} after: too many to compare here"
        return
    found = list(stretches)
    for place, stretch in enumerate(found):
        if stretch.same:
            lines = [_plain(line) for line in stretch.before]
            yield from _unchanged(lines, context, first=place == 0, last=place == len(found) - 1)
            continue
        yield from (f"{click.style('-', fg=_RED)} {_styled(line, _RED)}" for line in stretch.before)
        yield from (f"{click.style('+', fg=_GREEN)} {_styled(line, _GREEN)}" for line in stretch.after)


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


def _plain(line: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in line)


def _styled(line: Iterable[Piece], colour: str) -> str:
    return "".join(click.style(piece.text, fg=colour, reverse=piece.marked or None) for piece in line)
