"""The nodes that some changes make new, from the nodes on the paths of the changed keys.

A publication touches a hundred records of a million, so it may neither read nor write more than their paths. The one
exception is a collapse: when deletions leave an inner node with at most 64 descriptors it becomes a leaf, and
its children, which are leaves by then, must be read to be merged. Only the walk itself finds out, so `update` raises
`MissingNodesError` with all the paths that it lacks. The store fetches those too and calls again::

    nodes = fetch(prefixes(changes))
    while True:
        try:
            return update(nodes, changes, root=root)
        except MissingNodesError as error:
            nodes |= fetch(error.paths)

If the first fetch brought every node on the paths of the changes, the second call succeeds.

Each node is checked against the hash that its parent has of it, up to the root: nodes read at two generations, or
altered in the table, cause an error and never a wrong root.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from anabranch.domain.trie.build import build
from anabranch.domain.trie.nodes import (
    LEAF_MAX,
    Child,
    CorruptNodeError,
    Inner,
    Leaf,
    MissingNodesError,
    Node,
    Pair,
    Path,
    TrieNode,
    nibble_at,
    node_hash,
    parse,
    serialize,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anabranch.domain.trie.descriptor import KeyHash

    Changes = Mapping[KeyHash, bytes | None]
    Change = tuple[KeyHash, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrieDelta:
    """What to write so that the stored trie covers the changes.

    Attributes:
        puts: The nodes that are new or have another body, by path. Nothing that stays as it was is among them.
        removed: The paths that had a node and have none any more; none of them is in ``puts``.
        root: The new root hash, 32 bytes.
        count: How many descriptors the trie holds now, tombstones included.
    """

    puts: Mapping[Path, TrieNode]
    removed: frozenset[Path]
    root: bytes
    count: int


def update(nodes: Mapping[Path, bytes], changes: Changes, *, root: bytes) -> TrieDelta:
    """Apply changes to a trie.

    Args:
        nodes: Bodies by path: those of `prefixes` of the changed keys that exist, and those that a `MissingNodesError`
            named. More of the same generation do no harm. A trie without descriptors is ``{"": EMPTY_BODY}``.
        changes: The new descriptor hash of each changed key hash, or None to take the key out. A key that is not there
            may be taken out, and a hash may equal the old one: both change nothing.
        root: The root hash of the generation that the nodes are of, 32 bytes.

    Raises:
        MissingNodesError: Naming the nodes to fetch as well.
        CorruptNodeError: If the nodes do not hang together up to ``root``.
    """
    walk = _Walk(nodes)
    count, new_root = walk.run(sorted(changes.items(), key=lambda change: change[0]), root)
    if walk.missing:
        raise MissingNodesError(frozenset(walk.missing))
    return TrieDelta(puts=walk.puts, removed=frozenset(walk.removed), root=new_root, count=count)


@dataclass(frozen=True, slots=True)
class _Subtree:
    """A subtree after the changes. Where nodes are missing, the count is the best known and the node means nothing."""

    count: int
    node: Node


_UNKNOWN: Final = Leaf()


class _Walk:
    """One descent along the paths of the changes.

    A node is put by its parent, once that knows that it does not absorb the node in a collapse. After a missing node
    the walk goes on, to name all that are missing at once; then what it puts means nothing.
    """

    def __init__(self, nodes: Mapping[Path, bytes]) -> None:
        self.puts: dict[Path, TrieNode] = {}
        self.removed: set[Path] = set()
        self.missing: set[Path] = set()
        self._nodes = nodes
        self._loaded: dict[Path, bytes] = {}

    def run(self, changes: Sequence[Change], root: bytes) -> tuple[int, bytes]:
        """The count and the root hash after the changes, which are in order of the key hash."""
        before = self._load("", root)
        if before is None:
            return 0, root
        after = self._apply("", before, changes)
        return after.count, self._put("", after.node)

    def _load(self, path: Path, expected: bytes) -> Node | None:
        body = self._nodes.get(path)
        if body is None:
            self.missing.add(path)
            return None
        if node_hash(body) != expected:
            raise CorruptNodeError(path, "has not the hash that stands above it")
        self._loaded[path] = body
        return parse(body, path=path)

    def _load_child(self, path: Path, child: Child) -> Node | None:
        node = self._load(path, child.hash)
        if node is not None and node.count != child.count:
            raise CorruptNodeError(path, f"holds {node.count} descriptors, and {child.count} by its parent")
        return node

    def _visit(self, path: Path, child: Child | None, changes: Sequence[Change]) -> _Subtree:
        if child is None:
            return self._apply(path, Leaf(), changes)
        node = self._load_child(path, child)
        return _Subtree(child.count, _UNKNOWN) if node is None else self._apply(path, node, changes)

    def _apply(self, path: Path, node: Node, changes: Sequence[Change]) -> _Subtree:
        return self._merge(path, node, changes) if isinstance(node, Leaf) else self._descend(path, node, changes)

    def _merge(self, path: Path, leaf: Leaf, changes: Sequence[Change]) -> _Subtree:
        """Change a leaf, and split it if it grows too large."""
        merged = dict(leaf.pairs)
        for key, descriptor in changes:
            if descriptor is None:
                merged.pop(key, None)
            else:
                merged[key] = descriptor
        pairs = tuple(sorted(merged.items()))
        if len(pairs) <= LEAF_MAX:
            return _Subtree(len(pairs), Leaf(pairs))
        *below, top = build(pairs, path=path)
        self.puts.update((node.path, node) for node in below)
        return _Subtree(len(pairs), parse(top.body, path=path))

    def _descend(self, path: Path, inner: Inner, changes: Sequence[Change]) -> _Subtree:
        """Change the children that the changes lie in, and collapse if too little is left."""
        changed = {
            nibble: self._visit(_below(path, nibble), inner.children.get(nibble), list(group))
            for nibble, group in groupby(changes, key=lambda change: nibble_at(change[0], len(path)))
        }
        children = {nibble: child for nibble, child in inner.children.items() if nibble not in changed}
        count = sum(child.count for child in children.values()) + sum(subtree.count for subtree in changed.values())
        if count <= LEAF_MAX:
            self.removed.update(_below(path, nibble) for nibble in inner.children)
            kept = [self._load_child(_below(path, nibble), child) for nibble, child in children.items()]
            return _Subtree(count, _joined([*kept, *(subtree.node for subtree in changed.values())]))
        for nibble, subtree in changed.items():
            if subtree.count:
                children[nibble] = Child(subtree.count, self._put(_below(path, nibble), subtree.node))
            elif nibble in inner.children:
                self.removed.add(_below(path, nibble))
        return _Subtree(count, Inner(children))

    def _put(self, path: Path, node: Node) -> bytes:
        """Note a node's body unless it is the old one; its hash."""
        body = serialize(node)
        new = TrieNode(path, body, node_hash(body))
        if self._loaded.get(path) != body:
            self.puts[path] = new
        return new.hash


def _below(path: Path, nibble: int) -> Path:
    return f"{path}{nibble:x}"


def _joined(nodes: Iterable[Node | None]) -> Leaf:
    """One leaf of several; a subtree that is small enough to be in it is a leaf already."""
    pairs: list[Pair] = []
    for node in nodes:
        if isinstance(node, Leaf):
            pairs.extend(node.pairs)
    return Leaf(tuple(sorted(pairs)))
