"""Proof that one record is in a manifest, or that a key is not, for somebody who holds only the manifest hash.

A proof is the bodies on the path from the root to where the key must be. It names no neighbour: what stands beside the
record are hashes of keys and of descriptors. The verifier trusts nothing but the root: the path follows from the key,
and each body must have the hash and the count that the one above it states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from anabranch.domain.trie.descriptor import KeyHash, key_hash
from anabranch.domain.trie.nodes import (
    MAX_DEPTH,
    CorruptNodeError,
    Inner,
    Leaf,
    MissingNodesError,
    Path,
    nibble_at,
    node_hash,
    parse,
)
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.domain.trie.descriptor import Descriptor


class InvalidProofError(AnabranchError):
    """The proof does not show what it is asked to show."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "InvalidProof"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The proof fails: {reason}.", hint="Check the key, the record and the manifest hash.")


class Proof(BaseModel):
    """A proof of presence or of absence; the model is its wire form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["anabranch.proof.v1"] = "anabranch.proof.v1"
    nodes: tuple[Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$", max_length=2 * 4097)], ...] = Field(
        min_length=1,
        max_length=MAX_DEPTH + 1,
        description="The bodies of the nodes from the root towards the key, in lower-case hex.",
    )


def prove(nodes: Mapping[Path, bytes], key: KeyHash) -> Proof:
    """Prove that a key hash is in a trie or is not: whichever holds.

    Args:
        nodes: Bodies by path, all of one generation: those of `prefixes` of the key that exist. More do no harm.
        key: The 32 bytes of `key_hash`.

    Raises:
        MissingNodesError: Naming the node to fetch as well.
        CorruptNodeError: If a node's body is none.
    """
    bodies: list[bytes] = []
    digits = key.hex()
    while True:
        path = digits[: len(bodies)]
        if path not in nodes:
            raise MissingNodesError(frozenset({path}))
        bodies.append(nodes[path])
        node = parse(nodes[path], path=path)
        if isinstance(node, Leaf) or nibble_at(key, len(path)) not in node.children:
            return Proof(nodes=tuple(map(bytes.hex, bodies)))


def verify(proof: Proof, *, key: str, descriptor: Descriptor | None, root: bytes) -> None:
    """Check a proof; returns only if it holds.

    Args:
        proof: What `prove` gave.
        key: The record's key.
        descriptor: What the manifest must say of the key, or None if it must not have the key. A key that was deleted
            and is not purged yet has a descriptor, with ``tombstone``.
        root: The manifest hash, 32 bytes.

    Raises:
        InvalidProofError: With the reason.
    """
    if descriptor is not None and descriptor.key != key:
        raise InvalidProofError(f"the descriptor is of the key {descriptor.key!r}")
    place = key_hash(key)
    try:
        found = _follow([bytes.fromhex(body) for body in proof.nodes], place, root)
    except CorruptNodeError as error:
        raise InvalidProofError(error.detail.rstrip(".")) from None
    if descriptor is None and found is not None:
        raise InvalidProofError("the manifest has the key")
    if descriptor is not None and found is None:
        raise InvalidProofError("the manifest has not the key")
    if descriptor is not None and found != descriptor.hash:
        raise InvalidProofError("the manifest has another record under the key")


def _follow(bodies: list[bytes], place: KeyHash, root: bytes) -> bytes | None:
    """The descriptor hash that the path leads to, or None where the key is absent."""
    digits = place.hex()
    expected, count = root, None
    for depth, body in enumerate(bodies):
        if node_hash(body) != expected:
            raise InvalidProofError(f"the node at depth {depth} has another hash")
        node = parse(body, path=digits[:depth])
        if count not in (None, node.count):
            raise InvalidProofError(f"the node at depth {depth} has another count")
        child = node.children.get(nibble_at(place, depth)) if isinstance(node, Inner) else None
        if child is None:
            if depth + 1 != len(bodies):
                raise InvalidProofError("nodes follow after the end of the path")
            return dict(node.pairs).get(place) if isinstance(node, Leaf) else None
        expected, count = child.hash, child.count
    raise InvalidProofError("it ends before the end of the path")
