"""What the manifest hash says about one record: which revision of which key, where it is visible, and two digests.

A descriptor stands for a record wherever the record itself may not go. Content and facts enter by digest only, so a
proof shows that a record is in a manifest without showing any other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, TypeAlias

from anabranch.model.canonical import PREFIX, canonical_bytes, sha256
from anabranch.model.errors import InvalidInputError

KeyHash: TypeAlias = bytes
"""SHA-256 of a key's UTF-8 bytes: 32 bytes, the record's place in the trie."""

NULL_HASH: Final = sha256(canonical_bytes(None))
"""The content hash of JSON null, which is the content of every tombstone."""

_TAG: Final = b"anabranch.trie.descriptor.v1\x00"

_quoted: Final = json.encoder.encode_basestring


def key_hash(key: str) -> KeyHash:
    """Where a key stands in the trie: the 32 bytes of SHA-256 over its UTF-8 form."""
    return hashlib.sha256(key.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """One record of a manifest, as the manifest hash covers it.

    Attributes:
        key: The record's key, well-formed Unicode.
        revision: The line's revision that wrote it, at least 0. A decimal string in the canonical form.
        scope: The scope it is visible in.
        content_hash: SHA-256 of the content's canonical bytes, 32 bytes; `NULL_HASH` for a tombstone.
        fact_hash: SHA-256 over what is known of its origin, 32 bytes.
        tombstone: Whether this revision deletes the key. A tombstone is a descriptor like others until it is purged.

    Raises:
        InvalidInputError: If a hash is not 32 bytes, the revision is negative, or a tombstone has content.
    """

    key: str
    revision: int
    scope: str
    content_hash: bytes
    fact_hash: bytes
    tombstone: bool = False

    def __post_init__(self) -> None:
        if len(self.content_hash) != 32 or len(self.fact_hash) != 32:
            raise InvalidInputError("A descriptor's hash is not 32 bytes.", hint="Pass raw SHA-256 digests.")
        if self.revision < 0:
            raise InvalidInputError(f"Revision {self.revision} is negative.", hint="Revisions start at 0.")
        if self.tombstone and self.content_hash != NULL_HASH:
            raise InvalidInputError("A tombstone has content.", hint="The content hash of a tombstone is that of null.")

    @property
    def key_hash(self) -> KeyHash:
        """Where this record stands in the trie, 32 bytes."""
        return key_hash(self.key)

    def canonical(self) -> bytes:
        """The RFC 8785 bytes that the hash covers."""
        # Written out, because the general writer takes ten times as long: a quarter of a minute more for an import of a
        # million records. The members are in order, and only two of the values can hold what needs quoting.
        return (
            f'{{"content_hash":"{PREFIX}{self.content_hash.hex()}","fact_hash":"{PREFIX}{self.fact_hash.hex()}",'
            f'"key":{_quoted(self.key)},"revision":"{self.revision}","scope":{_quoted(self.scope)},'
            f'"tombstone":{"true" if self.tombstone else "false"}}}'
        ).encode()

    @property
    def hash(self) -> bytes:
        """The descriptor's hash, 32 bytes: what a leaf pairs with the key hash."""
        return hashlib.sha256(_TAG + self.canonical()).digest()

    @property
    def pair(self) -> tuple[KeyHash, bytes]:
        """The key hash and the descriptor's hash: all that the trie keeps of a record."""
        return self.key_hash, self.hash
