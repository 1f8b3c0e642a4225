"""Puts the pairs of a trie in order, however many there are, without Postgres.

An import meets its records by key and needs their pairs by key hash. Postgres could sort them, but would have to be
asked for every record once more, which took as long as storing them. So each pair goes, as it is met, to one of 256
heaps by its first byte, and what a heap cannot hold goes to a temporary file, in blocks. Afterwards a heap at a time
fits in memory: 320 MB on disk and a few MiB in memory for five million records.
"""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from anabranch.domain.trie import Pair

_HEAPS: Final = 256
_BLOCK_BYTES: Final = 16 << 10
_PAIR: Final = struct.Struct("32s32s")


class SortedPairs:
    """Takes pairs in any order and gives them in ascending order; a context manager, whose end drops its file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="anabranch-pairs-")  # noqa: SIM115  (this is the context manager)
        self._blocks: list[list[int]] = [[] for _ in range(_HEAPS)]
        self._open = [bytearray() for _ in range(_HEAPS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def extend(self, pairs: Iterable[Pair]) -> None:
        """Take in some pairs."""
        for pair in pairs:
            number = pair[0][0]
            heap = self._open[number]
            heap += pair[0]
            heap += pair[1]
            if len(heap) >= _BLOCK_BYTES:
                self._blocks[number].append(self._file.tell())
                self._file.write(heap)
                heap.clear()

    def __iter__(self) -> Iterator[Pair]:
        """All of them, in ascending order; nothing may be taken in afterwards."""
        for number in range(_HEAPS):
            yield from sorted(_PAIR.iter_unpack(self._heap(number)))

    def _heap(self, number: int) -> bytes:
        blocks = []
        for place in self._blocks[number]:
            self._file.seek(place)
            blocks.append(self._file.read(_BLOCK_BYTES))
        return b"".join([*blocks, self._open[number]])
