"""A whole trie from sorted pairs, in one pass.

Imports, restores, audits and partial exports build a trie of up to millions of records that need not fit in memory. A
subtree is an inner node exactly if a pair and the 64th after it lie in it, so a short look ahead decides each
leaf's depth, and the nodes above it stay open until the first pair beyond them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Final

from anabranch.domain.trie.nodes import (
    EMPTY_BODY,
    EMPTY_ROOT,
    LEAF_MAX,
    Child,
    Inner,
    Pair,
    Path,
    TrieNode,
    leaf_body,
    nibble_at,
    node_hash,
    serialize,
)
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anabranch.domain.trie.descriptor import KeyHash

_BLOCK: Final = 4096
"""Pairs read at a time: under 1 MiB in memory, and a list's bookkeeping is spread over many leaves."""

_KEY_BITS: Final = 256


def build(pairs: Iterable[Pair], *, path: Path = "") -> Iterator[TrieNode]:
    """All nodes over some pairs, children before parents and the root last.

    Memory is bounded by a block of pairs and the open nodes of one path, whatever the number of pairs.

    Args:
        pairs: Key hash and descriptor hash, strictly ascending by key hash, all below ``path``.
        path: The root of the subtree to build; the whole trie by default. Only the whole trie may be empty.

    Raises:
        InvalidInputError: If the pairs are not strictly ascending.
    """
    window = _Window(pairs)
    builder = _Spine(base=len(path))
    while window.fill():
        first = window.first
        yield from builder.close_before(first)
        depth = builder.open_depth
        if (ahead := window.ahead) is not None:
            depth = max(depth, _shared_nibbles(first, ahead) + 1)
        yield builder.add_leaf(window.take(first, depth), depth)
    yield from builder.close_all()
    if not builder.last:
        yield TrieNode(path, EMPTY_BODY, EMPTY_ROOT)


def root_of(pairs: Iterable[Pair]) -> bytes:
    """The root hash over some pairs, 32 bytes.

    A partial export lists each withheld record as its bare pair; together with the pairs of the records that it carries
    this gives the root of the full manifest.

    Raises:
        InvalidInputError: If the pairs are not strictly ascending by key hash.
    """
    root = EMPTY_ROOT
    for node in build(pairs):
        root = node.hash
    return root


class _Window:
    """The next pairs of the input: at least `LEAF_MAX` + 1 of them while there are so many."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._source = iter(pairs)
        self._pairs: list[Pair] = []
        self._keys: list[KeyHash] = []
        self._start = 0

    def fill(self) -> bool:
        """Read on if too few pairs are at hand; whether any are left."""
        if len(self._pairs) - self._start <= LEAF_MAX:
            # A leaf takes at most LEAF_MAX of more than that: a pair is left to check the next block's order against.
            self._pairs = [*self._pairs[self._start :], *islice(self._source, _BLOCK)]
            self._start = 0
            self._keys = [key for key, _ in self._pairs]
            if not all(map(lt, self._keys, islice(self._keys, 1, None))):
                raise InvalidInputError("The pairs are out of order.", hint="Sort by key hash; name each key once.")
        return self._start < len(self._pairs)

    @property
    def first(self) -> KeyHash:
        return self._keys[self._start]

    @property
    def ahead(self) -> KeyHash | None:
        """The key hash that would be one too many in a leaf with the first."""
        index = self._start + LEAF_MAX
        return self._keys[index] if index < len(self._keys) else None

    def take(self, first: KeyHash, depth: int) -> list[Pair]:
        """The pairs that share the first ``depth`` nibbles of the first one."""
        free = _KEY_BITS - 4 * depth
        bound = (int.from_bytes(first, "big") | ((1 << free) - 1)).to_bytes(32, "big")
        end = bisect_right(self._keys, bound, self._start, min(self._start + LEAF_MAX, len(self._keys)))
        taken = self._pairs[self._start : end]
        self._start = end
        return taken


class _Spine:
    """The inner nodes that are still open: those above the leaf added last, one a depth from the base on."""

    def __init__(self, *, base: int) -> None:
        self.last: KeyHash = b""
        self._base = base
        self._open: list[dict[int, Child]] = []

    @property
    def open_depth(self) -> int:
        """The depth of a child of the deepest open node."""
        return self._base + len(self._open)

    def add_leaf(self, pairs: list[Pair], depth: int) -> TrieNode:
        self._open.extend({} for _ in range(depth - self.open_depth))
        self.last = pairs[0][0]
        return self._node(leaf_body(pairs), count=len(pairs))

    def close_before(self, key: KeyHash) -> Iterator[TrieNode]:
        """Close the nodes that a key lies beyond."""
        shared = _shared_nibbles(self.last, key)
        while self._open and self.open_depth > shared + 1:
            yield self._close()

    def close_all(self) -> Iterator[TrieNode]:
        while self._open:
            yield self._close()

    def _close(self) -> TrieNode:
        inner = Inner(self._open.pop())
        return self._node(serialize(inner), count=inner.count)

    def _node(self, body: bytes, *, count: int) -> TrieNode:
        """A finished node below the deepest open one, which learns of it."""
        node = TrieNode(self.last.hex()[: self.open_depth], body, node_hash(body))
        if self._open:
            self._open[-1][nibble_at(self.last, self.open_depth - 1)] = Child(count, node.hash)
        return node


def _shared_nibbles(one: KeyHash, other: KeyHash) -> int:
    """How many leading nibbles two key hashes have in common."""
    difference = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return (_KEY_BITS - difference.bit_length()) // 4
