"""What a page shows of two contents side by side: member by member, line by line, the words that differ marked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from anabranch.domain.wording import MOST_LINES, Piece, compare, lines_of, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Line: TypeAlias = tuple[Piece, ...]

CONTEXT: Final = 3
"""Unchanged lines that stay open beside a change."""

_FOLDED: Final = 3
"""Fewest unchanged lines that are worth folding away."""


_HEADINGS: Final = frozenset({"title", "name", "summary"})
"""Members that say what the others are about. Canonical JSON has members by their names; a reader wants these first."""


class _Absent:
    """There is no content, which is not the content null."""


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Row:
    """A line of either side; None: that side has none there.

    Attributes:
        before: Its pieces on the left.
        after: Its pieces on the right.
        same: Whether both sides have it.
    """

    before: Line | None
    after: Line | None
    same: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """Rows that stand together.

    Attributes:
        rows: At least one.
        folded: Whether nothing changes in them, and nothing near them: a reader opens them if they want to.
    """

    rows: tuple[Row, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A member of both contents, compared.

    Attributes:
        label: Its name; empty: the content is no object.
        passages: What it says.
        same: Whether it says the same on both sides.
        compared: False: it is too long, and stands whole.
    """

    label: str
    passages: tuple[Passage, ...]
    same: bool
    compared: bool = True

    @property
    def one_sided(self) -> bool:
        """Whether only one side has it."""
        rows = [row for passage in self.passages for row in passage.rows]
        return all(row.before is None for row in rows) or all(row.after is None for row in rows)


def members(before: Any, after: Any) -> list[Member]:
    """Two contents, compared, what changes first; `ABSENT` where a side has none."""
    if all(isinstance(side, dict) or side is ABSENT for side in (before, after)):
        left, right = (side if isinstance(side, dict) else {} for side in (before, after))
        names = dict.fromkeys([*left, *right])
        found = [_member(name, left.get(name, ABSENT), right.get(name, ABSENT)) for name in names]
        return sorted(found, key=lambda member: (member.same, member.label not in _HEADINGS))
    return [_member("", before, after)]


def _member(name: str, before: Any, after: Any) -> Member:
    left, right = ([] if side is ABSENT else lines_of(side) for side in (before, after))
    label = visible(name)
    stretches = compare(left, right)
    if stretches is None:
        rows = tuple(_rows([(Piece(line),) for line in left[:MOST_LINES]], [(Piece(line),) for line in right]))
        return Member(label, (Passage(rows),), same=False, compared=False)
    found = list(stretches)
    passages: list[Passage] = []
    for place, stretch in enumerate(found):
        if stretch.same:
            rows = tuple(Row(line, line, same=True) for line in stretch.before)
            passages += _folded(rows, first=place == 0, last=place == len(found) - 1)
        else:
            passages.append(Passage(tuple(_rows(stretch.before, stretch.after))))
    return Member(label, tuple(passages), same=all(stretch.same for stretch in found))


def _rows(before: Sequence[Line], after: Sequence[Line]) -> Iterator[Row]:
    for left, right in zip_longest(before, after):
        yield Row(left, right, same=False)


def _folded(rows: tuple[Row, ...], *, first: bool, last: bool) -> Iterator[Passage]:
    """Unchanged rows, those in their middle folded away where they are many."""
    head, tail = (0 if first else CONTEXT), (0 if last else CONTEXT)
    if (first and last) or len(rows) < head + tail + _FOLDED:
        yield Passage(rows)
        return
    end = len(rows) - tail
    yield from (
        Passage(part, folded=folded)
        for part, folded in ((rows[:head], False), (rows[head:end], True), (rows[end:], False))
        if part
    )
