"""A record together with the proof that a manifest has exactly this one: all that a holder of the root needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.domain.trie import Descriptor, Proof, verify
from anabranch.model.canonical import content_hash, hash_bytes
from anabranch.model.errors import DigestMismatchError
from anabranch.model.objects import ManifestRef, PublishedFact, Wire

if TYPE_CHECKING:
    from anabranch.model.canonical import ContentHash


class ProvenRecord(Wire):
    """A record, the manifest that has it, and the proof."""

    manifest: ManifestRef
    record: PublishedFact
    proof: Proof

    def check(self, root: ContentHash | str) -> None:
        """Check that the record, content included, is what the manifest with this root has; returns only if so.

        Args:
            root: The manifest hash from a source that is trusted: not from this object.

        Raises:
            DigestMismatchError: If the content is not what its hash names.
            InvalidProofError: If the proof does not lead from the root to the record.
        """
        record = self.record
        if (found := content_hash(record.content)) != record.content_hash:
            raise DigestMismatchError(
                f"The content of {record.key!r} has the hash {found}, not {record.content_hash}.",
                hint="Read it again; if it stays, do not trust the server.",
            )
        descriptor = Descriptor(
            key=record.key,
            revision=int(record.revision),
            scope=record.scope,
            content_hash=hash_bytes(record.content_hash),
            fact_hash=hash_bytes(record.fact_hash),
            tombstone=record.tombstone,
        )
        verify(self.proof, key=record.key, descriptor=descriptor, root=hash_bytes(root))
