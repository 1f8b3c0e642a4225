"""Recomputes a manifest's root on this side of the API, so that nobody has to take the service's word for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.domain.trie import Descriptor, root_of
from anabranch.model.canonical import content_hash, hash_bytes, hash_text

if TYPE_CHECKING:
    from anabranch.cli.connection import Connection
    from anabranch.model.objects import PublishedFact


async def verify(connection: Connection, name: str, generation: int | None) -> dict[str, Any]:
    """Read every record of a manifest and compare content hashes and root with what the manifest claims.

    Returns:
        What was found: ``verified`` is true only where every record was read, every content is what its hash says, and
        the roots are equal.
    """
    async with connection.client() as client:
        manifest = await client.manifest(connection.namespace, name, generation or "current")
        altered: list[str] = []
        descriptors: list[Descriptor] = []
        async for fact in client.records(connection.namespace, name, manifest.generation, tombstones=True):
            if content_hash(fact.content) != fact.content_hash:
                altered.append(fact.key)
            descriptors.append(_descriptor(fact))
    root = hash_text(root_of(sorted(descriptor.pair for descriptor in descriptors)))
    live = sum(not descriptor.tombstone for descriptor in descriptors)
    result = {
        "baseline": f"{connection.namespace}/{name}",
        "generation": manifest.generation,
        "manifestHash": manifest.manifest_hash,
        "computed": root,
        "records": live,
        "verified": root == manifest.manifest_hash and not altered,
    }
    if altered:
        result["altered"] = altered
    if live < manifest.records:
        result["note"] = (
            f"{manifest.records - live} of {manifest.records} records are in scopes that this token may not read: "
            "the root cannot be recomputed without them."
        )
    return result


def _descriptor(fact: PublishedFact) -> Descriptor:
    return Descriptor(
        key=fact.key,
        revision=int(fact.revision),
        scope=fact.scope,
        content_hash=hash_bytes(fact.content_hash),
        fact_hash=hash_bytes(fact.fact_hash),
        tombstone=fact.tombstone,
    )
