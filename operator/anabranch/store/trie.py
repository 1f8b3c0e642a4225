"""The trie's nodes in the database: fetched by path, many at a time.

A node is an interval of generations, as a record's version is, so one query brings every node on the paths of a hundred
changed keys as of any retained generation. What the nodes mean is `anabranch.domain.trie`'s business.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain import trie
from anabranch.store import greenlets, manifests, queries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence

    from anabranch.store.database import Connection
    from anabranch.store.manifests import ManifestRow

_sql: Final = queries.load("trie")

_PATHS: Final = 20_000
"""Paths a query."""

_ROWS: Final = 2_000
"""Records a fetch, where a whole trie is built: some 15 ms of hashing between two awaits."""

_FULL_LEAF: Final = 40
"""Mean size of a leaf from which some of its siblings are split already."""

_WORTH_A_THREAD: Final = 2_000
"""Changes from which hashing them would keep the event loop for too long."""


async def nodes(
    conn: Connection, *, line: str, generation: int, paths: Collection[trie.Path]
) -> dict[trie.Path, bytes]:
    """The bodies of the nodes at some paths, as of a generation; a path that has none is left out."""
    wanted = sorted(paths)
    found: dict[trie.Path, bytes] = {}
    for start in range(0, len(wanted), _PATHS):
        some = _sql.nodes(conn, line=line, generation=generation, paths=wanted[start : start + _PATHS])
        found.update([(row["path"], row["body"]) async for row in some])
    return found


async def plan(
    conn: Connection, *, manifest: ManifestRow, changes: Mapping[trie.KeyHash, bytes | None]
) -> trie.TrieDelta:
    """What a generation after this one must write so that the trie covers some changes.

    It reads one generation only, so it needs no lock: whether that is still the head is asked later, under the lock.

    Args:
        conn: A connection.
        manifest: The generation to go on from.
        changes: The new descriptor hash by key hash; None takes a key out.

    Raises:
        CorruptNodeError: If the stored nodes do not hang together up to the manifest's hash.
        GoneError: If the generation was pruned meanwhile.
    """
    line, generation = manifest.line, manifest.generation
    paths = trie.prefixes(changes, depth=_likely_depth(manifest.records))
    known = await nodes(conn, line=line, generation=generation, paths=paths)
    while True:
        try:
            if len(changes) < _WORTH_A_THREAD:
                return trie.update(known, changes, root=manifest.manifest_hash)
            return await asyncio.to_thread(trie.update, known, changes, root=manifest.manifest_hash)
        except trie.MissingNodesError as error:
            known |= await _missing(conn, line=line, generation=generation, error=error)


async def prove(conn: Connection, *, line: str, generation: int, key: str) -> trie.Proof:
    """The proof that a generation has a record of this key, or has none.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    place = trie.key_hash(key)
    known = await nodes(conn, line=line, generation=generation, paths=trie.prefixes([place]))
    # Asked afterwards: a generation that is still retained had all its nodes when they were read.
    await manifests.resolve(conn, line=line, ref=generation)
    while True:
        try:
            return trie.prove(known, place)
        except trie.MissingNodesError as error:
            known |= await _missing(conn, line=line, generation=generation, error=error)


async def recompute_root(conn: Connection, *, line: str, generation: int) -> bytes:
    """The root hash that the records of a generation have now: equal to its manifest's hash, or the table was altered.

    Memory is bounded, whatever their number.

    Args:
        conn: Inside a transaction, whose settings change for it.
        line: The line.
        generation: A retained one.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    await manifests.resolve(conn, line=line, ref=generation)
    await _sql.relax(conn)
    async with _sql.descriptors_cursor(conn, line=line, generation=generation, without=[]) as cursor:
        rows = await cursor
        # The trie is built by a generator that asks for pairs; here it may wait for Postgres in between.
        root: bytes = await greenlets.run(trie.root_of, _pairs(rows))
    # Pruned meanwhile, it would have lost some of its records.
    await manifests.resolve(conn, line=line, ref=generation)
    return root


async def pairs_outside(
    conn: Connection, *, line: str, generation: int, scopes: Sequence[str]
) -> AsyncGenerator[list[trie.Pair], None]:
    """What the trie keeps of the records outside of some scopes, deleted ones too, in its order, many at a time.

    Memory is bounded, whatever their number.

    Args:
        conn: Inside a transaction, whose settings change for it.
        line: The line.
        generation: A retained one.
        scopes: Of the records to be left out.

    Raises:
        GoneError: If the generation was pruned; perhaps only at the end.
        NotFoundError: If there never was such a generation, or line.
    """
    await manifests.resolve(conn, line=line, ref=generation)
    await _sql.relax(conn)
    async with _sql.descriptors_cursor(conn, line=line, generation=generation, without=list(scopes)) as cursor:
        rows = await cursor
        while some := await rows.fetch(_ROWS):
            yield [trie.Descriptor(**row).pair for row in some]
    # Pruned meanwhile, it would have lost some of its records.
    await manifests.resolve(conn, line=line, ref=generation)


def _pairs(rows: Any) -> Iterator[trie.Pair]:
    while some := greenlets.wait(rows.fetch(_ROWS)):
        for row in some:
            yield trie.Descriptor(**row).pair


async def _missing(
    conn: Connection, *, line: str, generation: int, error: trie.MissingNodesError
) -> dict[trie.Path, bytes]:
    found = await nodes(conn, line=line, generation=generation, paths=error.paths)
    if found.keys() != error.paths:
        # Nodes go after their manifest: if that was pruned meanwhile, this is why they are missing.
        await manifests.resolve(conn, line=line, ref=generation)
        raise error
    return found


def _likely_depth(records: int) -> int:
    """How deep leaves mostly are among so many records; a deeper one costs a second query."""
    depth = 0
    while 16**depth * _FULL_LEAF < records:
        depth += 1
    return depth
