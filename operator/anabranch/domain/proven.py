"""A record as the manifest hash covers it, alone and with the proof that a manifest has exactly this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.domain.facts import Fact
from anabranch.domain.trie import Descriptor, Proof, verify
from anabranch.model.canonical import content_hash, hash_bytes, hash_text
from anabranch.model.errors import DigestMismatchError
from anabranch.model.objects import ManifestRef, PublishedFact
from anabranch.model.wire import Wire

if TYPE_CHECKING:
    from anabranch.model.canonical import ContentHash


class ProvenRecord(Wire):
    """A record, the manifest that has it, and the proof."""

    manifest: ManifestRef
    record: PublishedFact
    proof: Proof

    def check(self, root: ContentHash | str) -> None:
        """Check that the record, content and provenance included, is what the manifest with this root has.

        Returns only if so.

        Args:
            root: The manifest hash from a source that is trusted: not from this object.

        Raises:
            DigestMismatchError: If the content or the provenance is not what its hash names.
            InvalidProofError: If the proof does not lead from the root to the record.
        """
        check_digests(self.record)
        verify(self.proof, key=self.record.key, descriptor=descriptor_of(self.record), root=hash_bytes(root))


def check_digests(record: PublishedFact) -> None:
    """Check that a record's content and provenance are what its two hashes name.

    Raises:
        DigestMismatchError: If one is not.
    """
    fact = Fact(
        source_locators=record.source_locators,
        origin_runs=record.origin_runs,
        validated_at=record.validated_at,
        supersedes=tuple(map(int, record.supersedes)),
        retracted_sources=record.retracted_sources,
    )
    for what, found, claimed in (
        ("content", content_hash(record.content), record.content_hash),
        ("provenance", hash_text(fact.hash), record.fact_hash),
    ):
        if found != claimed:
            raise DigestMismatchError(
                f"The {what} of {record.key!r} has the hash {found}, not {claimed}.",
                hint="Read it again; if it stays, do not trust where it comes from.",
            )


def descriptor_of(record: PublishedFact) -> Descriptor:
    """What a manifest says of a record, from the hashes that it carries."""
    return Descriptor(
        key=record.key,
        revision=int(record.revision),
        scope=record.scope,
        content_hash=hash_bytes(record.content_hash),
        fact_hash=hash_bytes(record.fact_hash),
        tombstone=record.tombstone,
    )
