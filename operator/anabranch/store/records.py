"""Records as of a generation: point reads, pages, differences.

Every reader names the manifest in the statement that reads, so a generation that is pruned meanwhile is an error (410)
and never a short page. Scopes are part of each query: what a caller may not read does not leave the database. ``None``
for scopes is for the operator, which reads all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from anabranch.model.errors import NotFoundError
from anabranch.store import manifests, queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from anabranch.model.errors import AnabranchError
    from anabranch.store.database import Connection

_sql: Final = queries.load("records")

_LAST_CHARACTER: Final = "\U0010ffff"
_BELOW_ALL: Final = _LAST_CHARACTER * 129
"""Greater than every key: those have 512 bytes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """A version of a record.

    Attributes:
        key: The record's key.
        revision: The line's revision that wrote it.
        scope: Where it is visible.
        content_hash: SHA-256 of the content's canonical bytes.
        fact_hash: SHA-256 of the provenance's canonical bytes.
        tombstone: Whether this version deletes the key.
        body: The content's canonical bytes; None where they were not asked for, and of a tombstone.
        fact_body: The provenance's canonical bytes; None where they were not asked for.
    """

    key: str
    revision: int
    scope: str
    content_hash: bytes
    fact_hash: bytes
    tombstone: bool
    body: bytes | None = None
    fact_body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where records are read.

    Attributes:
        line: The line.
        generation: None: the one that is current when it is read.
        scopes: Those to be seen; None for all.
    """

    line: str
    generation: int | None
    scopes: tuple[str, ...] | None


Reading: TypeAlias = "tuple[int, RecordRow | None]"
"""The generation that was read, and the record that it has there, tombstones included."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records.

    Attributes:
        generation: That they were read at; page cursors carry it.
        records: The records.
        more: Whether there may be more behind them.
    """

    generation: int
    records: Sequence[RecordRow]
    more: bool


async def read(
    conn: Connection, *, line: str, generation: int | None = None, key: str, scopes: Sequence[str] | None
) -> tuple[int, RecordRow | None]:
    """One record, tombstones included, and the generation that it was read at.

    Args:
        conn: A connection.
        line: The line.
        generation: None reads the current one.
        key: The record's key.
        scopes: Those to be seen; None for all.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    row = _found(await _sql.read(conn, line=line, generation=generation, key=key, scopes=_array(scopes)))
    return row["generation"], None if row["key"] is None else _record(row)


async def read_each(conn: Connection, wanted: Sequence[tuple[Place, str]]) -> list[Reading | AnabranchError]:
    """Records of lines whose Baselines are there, all in one statement, and so of one snapshot.

    Args:
        conn: A connection.
        wanted: A place and a key each.

    Returns:
        For each of them, in their order, what `read` gives or raises. A line whose Baseline was deleted is none.
    """
    numbers: dict[Place, int] = {}
    for place, _ in wanted:
        numbers.setdefault(place, len(numbers) + 1)
    results: list[Reading | AnabranchError] = [no_line()] * len(wanted)
    found = await queries.rows(
        _sql.read_each(
            conn,
            lines=[place.line for place in numbers],
            generations=[place.generation for place in numbers],
            scopes=[_array_literal(place.scopes) for place in numbers],
            keys=[key for _, key in wanted],
            numbers=[numbers[place] for place, _ in wanted],
        ),
        lambda row: row,
    )
    for row in found:
        if row["generation"] is None:
            result: Reading | AnabranchError = manifests.missing(
                row["wanted_generation"], head_generation=row["head_generation"]
            )
        else:
            result = row["generation"], None if row["key"] is None else _record(row)
        results[row["place"] - 1] = result
    return results


async def page(  # noqa: PLR0913  (a page has that many bounds)
    conn: Connection,
    *,
    line: str,
    generation: int | None = None,
    after_key: str = "",
    limit: int,
    scopes: Sequence[str] | None,
    prefix: str = "",
    tombstones: bool = False,
    size: int | None = None,
) -> RecordPage:
    """Records in the order of their keys (by code point).

    Args:
        conn: A connection.
        line: The line.
        generation: None reads the current one.
        after_key: The last key of the page before.
        limit: How many at most.
        scopes: Those to be seen; None for all.
        prefix: Only keys that begin so.
        tombstones: Whether deleted keys are listed too.
        size: Bytes of bodies from which on no further record comes; None: all come.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    found, more = await queries.bounded(
        _sql.page(
            conn,
            line=line,
            generation=generation,
            after_key=after_key,
            from_key=prefix,
            below_key=_after_prefix(prefix),
            scopes=_array(scopes),
            tombstones=tombstones,
            limit=limit,
            bytes=size,
        ),
        lambda row: row,
        limit=limit,
    )
    first = _found(found[0] if found else None)
    if first["key"] is None:
        return RecordPage(first["generation"], [], more=False)
    return RecordPage(first["generation"], list(map(_record, found)), more)


async def current_of(
    conn: Connection, *, line: str, generation: int, keys: Collection[str], bodies: bool = False
) -> dict[str, RecordRow]:
    """The records of some keys, tombstones included; a key that has none is left out.

    Args:
        conn: A connection.
        line: The line.
        generation: At which.
        keys: Which.
        bodies: Whether content and provenance are read too.

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    found = await queries.rows(
        _sql.current_of(conn, line=line, generation=generation, keys=list(keys), bodies=bodies), lambda row: row
    )
    _found(found[0] if found else None)
    return {row["key"]: _record(row) for row in found if row["key"] is not None}


async def at_revision(conn: Connection, *, line: str, key: str, revision: int) -> RecordRow | None:
    """The version of a key that a revision wrote, if a retained generation shows it; without its bodies.

    A restore writes old content as a new revision, so one revision names one version.
    """
    row = await _sql.at_revision(conn, line=line, key=key, revision=revision)
    return None if row is None else _record(row)


async def facts(conn: Connection, *, line: str, hashes: Collection[bytes]) -> dict[bytes, bytes]:
    """Provenance (canonical bytes) by its hash, of those hashes that are stored."""
    found = _sql.facts(conn, line=line, hashes=list(hashes))
    return dict(await queries.rows(found, lambda row: (row["fact_hash"], row["body"])))


async def count(conn: Connection, *, line: str, generation: int, scopes: Sequence[str] | None) -> int:
    """How many live records a generation has in some scopes; it reads them all (the manifest has the whole number).

    Raises:
        GoneError: If the generation was pruned.
        NotFoundError: If there never was such a generation, or line.
    """
    row = _found(await _sql.count(conn, line=line, generation=generation, scopes=_array(scopes)))
    return int(row["records"])


def _found(row: Any) -> Any:
    """The row, if it tells of a manifest."""
    if row is None:
        raise no_line()
    if row["generation"] is None:
        raise manifests.missing(row["wanted_generation"], head_generation=row["head_generation"])
    return row


def no_line() -> NotFoundError:
    """What is answered about a line that there is not."""
    return NotFoundError("There is no such line.", hint="Check the id.")


def _array(scopes: Iterable[str] | None) -> list[str] | None:
    return None if scopes is None else list(scopes)


def _array_literal(scopes: Iterable[str] | None) -> str | None:
    """Scopes as Postgres writes an array; quoted, or the scope ``null`` would be none. No scope holds a quote."""
    return None if scopes is None else "{" + ",".join(f'"{scope}"' for scope in scopes) + "}"


def _after_prefix(prefix: str) -> str:
    """The least text that is greater than every text with this prefix, by code point."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return _BELOW_ALL
    successor = ord(kept[-1]) + 1
    # Surrogates are no characters of a text.
    return kept[:-1] + chr(0xE000 if successor == 0xD800 else successor)


def _record(row: Any) -> RecordRow:
    return RecordRow(
        key=row["key"],
        revision=row["revision"],
        scope=row["scope"],
        content_hash=row["content_hash"],
        fact_hash=row["fact_hash"],
        tombstone=row["tombstone"],
        body=None if row["tombstone"] else row["body"],
        fact_body=row["fact_body"],
    )
