"""Writes what a generation changes: versions of records, their provenance, and the nodes of the trie.

Versions and nodes are intervals of generations: the one that held until now ends where the new one begins. Both steps
run under the head's lock, and neither decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from anabranch.domain import trie
from anabranch.model.canonical import sha256
from anabranch.model.errors import UnavailableError
from anabranch.store import contents, queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.store.database import Connection

_sql: Final = queries.load("versions")


@dataclass(frozen=True, kw_only=True)
class NewVersion:
    """A version of a record that a generation brings.

    Attributes:
        key: The record's key.
        scope: Where it is visible.
        content_hash: SHA-256 of the content's canonical bytes; `trie.NULL_HASH` for a tombstone.
        content_body: The content's canonical bytes; None for a tombstone, and where they are stored already.
        fact_body: The provenance's canonical bytes.
        tombstone: Whether it deletes the key.
    """

    key: str
    scope: str
    content_hash: bytes
    content_body: bytes | None = None
    fact_body: bytes
    tombstone: bool = False

    @cached_property
    def fact_hash(self) -> bytes:
        """SHA-256 of the provenance."""
        return sha256(self.fact_body)

    def pair(self, revision: int) -> trie.Pair:
        """Key hash and descriptor hash of this version as the given revision."""
        return trie.Descriptor(
            key=self.key,
            revision=revision,
            scope=self.scope,
            content_hash=self.content_hash,
            fact_hash=self.fact_hash,
            tombstone=self.tombstone,
        ).pair


async def write(conn: Connection, *, line: str, generation: int, revision: int, new: Sequence[NewVersion]) -> int:
    """End the versions that some keys had, and begin new ones; gives how many live records there are more.

    Args:
        conn: Inside the transaction that holds the head's lock.
        line: The line.
        generation: Where the old ones end and the new ones begin.
        revision: Of the new ones.
        new: The new ones, one a key.

    Raises:
        UnavailableError: If the content of one is not stored.
    """
    keys = [version.key for version in new]
    ended = await end(conn, line=line, generation=generation, keys=keys)
    bodies = {version.content_hash: version.content_body for version in new if version.content_body is not None}
    await contents.put_many(conn, line=line, bodies=bodies)
    await add_facts(conn, line=line, bodies={version.fact_hash: version.fact_body for version in new})
    tag = await _sql.open_versions(
        conn,
        line=line,
        generation=generation,
        revision=revision,
        keys=keys,
        scopes=[version.scope for version in new],
        content_hashes=[version.content_hash for version in new],
        fact_hashes=[version.fact_hash for version in new],
        tombstones=[version.tombstone for version in new],
    )
    if missing := len(new) - queries.touched(tag):
        raise UnavailableError(
            f"The content of {missing} accepted records is not stored.",
            hint="It was removed as unused; submit the findings again.",
        )
    return sum(not version.tombstone for version in new) - ended


async def end(conn: Connection, *, line: str, generation: int, keys: Sequence[str]) -> int:
    """End the versions that some keys have; how many of them were of live records.

    Args:
        conn: Inside the transaction that holds the head's lock.
        line: The line.
        generation: Where they end.
        keys: Which; one that has no version is passed over.
    """
    ended = _sql.close_versions(conn, line=line, generation=generation, keys=list(keys))
    return sum([not row["tombstone"] async for row in ended])


async def add_facts(conn: Connection, *, line: str, bodies: Mapping[bytes, bytes]) -> None:
    """Store provenance (canonical bytes by their SHA-256), each once."""
    if bodies:
        await _sql.add_facts(conn, line=line, hashes=list(bodies), bodies=list(bodies.values()))


async def write_nodes(conn: Connection, *, line: str, generation: int, delta: trie.TrieDelta) -> None:
    """End the nodes that a change of the trie replaces or removes, and begin the new ones.

    Args:
        conn: Inside the transaction that holds the head's lock.
        line: The line.
        generation: Where the old ones end and the new ones begin.
        delta: The change, as planned against the generation before.
    """
    nodes = delta.puts.values()
    await _sql.close_nodes(conn, line=line, generation=generation, paths=[*delta.puts, *delta.removed])
    await _sql.open_nodes(
        conn,
        line=line,
        generation=generation,
        paths=[node.path for node in nodes],
        hashes=[node.hash for node in nodes],
        bodies=[node.body for node in nodes],
    )
