"""How alike candidates are: what a reviewer should see beside one, and what they may decide as one.

A run that has gone wrong hands in the same again and again, each time a little different, and two runs find out the
same in almost the same words. Nothing is decided by it: two findings that differ by one digit may be a correction. A
reviewer is told, and judges.

Texts are compared by the pieces of a few characters that both have (the Jaccard index of their shingles), estimated
from the smallest hashes of each. So work and memory for a text are bounded, however long it is, and what one process
computed compares with what another did.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

SHINGLE: Final = 5
"""Characters of a piece: words of a finding's one or two sentences are too few to tell likeness by."""

KEPT: Final = 64
"""Hashes of a sketch: the likeness that they tell is right to some 0.06."""

WINDOW: Final = 1_024
"""Characters of a text that are looked at: half of them from its beginning, half from its end."""

NEAR: Final = 0.8
"""As alike as to be decided as one."""

ALIKE: Final = 0.5
"""As alike as to be shown beside each other."""

FEWEST: Final = 3
"""Members of a group: two candidates are decided one by one."""

MOST_SHOWN: Final = 5
"""Like candidates that are kept with one."""

_PROBED: Final = 8
"""Smallest hashes by which others are found: of two texts as alike as `ALIKE`, hardly a pair has none in common."""

_LOOKED_AT: Final = 8
"""Texts at most that one is compared with: those with which it has most of these in common."""

_ODD: Final = 0x9E3779B1
"""Spreads checksums, which alone would order the pieces of a text by their first characters."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is kept of a text to tell how alike it is to others.

    Attributes:
        marks: The smallest hashes of its pieces, 32 bits each, in order.
        length: Characters of the text.
    """

    marks: tuple[int, ...]
    length: int

    @classmethod
    def of(cls, content: Any) -> Self:
        """The sketch of a content, as JSON has it.

        Args:
            content: Its texts and numbers are looked at, not the names of its members: most have those in common.
        """
        text = " ".join(" ".join(_texts(content)).casefold().split())
        seen = text if len(text) <= WINDOW else f"{text[: WINDOW // 2]} {text[-WINDOW // 2 :]}"
        raw = seen.encode("utf-8", "surrogatepass")
        pieces = {raw[at : at + SHINGLE] for at in range(max(len(raw) - SHINGLE + 1, 1))} if raw else set()
        hashes = sorted({zlib.crc32(piece) * _ODD & 0xFFFF_FFFF for piece in pieces})
        return cls(tuple(hashes[:KEPT]), len(text))

    @classmethod
    def parse(cls, packed: bytes) -> Self:
        """A sketch from the form in which it is kept."""
        length, *marks = struct.unpack(f"<{len(packed) // 4}I", packed)
        return cls(tuple(marks), length)

    def packed(self) -> bytes:
        """The form in which it is kept."""
        return struct.pack(f"<{len(self.marks) + 1}I", self.length, *self.marks)


@dataclass(frozen=True, slots=True)
class Match:
    """A text that is like another one.

    Attributes:
        name: What it was called.
        likeness: From 0 to 1, with two places.
    """

    name: str
    likeness: float


def likeness(one: Sketch, other: Sketch) -> float:
    """How alike two texts are: 1 for the same pieces, 0 for none in common."""
    left, right = set(one.marks), set(other.marks)
    if not left or not right:
        return 0.0
    # Of two texts that have few pieces all are there, and so the index is exact.
    whole = max(len(left), len(right)) < KEPT
    union = sorted(left | right)[: None if whole else KEPT]
    index = len(left.intersection(right, union)) / len(union)
    shorter, longer = sorted((one.length, other.length))
    return index * shorter / longer if longer > WINDOW else index


class Shelf:
    """Sketches by name, to find those that one is like."""

    def __init__(self) -> None:
        self._sketches: dict[str, Sketch] = {}
        self._by_mark: defaultdict[int, list[str]] = defaultdict(list)

    def put(self, name: str, sketch: Sketch) -> None:
        """Add a sketch."""
        self._sketches[name] = sketch
        for mark in sketch.marks[:_PROBED]:
            self._by_mark[mark].append(name)

    def like(self, sketch: Sketch, *, least: float) -> list[Match]:
        """Those at least so alike, the most alike first; of very many some only."""
        shared = Counter(
            name for mark in sketch.marks[:_PROBED] for name in self._by_mark.get(mark, ())[-4 * _LOOKED_AT :]
        )
        found = [
            Match(name, round(likeness(sketch, self._sketches[name]), 2)) for name, _ in shared.most_common(_LOOKED_AT)
        ]
        return sorted((match for match in found if match.likeness >= least), key=lambda m: (-m.likeness, m.name))


def groups(entries: Iterable[tuple[str, Hashable, Sketch]]) -> list[list[str]]:
    """Gather what is near-identical: each member of a group is near to its first one.

    Args:
        entries: Name, what members of one group must have in common besides, and sketch.

    Returns:
        Groups of `FEWEST` members at least, each in the order in which they came.
    """
    shelves: defaultdict[Hashable, Shelf] = defaultdict(Shelf)
    found: dict[str, list[str]] = {}
    for name, kind, sketch in entries:
        near = shelves[kind].like(sketch, least=NEAR)
        if near:
            found[near[0].name].append(name)
        elif sketch.marks:
            shelves[kind].put(name, sketch)
            found[name] = [name]
    return [members for members in found.values() if len(members) >= FEWEST]


def group_digest(members: Iterable[tuple[str, str, str]]) -> str:
    """What a decision on a group names: each of its members exactly as a reviewer saw it.

    Args:
        members: Of each candidate that waits: its id, its `content_hash`, and the revision of the record that it would
            replace, "0" where there is none.

    Returns:
        ``sha256:`` and the hex of the SHA-256 over a line for each, in the order of their ids.
    """
    lines = "".join(f"{candidate} {content} {revision}\n" for candidate, content, revision in sorted(members))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _texts(content: Any) -> Iterable[str]:
    """The texts and numbers of a content, in order."""
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif value is not None:
            yield str(value)
