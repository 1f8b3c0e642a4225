"""Vectors as a search keeps and compares them: pure, so that it can be done beside the event loop.

A vector is kept twice. Its signs, a bit a dimension, are what a search goes through all of: two vectors that point the
same way have most of them in common, and a million are compared in some tens of milliseconds. Its dimensions, a byte
each, are what the few with the most signs in common are then compared by: as good as the vector itself for an order.

Only installations that search by meaning import this module: NumPy comes with the extra ``embeddings``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

WORD: Final = 64
"""Dimensions whose signs are one word: vectors have a multiple of it."""

_LARGEST: Final = 127


class Pack:
    """Vectors of a segment that are being put together.

    Args:
        dimensions: Of each vector, a multiple of `WORD`.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._signs: list[NDArray[np.uint64]] = []
        self._codes: list[bytes] = []

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Take vectors, a row each; one of nothing but zeros is that of no text."""
        self._signs.append(_signs(vectors))
        self._codes.append(codes(vectors).tobytes())

    @property
    def signs(self) -> bytes:
        """The signs of all: the first word of each, then the second word of each, which is how they are compared."""
        if not self._signs:
            return b""
        return np.ascontiguousarray(np.concatenate(self._signs).T).tobytes()

    @property
    def codes(self) -> bytes:
        """The dimensions of all, a byte each, vector after vector."""
        return b"".join(self._codes)


def codes(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """The dimensions of vectors in a byte each, to the scale of the largest of each vector."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(vectors * _LARGEST, largest, out=np.zeros_like(vectors), where=largest > 0)
    return np.rint(scaled).astype(np.int8)


def most_alike(segments: Mapping[int, bytes], query: NDArray[np.float32], *, most: int) -> NDArray[np.int64]:
    """Those vectors of some segments that have the most signs in common with another one.

    Args:
        segments: Signs (see `Pack.signs`) by the segment's number.
        query: The other one.
        most: How many to give at most.

    Returns:
        A row each: how many signs differ, the segment, the vector's number in it. The most alike first.
    """
    wanted = _signs(query[np.newaxis])[0]
    found = [np.empty((0, 3), dtype=np.int64)]
    for segment, signs in segments.items():
        words = np.frombuffer(signs, dtype=np.uint64).reshape(len(wanted), -1)
        apart = np.zeros(words.shape[1], dtype=np.uint16)
        for word, own in zip(words, wanted, strict=True):
            apart += np.bitwise_count(word ^ own)
        chosen = np.arange(len(apart)) if len(apart) <= most else np.argpartition(apart, most)[:most]
        found.append(np.stack([apart[chosen].astype(np.int64), np.full_like(chosen, segment), chosen], axis=1))
    return best(found, most=most)


def best(found: Sequence[NDArray[np.int64]], *, most: int) -> NDArray[np.int64]:
    """The first rows of some that `most_alike` gave, in their order."""
    rows = np.concatenate(found)
    return rows[np.lexsort(rows.T[::-1])][:most]


def cosines(found: Sequence[bytes | None], query: NDArray[np.float32]) -> list[float]:
    """How far vectors point the same way as another one: from -1 to 1, and 0 for one that there is not.

    Args:
        found: Their dimensions (see `codes`).
        query: The other one, of length 1.
    """
    nothing = bytes(len(query))
    joined = b"".join(one or nothing for one in found)
    vectors = np.frombuffer(joined, dtype=np.int8).reshape(len(found), len(query)).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    products: NDArray[np.float32] = vectors @ query
    told: list[float] = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).tolist()
    return told


def _signs(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """A bit for each dimension: whether it is above zero."""
    return np.packbits(vectors > 0, axis=1).view(np.uint64)
