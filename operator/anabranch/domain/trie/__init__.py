"""The manifest hash: a 16-ary Merkle trie over the SHA-256 of record keys.

A manifest of a million records must be published in the time that its hundred changes take, one record of it must be
provable to somebody who holds nothing but the root, and an export with withheld records must still recompute that
root. A hash over a list gives none of these, a Merkle trie all three. It is history independent: the root and the
nodes depend on the set of descriptors alone, so whoever rebuilds it from the records arrives at the same bytes.

Nothing here reads or writes: `build` turns sorted pairs into nodes, `update` turns the nodes on the paths of some
changes into new ones, `prove` and `verify` handle one record. The store keeps the nodes by path. The bytes are fixed in
``docs/spec/manifest-hash.md``.
"""

from anabranch.domain.trie.build import build, root_of
from anabranch.domain.trie.descriptor import NULL_HASH, Descriptor, KeyHash, key_hash
from anabranch.domain.trie.nodes import (
    EMPTY_BODY,
    EMPTY_ROOT,
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
    node_hash,
    parse,
    prefixes,
    serialize,
)
from anabranch.domain.trie.proof import InvalidProofError, Proof, prove, verify
from anabranch.domain.trie.update import TrieDelta, update

__all__ = [
    "EMPTY_BODY",
    "EMPTY_ROOT",
    "LEAF_MAX",
    "NULL_HASH",
    "Child",
    "CorruptNodeError",
    "Descriptor",
    "Inner",
    "InvalidProofError",
    "KeyHash",
    "Leaf",
    "MissingNodesError",
    "Node",
    "Pair",
    "Path",
    "Proof",
    "TrieDelta",
    "TrieNode",
    "build",
    "key_hash",
    "node_hash",
    "parse",
    "prefixes",
    "prove",
    "root_of",
    "serialize",
    "update",
    "verify",
]
