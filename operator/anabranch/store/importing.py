"""All records of a line at once, from a stream of them: by COPY, in bounded memory, in one transaction.

That is the first generation of a line that is imported, or the one from which a line goes on that comes from a backup.

A million records take well under a minute and no more memory than a few thousand of them: versions go to the table as
they come, the trie's pairs to a file, and the trie is then built from the pairs in their order. Each batch is made
ready while Postgres takes in the one before. Nobody sees anything of it before the commit, and nothing is left of an
import that fails.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import asyncpg

from anabranch.domain import trie
from anabranch.model.canonical import sha256
from anabranch.model.errors import ConflictError, InvalidInputError, TooLargeError
from anabranch.model.limits import LINE_RECORDS
from anabranch.store import contents, lines, publish, queries, versions
from anabranch.store.pairs import SortedPairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from anabranch.store.database import Connection, Database
    from anabranch.store.manifests import ManifestRow

    _Add = Callable[..., Awaitable[None]]

_T = TypeVar("_T")

_sql: Final = queries.load("importing")

_BATCH: Final = 5_000
_BATCH_BYTES: Final = 16 << 20
_NODES: Final = 2_000
_FACTS_KNOWN: Final = 50_000
"""Hashes of provenance that is stored already and not sent again: records of one document mostly share it."""

_VERSION_COLUMNS: Final = (
    "line", "key", "from_generation", "revision", "scope", "content_hash", "fact_hash", "tombstone",
)  # fmt: skip
_NODE_COLUMNS: Final = ("line", "path", "from_generation", "hash", "body")


class DuplicateKeyError(InvalidInputError):
    """Two records of an import have the same key."""

    code = "DuplicateKey"


class ImportRecord(NamedTuple):
    """A record to import; a named tuple, since a million of them are made.

    Attributes:
        key: Its key.
        scope: Where it is visible.
        content_hash: SHA-256 of the content's canonical bytes.
        content_body: Those bytes.
        fact_body: The provenance's canonical bytes.
        revision: The line's revision that brought it.
        tombstone: Whether the key is deleted; its content is none, and not stored.
    """

    key: str
    scope: str
    content_hash: bytes
    content_body: bytes
    fact_body: bytes
    revision: int = 1
    tombstone: bool = False


async def import_first(
    db: Database,
    *,
    line: str,
    records: AsyncIterable[ImportRecord],
    origin: Mapping[str, Any],
    import_digest: bytes | None,
) -> ManifestRow:
    """Make generation 1 of a line, in one transaction.

    Args:
        db: The database.
        line: A line without a manifest. It may not be published to meanwhile; it has nothing to publish to.
        records: In any order, each key once; none make an empty manifest.
        origin: What the manifest says of it: ``{kind: import, …}`` (JSON).
        import_digest: Of the source, 32 bytes; None for none.

    Raises:
        ConflictError: If the line has a manifest already.
        DuplicateKeyError: If a key comes twice.
        TooLargeError: If there are too many records or scopes.
    """
    async with db.transaction() as conn:
        head = await lines.lock_head(conn, line)
        if head.head_generation:
            raise ConflictError("The baseline has records already.", hint="A later import is reviewed: see its job.")
        filled = await fill(conn, line=line, generation=1, records=records)
        if import_digest is not None:
            await lines.set_import_digest(conn, line=line, digest=import_digest)
        return await publish.seal(conn, head=head, root=filled.root, records=filled.live, events=(), origin=origin)


@dataclass(frozen=True, slots=True)
class Filled:
    """What was written.

    Attributes:
        root: Root of the trie over all of it, 32 bytes.
        live: Records that are no tombstones.
    """

    root: bytes
    live: int


async def fill(conn: Connection, *, line: str, generation: int, records: AsyncIterable[ImportRecord]) -> Filled:
    """Write all records of a line that has none, and the trie over them.

    Args:
        conn: Inside a transaction, in which nobody else writes to the line.
        line: The line.
        generation: From which on they are to be seen.
        records: As for `import_first`.

    Raises:
        DuplicateKeyError: If a key comes twice.
        TooLargeError: If there are too many records or scopes.
    """
    await _sql.be_patient(conn)
    with SortedPairs() as pairs:
        live = await _copy_records(conn, line=line, generation=generation, records=records, pairs=pairs)
        root = await _copy_trie(conn, line=line, generation=generation, pairs=pairs)
    return Filled(root, live)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some records as the tables take them; how many of them are live."""

    live: int
    scopes: set[str]
    versions: list[tuple[Any, ...]]
    bodies: dict[bytes, bytes]
    facts: dict[bytes, bytes]


async def _copy_records(
    conn: Connection, *, line: str, generation: int, records: AsyncIterable[ImportRecord], pairs: SortedPairs
) -> int:
    count = 0
    scopes: set[str] = set()
    facts: set[bytes] = set()
    async for batch in _ahead(_prepared(_batches(records), line=line, generation=generation, pairs=pairs)):
        count += batch.live
        if count > LINE_RECORDS:
            raise TooLargeError(f"The import has more than {LINE_RECORDS:,} records.", hint="Split the baseline.")
        if not scopes.issuperset(batch.scopes):
            scopes |= batch.scopes
            await lines.add_scopes(conn, line=line, scopes=batch.scopes)
        await _copy_batch(conn, line=line, batch=batch, known=facts)
    return count


async def _prepared(
    batches: AsyncIterator[list[ImportRecord]], *, line: str, generation: int, pairs: SortedPairs
) -> AsyncIterator[_Batch]:
    async for batch in batches:
        yield await asyncio.to_thread(_prepare, batch, line, generation, pairs)


def _prepare(batch: Sequence[ImportRecord], line: str, generation: int, pairs: SortedPairs) -> _Batch:
    """Make some records ready, and take in their pairs."""
    hashes = {body: sha256(body) for body in {record.fact_body for record in batch}}
    rows = [
        (
            line,
            record.key,
            generation,
            record.revision,
            record.scope,
            record.content_hash,
            hashes[record.fact_body],
            record.tombstone,
        )
        for record in batch
    ]
    pairs.extend(
        trie.Descriptor(
            key=record.key,
            revision=record.revision,
            scope=record.scope,
            content_hash=record.content_hash,
            fact_hash=hashes[record.fact_body],
            tombstone=record.tombstone,
        ).pair
        for record in batch
    )
    return _Batch(
        live=sum(not record.tombstone for record in batch),
        scopes={record.scope for record in batch},
        versions=rows,
        bodies={record.content_hash: record.content_body for record in batch if not record.tombstone},
        facts={digest: body for body, digest in hashes.items()},
    )


async def _copy_batch(conn: Connection, *, line: str, batch: _Batch, known: set[bytes]) -> None:
    try:
        await conn.copy_records_to_table("record_versions", columns=_VERSION_COLUMNS, records=batch.versions)
    except asyncpg.UniqueViolationError as error:
        raise DuplicateKeyError(
            f"A key comes twice: {error.detail or error}.", hint="Give each record a key of its own."
        ) from None
    await _copy_bodies(
        conn, table="contents", key="content_hash", line=line, bodies=batch.bodies, add=contents.put_many
    )
    facts = {digest: body for digest, body in batch.facts.items() if digest not in known}
    await _copy_bodies(conn, table="facts", key="fact_hash", line=line, bodies=facts, add=versions.add_facts)
    if len(known) > _FACTS_KNOWN:
        known.clear()
    known.update(facts)


async def _copy_bodies(  # noqa: PLR0913  (two tables of one shape)
    conn: Connection, *, table: str, key: str, line: str, bodies: dict[bytes, bytes], add: _Add
) -> None:
    """Store bodies by their hash: by COPY, or where one is there already, by the statement that passes over it."""
    if not bodies:
        return
    try:
        async with conn.transaction():
            await conn.copy_records_to_table(
                table,
                columns=("line", key, "body"),
                records=[(line, digest, bodies[digest]) for digest in sorted(bodies)],
            )
    except asyncpg.UniqueViolationError:
        await add(conn, line=line, bodies=bodies)


async def _copy_trie(conn: Connection, *, line: str, generation: int, pairs: SortedPairs) -> bytes:
    """Store the nodes over some pairs; the root's hash."""
    root = trie.EMPTY_ROOT
    async for nodes in _ahead(_nodes(trie.build(pairs))):
        rows = [(line, node.path, generation, node.hash, node.body) for node in nodes]
        await conn.copy_records_to_table("trie_nodes", columns=_NODE_COLUMNS, records=rows)
        root = nodes[-1].hash
    return root


async def _nodes(built: Iterator[trie.TrieNode]) -> AsyncIterator[list[trie.TrieNode]]:
    while some := await asyncio.to_thread(lambda: list(islice(built, _NODES))):
        yield some


async def _ahead(batches: AsyncIterator[_T]) -> AsyncIterator[_T]:
    """The same batches, each made while Postgres takes in the one before."""
    task = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await task) is not None:
            task = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # whoever stops us has a reason of his own


async def _batches(records: AsyncIterable[ImportRecord]) -> AsyncIterator[list[ImportRecord]]:
    """The records some at a time, by number and by size."""
    batch: list[ImportRecord] = []
    size = 0
    async for record in records:
        batch.append(record)
        size += len(record.content_body) + len(record.fact_body)
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
