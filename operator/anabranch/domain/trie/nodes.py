"""The two kinds of node, their bytes, and how a node is found.

A node's body is what is hashed and what is stored, byte for byte: no second form of it exists that could disagree. The
hash of a body is taken under a tag of its kind, so no leaf can pose as an inner node or as a descriptor.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import lt
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.domain.trie.descriptor import KeyHash

Path: TypeAlias = str
"""The nibbles from the root to a node as lower-case hex digits: ``""`` is the root, ``"a3"`` its grandchild."""

Pair: TypeAlias = "tuple[KeyHash, bytes]"
"""A key hash and a descriptor hash, 32 bytes each."""

LEAF_MAX: Final = 64
"""A subtree of at most this many descriptors is one leaf; a larger one is an inner node."""

MAX_DEPTH: Final = 64
"""The nibbles of a key hash: no node is deeper."""

PREFETCH_DEPTH: Final = 6
"""Leaves of evenly spread keys lie at most this deep up to some 500 million records (16^6 leaves of 30)."""

EMPTY_BODY: Final = b""
"""The body of the root of a trie without descriptors. No other node is empty."""

_LEAF: Final = 0x01
_INNER: Final = 0x02
_TAGS: Final[dict[int | None, bytes]] = {
    None: b"anabranch.trie.empty.v1\x00",
    _LEAF: b"anabranch.trie.leaf.v1\x00",
    _INNER: b"anabranch.trie.inner.v1\x00",
}
_KIND_LEAF: Final = bytes([_LEAF])
_PAIR: Final = struct.Struct("32s32s")
_HEAD: Final = struct.Struct(">BH")
_CHILD: Final = struct.Struct(">I32s")


class CorruptNodeError(AnabranchError):
    """A stored node is not what the trie's rules or its parent's hash say: the table was altered or torn."""

    code: ClassVar[str] = "CorruptNode"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The trie node at path {path!r} {reason}.",
            hint="Read all nodes at one generation; if it stays, rebuild the trie from the records.",
        )
        self.path = path


class MissingNodesError(AnabranchError):
    """Nodes that exist were not handed over; fetch `paths` too and call again."""

    code: ClassVar[str] = "MissingNodes"

    def __init__(self, paths: frozenset[Path]) -> None:
        super().__init__(
            f"{len(paths)} trie nodes were not fetched.", hint="Fetch the paths that the error names, and call again."
        )
        self.paths = paths


class TrieNode(NamedTuple):
    """A node as it is stored.

    Attributes:
        path: Its place.
        body: Its bytes.
        hash: `node_hash` of the body, 32 bytes.
    """

    path: Path
    body: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Child:
    """What an inner node knows of a child: how many descriptors are below it, and its hash (32 bytes)."""

    count: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """At most `LEAF_MAX` pairs in ascending order of the key hash; none only at the root of an empty trie."""

    pairs: tuple[Pair, ...] = ()

    @property
    def count(self) -> int:
        """How many descriptors it holds."""
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class Inner:
    """The children that are not empty, by nibble (0 to 15), with more than `LEAF_MAX` descriptors in all."""

    children: Mapping[int, Child] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many descriptors are below it."""
        return sum(child.count for child in self.children.values())


Node: TypeAlias = Leaf | Inner


def leaf_body(pairs: Iterable[Pair]) -> bytes:
    """The body of a leaf of at least one pair; the pairs must be in order."""
    return _KIND_LEAF + b"".join(chain.from_iterable(pairs))


def serialize(node: Node) -> bytes:
    """The body of a node: at most 4,097 bytes for a leaf and 579 for an inner node."""
    if isinstance(node, Leaf):
        return leaf_body(node.pairs) if node.pairs else EMPTY_BODY
    bitmap = sum(1 << nibble for nibble in node.children)
    return _HEAD.pack(_INNER, bitmap) + b"".join(
        _CHILD.pack(child.count, child.hash) for _, child in sorted(node.children.items())
    )


def parse(body: bytes, *, path: Path = "") -> Node:
    """Read a body, and hold it to every rule that it can break by itself.

    Args:
        body: A stored or received body.
        path: Where it stands; it must fit there, and is named in the error.

    Raises:
        CorruptNodeError: If the body is not the one serialization of a node at this path.
    """
    if body == EMPTY_BODY:
        if path:
            raise CorruptNodeError(path, "is empty below the root")
        return Leaf()
    if body[0] == _LEAF:
        return _parse_leaf(body, path)
    if body[0] == _INNER:
        return _parse_inner(body, path)
    raise CorruptNodeError(path, f"has the unknown kind {body[0]:#04x}")


def node_hash(body: bytes) -> bytes:
    """The hash of a node, 32 bytes: SHA-256 over the tag of its kind and its body.

    Raises:
        CorruptNodeError: If the body is of no known kind.
    """
    kind = body[0] if body else None
    if kind not in _TAGS:
        raise CorruptNodeError("", f"has the unknown kind {kind:#04x}")
    return hashlib.sha256(_TAGS[kind] + body).digest()


EMPTY_ROOT: Final = node_hash(EMPTY_BODY)
"""The root hash of a trie without descriptors."""


def nibble_at(key: KeyHash, depth: int) -> int:
    """The nibble (0 to 15) of a key hash that chooses the child of a node at this depth (0 to 63)."""
    byte = key[depth >> 1]
    return byte & 15 if depth & 1 else byte >> 4


def prefixes(keys: Iterable[KeyHash], *, depth: int = PREFETCH_DEPTH) -> set[Path]:
    """The paths of all nodes that may lie between the root and these key hashes, down to a depth.

    One query for these rows serves `update` and `prove`; the paths below a leaf have no row. Nodes deeper than that,
    which only crafted keys cause, are named by a `MissingNodesError`.
    """
    return {digits[:length] for digits in map(bytes.hex, keys) for length in range(depth + 1)}


def _parse_leaf(body: bytes, path: Path) -> Leaf:
    count, rest = divmod(len(body) - 1, _PAIR.size)
    if rest or not 1 <= count <= LEAF_MAX:
        raise CorruptNodeError(path, f"is a leaf of {len(body)} bytes")
    pairs: tuple[Pair, ...] = tuple(_PAIR.iter_unpack(memoryview(body)[1:]))
    keys = [key for key, _ in pairs]
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise CorruptNodeError(path, "has pairs out of order")
    # In order, so all keys are below the path if the first and the last are.
    if not (keys[0].hex().startswith(path) and keys[-1].hex().startswith(path)):
        raise CorruptNodeError(path, "holds a key of another path")
    return Leaf(pairs)


def _parse_inner(body: bytes, path: Path) -> Inner:
    if len(body) < _HEAD.size:
        raise CorruptNodeError(path, "is torn")
    if len(path) == MAX_DEPTH:
        raise CorruptNodeError(path, "has children below the last nibble")
    _, bitmap = _HEAD.unpack_from(body)
    nibbles = [nibble for nibble in range(16) if bitmap >> nibble & 1]
    if len(body) != _HEAD.size + len(nibbles) * _CHILD.size:
        raise CorruptNodeError(path, "has another number of children than its bitmap")
    children = (Child(count, digest) for count, digest in _CHILD.iter_unpack(memoryview(body)[_HEAD.size :]))
    node = Inner(dict(zip(nibbles, children, strict=True)))
    if node.count <= LEAF_MAX or not all(child.count for child in node.children.values()):
        raise CorruptNodeError(path, "counts too few descriptors")
    return node
